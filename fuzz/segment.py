# SPDX-License-Identifier: Apache-2.0
# Any bytes in place of a segment are reported by verify, or reading gives the recorded rows. Reading gives rows or a LogError,
# also after repair. After repair, verify finds no damage.
"""Segments of the wire log, as a disk may have changed them."""

import logging
import shutil
import tempfile
from pathlib import Path

from tests.lake.fixtures import add, decoded, rows

from zenlake.errors import LogError
from zenlake.log import Log, Writer
from zenlake.log.layout import segment_name
from zenlake.log.verify_repair import repair, verify

FOLDER = tempfile.TemporaryDirectory()
RECORDED, PLACE = Path(FOLDER.name, "recorded"), Path(FOLDER.name, "log")
SEGMENT = Path("tap-1", segment_name(1))

with Writer(RECORDED, "tap-1", sync="sealed", block_size=400) as writer:
    add(writer, sessions=1, size=5, has_stacks=False)  # `tests/test_fuzz.py` knows bytes of it
CORPUS = [(RECORDED / SEGMENT).read_bytes()]
SAMPLES = rows(decoded(RECORDED)["samples"])

logging.getLogger("zenlake.log").setLevel(logging.ERROR)  # repair logs its actions


def check(data: bytes) -> None:
    shutil.rmtree(PLACE, ignore_errors=True)
    shutil.copytree(RECORDED, PLACE)
    (PLACE / SEGMENT).write_bytes(data)
    wrong = [each.wrong for each in verify(Log(PLACE)) if each.wrong]
    try:
        found = rows(decoded(PLACE)["samples"])
    except LogError:
        assert wrong
    else:
        assert wrong or found == SAMPLES
    for _ in repair(PLACE):
        pass
    left = [each.wrong for each in verify(Log(PLACE)) if each.wrong]
    assert not left, left
    decoded(PLACE)
