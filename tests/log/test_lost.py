# SPDX-License-Identifier: Apache-2.0
"""A lost large message has two rows in `events`: the reason, and the number of later fragments."""

import pytest

from tests.log.fixtures import Hasty, tables
from zenlake.log import Log, Writer
from zenlake.wire.transport import Fragment

COUNT = 1000


@pytest.mark.parametrize("missing", [0, 1, 500], ids=["the first", "the second", "one between"])
def test_a_lost_message_is_two_rows_also_when_read_from_the_middle(tmp_path, missing):
    with Writer(tmp_path, "w", sync="sealed", block_size=5000, disk=Hasty()) as writer:
        face = writer.face("tcp", "a:1", "b:2")
        for sn in range(COUNT):
            if sn != missing:
                part = Fragment(sn=sn, first=sn == 0, more=sn + 1 < COUNT, payload=bytes(50))
                writer.append(face, 0, part.encode())
            if sn == 700:
                writer.flush()
                writer.seal()
    log = Log(tmp_path)
    wanted = {"events": ["kind", "sn", "count", "detail"]}
    rows = tables(log, log.plan(), wanted)["events"].to_pylist()
    lost = [(row["sn"], row["count"], row["detail"]) for row in rows if row["kind"] == "lost"]
    first = missing + 1
    why = "a fragment is missing" if missing else "a fragment without the first one"
    assert lost == [(first, 1, why), (first + 1, COUNT - first - 1, "the rest of a message that was lost")]
    parts = [row for part in log.plan(size=1) for row in tables(log, [part], wanted)["events"].to_pylist()]
    assert parts == rows
