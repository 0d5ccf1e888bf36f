# SPDX-License-Identifier: Apache-2.0
# Any file is rejected or gives valid tables. If no TCP segment is missing, one pass and one range per packet give the same rows.
"""Capture files, the input of `zenlake.capture.open`."""

import logging
import tempfile
from collections import Counter
from pathlib import Path

from tests.capture.forge import pcap, pcapng
from tests.capture.test_splits import EVERYTHING, in_ranges, packets_of
from tests.vectors import HERE

from zenlake import capture
from zenlake.capture.decode import Decoded, decode
from zenlake.errors import InvalidValue

LONGEST = 4096

CORPUS = [path.read_bytes()[:LONGEST] for path in sorted((HERE / "pcap").glob("*.pcap"))]
CORPUS += [
    form(packets_of(seed, sessions)[:40])[:LONGEST] for form in (pcap, pcapng) for seed, sessions in ((1, 1), (2, 3))
]

FOLDER = tempfile.TemporaryDirectory()
PATH = Path(FOLDER.name, "fuzz.pcap")

logging.getLogger("zenlake.capture").setLevel(logging.ERROR)  # truncated files are expected here


def rows(found: Decoded) -> Counter[str]:
    """Return the rows without their order: rows of two sessions may be swapped around a cut."""
    counted: Counter[str] = Counter()
    for table, batch in found:
        batch.validate(full=True)
        counted.update(f"{table} {row}" for row in batch.to_pylist())
    return counted


def check(data: bytes) -> None:
    PATH.write_bytes(data)
    try:
        whole = rows(decode(capture.open(PATH), EVERYTHING))
    except InvalidValue:
        return
    apart = rows(iter(in_ranges(PATH, 1)[0]))
    # After a gap, messages are decoded late, and so are the declarations in them.
    if not any("capture missing" in row for row in whole):
        assert apart == whole
