# SPDX-License-Identifier: Apache-2.0
"""The identity of a sample in several rows."""

import pyarrow as pa
import pytest

import zenlake
from tests.tables.fixtures import PCAPS, row
from zenlake.errors import InvalidValue
from zenlake.tables.deduplicate import deduplicate
from zenlake.tables.schemas import TABLES

TAPS = "tcp/1->r#base.1.1", "tcp/2->r#spare.1.1"


def seen(samples):
    """The same samples, recorded by two taps: the second a little later."""
    rows = [
        row(us + 100 * i, packet, session=tap, **{"kind": "put", "key": "a", **values})
        for i, tap in enumerate(TAPS)
        for packet, (us, values) in enumerate(samples)
    ]
    return pa.Table.from_pylist(rows, schema=TABLES["samples"])


EVENTS = TABLES["events"].empty_table()


def once(samples):
    return deduplicate(seen(samples), EVENTS, ["session", "payload"]).to_pylist()


def stamped(ntp64, clock="1", **values):
    return {"ntp64": ntp64, "timestamp_id": clock, **values}


def counted(sn, zid="z", **values):
    return {"source_zid": zid, "source_eid": 1, "source_sn": sn, **values}


@pytest.mark.parametrize("known", [stamped, counted], ids=["by its time", "by its publisher's count"])
def test_a_sample_recorded_twice_is_one_row_as_first_received(known):
    samples = [(1, known(1, payload=b"x")), (2, known(2, payload=b"x")), (3, known(2, "other", payload=b"y"))]
    assert once(samples) == [{"session": TAPS[0], "payload": payload} for payload in (b"x", b"x", b"y")]


def test_a_row_with_a_payload_takes_precedence_over_a_redacted_one():
    """The first tap redacts the values of cameras, and receives everything a little earlier."""
    rows = seen([(1, stamped(1, payload=b"image")), (2, stamped(2, key="b", payload=b"pose"))]).to_pylist()
    rows[0] |= {"payload": None, "payload_sha256": "00"}
    found = deduplicate(
        pa.Table.from_pylist(rows, schema=TABLES["samples"]), EVENTS, ["session", "payload"]
    ).to_pylist()
    assert found == [{"session": TAPS[0], "payload": b"pose"}, {"session": TAPS[1], "payload": b"image"}]


def test_one_clock_may_stamp_two_keys_alike():
    assert len(once([(1, stamped(1, key="a")), (2, stamped(1, key="b"))])) == 2


def test_samples_without_identity_are_not_deduplicated():
    assert len(once([(1, {"payload": b"x"}), (2, {"payload": b"x"})])) == 4


def test_answers_are_no_publications():
    assert once([(1, stamped(1, request_id=7))]) == []


def test_only_samples_are_deduplicated():
    with pytest.raises(InvalidValue, match="once=True applies only to table 'samples', not 'messages'"):
        zenlake.read(PCAPS[0], "messages", once=True)
