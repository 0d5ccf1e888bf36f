# SPDX-License-Identifier: Apache-2.0
# Any file is refused as no capture, or gives valid tables; and where no segment is missing, the same rows whether it is read in one
# pass or packet by packet, each a range of its own.
"""Capture files: what `zenlake.capture.open` takes."""

import logging
import tempfile
from collections import Counter
from pathlib import Path

from tests.capture.forge import pcap, pcapng
from tests.capture.test_ranges import EVERYTHING, in_ranges, packets_of
from tests.vectors import HERE

from zenlake import capture
from zenlake.capture.decoded import Decoded, decode
from zenlake.errors import InvalidValue

LONGEST = 4096

CORPUS = [path.read_bytes()[:LONGEST] for path in sorted((HERE / "pcap").glob("*.pcap"))]
CORPUS += [
    form(packets_of(seed, sessions)[:40])[:LONGEST] for form in (pcap, pcapng) for seed, sessions in ((1, 1), (2, 3))
]

FOLDER = tempfile.TemporaryDirectory()
PATH = Path(FOLDER.name, "fuzz.pcap")

logging.getLogger("zenlake.capture").setLevel(logging.ERROR)  # that a file ends inside a packet is no news here


def rows(found: Decoded) -> Counter[str]:
    """In any order: those of two sessions may change places around a cut."""
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
    if not any(
        "capture missing" in row for row in whole
    ):  # what came behind a hole is told late, and what it declares is known late
        assert apart == whole
