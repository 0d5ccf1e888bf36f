# SPDX-License-Identifier: Apache-2.0
"""The state of both ends of a session."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenlake.session import KeyTable, Lanes, SessionState
from zenlake.session.lanes import lane_of, mask_of
from zenlake.wire.declare import DeclareKeyExpr
from zenlake.wire.handshake import Init, Join, Open
from zenlake.wire.network import Push
from zenlake.wire.transport import Fragment

OLD, OUT_OF_RANGE = -1, -2


# The sequence-number rule (companion transport.md), as its pseudo-code has it.


@given(st.sampled_from([0, 1, 2]), st.data())
def test_a_number_is_new_if_it_is_less_than_half_the_space_ahead(resolution, data):
    mask = mask_of(resolution)
    last, sn = data.draw(st.integers(0, mask)), data.draw(st.integers(0, mask))
    lanes = Lanes()
    lanes.mask = mask
    lanes.start((last + 1) & mask)
    gap = (sn - last) & mask
    expected = gap - 1 if gap != 0 and gap <= mask >> 1 else OLD
    assert lanes.accept(lane_of(5, True), sn) == expected


def test_the_space_is_smaller_than_the_resolutions_name():
    assert [mask_of(code) for code in (0, 1, 2)] == [0x7F, 0x3FFF, 0x0FFFFFFF]
    lanes = Lanes()
    lanes.start(0x0FFFFFFF)
    assert lanes.accept(0, 0x0FFFFFFF) == 0
    assert lanes.accept(0, 0) == 0  # wraps
    assert lanes.accept(0, 1 << 28) == OUT_OF_RANGE


def test_lanes_are_independent():
    lanes = Lanes()
    lanes.start(10)
    assert [lanes.accept(lane, 10) for lane in range(16)] == [0] * 16
    assert [lanes.accept(lane, 10) for lane in range(16)] == [OLD] * 16


def test_a_lane_joined_midway_accepts_the_first_number():
    lanes = Lanes()
    assert lanes.accept(3, 12345) == 0
    assert lanes.accept(3, 12345) == OLD
    assert lanes.accept(3, 12348) == 2


# Reassembly, as in the probes of a router of eclipse-zenoh.


def pieces(count, first=True, start=0):
    return [
        Fragment(sn=start + i, first=first and i == 0, more=i + 1 < count, payload=b"part%d" % i) for i in range(count)
    ]


def joined(lanes, fragments):
    return [lanes.join(5, fragment) for fragment in fragments]


def test_fragments_join_in_order():
    lanes = Lanes()
    assert joined(lanes, pieces(3)) == [0, 0, 1]
    assert lanes.pieces[5] == 3
    assert lanes.take(5) == b"part0part1part2"


def test_without_first_they_are_lost_under_patch_1_and_join_under_patch_0():
    lanes = Lanes()
    assert joined(lanes, pieces(2, first=False)) == [-2, -7]
    lanes.patch = 0
    assert joined(lanes, pieces(2, first=False)) == [0, 1]


def test_a_missing_middle_loses_the_message_but_not_the_next():
    lanes = Lanes()
    one, _, three = pieces(3)
    assert joined(lanes, [one, three]) == [0, -3]
    assert joined(lanes, pieces(2, start=3)) == [0, 1]


def test_drop_ends_the_message():
    lanes = Lanes()
    assert joined(lanes, [pieces(2)[0], Fragment(sn=1, drop=True)]) == [0, -4]


def test_first_restarts_the_reassembly():
    lanes = Lanes()
    assert joined(lanes, [pieces(2)[0], *pieces(2, start=1)]) == [0, 0, 1]


def test_a_message_may_not_outgrow_the_limit():
    lanes = Lanes()
    lanes.max_message_size = 8
    assert joined(lanes, pieces(2)) == [0, -5]


# Keys


@given(st.dictionaries(st.integers(1, 65535), st.binary(min_size=1, max_size=40), max_size=40), st.data())
def test_a_table_returns_the_declared_keys(keys, data):
    table = KeyTable()
    for id, key in keys.items():
        assert table.declare(id, key)
    forgotten = set(data.draw(st.lists(st.sampled_from(sorted(keys)), unique=True))) if keys else set()
    for id in forgotten:
        table.forget(id)
    for id, key in keys.items():
        assert table.get(id) == (None if id in forgotten else key)
    again = {id: b"again" + key for id, key in keys.items() if id in forgotten}
    for id, key in again.items():
        assert table.declare(id, key)
        assert table.get(id) == key
    assert len(table) == len(keys)


def test_the_first_meaning_of_an_id_stays():
    table = KeyTable()
    assert table.declare(3, b"r/one")
    assert table.declare(3, b"r/one")
    assert not table.declare(3, b"r/two")
    assert table.get(3) == b"r/one"


@pytest.mark.parametrize("id", [0, -1, 65536])
def test_ids_outside_the_range_are_refused(id):
    with pytest.raises(ValueError, match="1 to 65535"):
        KeyTable().declare(id, b"k")
    assert KeyTable().get(id) is None


def test_declaring_and_forgetting_without_end_takes_no_more_memory_than_its_keys():
    table = KeyTable()
    for i in range(50_000):
        table.declare(1 + i % 100, b"k" * 100)
        if i % 100 == 99:
            for id in range(1, 101):
                table.forget(id)
    assert table.room <= 256


def test_both_mapping_spaces():
    session = SessionState()
    declared = DeclareKeyExpr(id=1, key="demo/example")
    assert session.declare_key(0, 1, declared.key)
    own = Push(key=(1, True, "/pub")).key
    theirs = Push(key=(1, False, "/pub")).key
    assert session.key(0, own) == "demo/example/pub"  # the opener's own id
    assert session.key(1, theirs) == "demo/example/pub"  # the acceptor uses the opener's id
    assert session.key(1, own) is None
    assert session.key(0, theirs) is None


# Negotiation


def negotiated(syn: dict, ack: dict) -> SessionState:
    session = SessionState()
    session.init(0, Init(zid=b"\1", **syn))
    session.init(1, Init(ack=True, whatami=0, zid=b"\2", cookie=b"c", **ack))
    return session


def test_the_smaller_size_and_the_features_of_both_hold():
    session = negotiated(
        {"sized": True, "resolution": 0x0F, "batch_size": 2048, "qos": True, "compression": True, "patch": 2},
        {"sized": True, "resolution": 0x01, "batch_size": 65535, "qos": True, "low_latency": True, "patch": 1},
    )
    assert (session.resolution, session.batch_size, session.patch) == (0x01, 2048, 1)
    assert (session.qos, session.compression, session.low_latency) == (True, False, False)
    assert session.opener.lanes.mask == 0x3FFF


def test_a_new_handshake_on_the_same_connection_is_a_new_generation():
    session = negotiated({}, {})
    assert session.on_open(0, Open(lease=1, initial_sn=5, cookie=b"c")) == 0
    assert session.on_open(1, Open(ack=True, lease=1, initial_sn=6)) != 0
    session.declare_key(0, 1, DeclareKeyExpr(id=1, key="k").key)
    assert (session.generation, bool(session.is_open)) == (1, True)
    session.init(0, Init(zid=b"\1"))
    assert (session.generation, bool(session.is_open), len(session.opener.keys)) == (2, False, 0)


def test_join_sets_every_lane():
    session = SessionState()
    lanes = [(10 * p, 10 * p + 5) for p in range(8)]
    assert session.on_join(Join(zid=b"\1", whatami=1, lease=10, seconds=True, lanes=lanes, patch=1))
    assert session.opener.lanes.accept(lane_of(3, True), 30) == 0
    assert session.opener.lanes.accept(lane_of(3, False), 35) == 0
    assert not session.on_join(Join(zid=b"\1", whatami=1, lease=10, seconds=True, lanes=lanes, patch=1))


def test_a_session_saved_and_restored_is_the_same():
    session = negotiated({"qos": True, "patch": 1}, {"qos": True, "patch": 1})
    session.on_open(0, Open(lease=1, initial_sn=5, cookie=b"c"))
    session.declare_key(0, 7, DeclareKeyExpr(id=7, key="a/é").key)
    session.opener.lanes.join(5, pieces(2)[0])
    again = SessionState.restore(session.save())
    assert again.save() == session.save()
    assert again.opener.lanes.join(5, pieces(2)[1]) == 1
    assert again.opener.lanes.take(5) == b"part0part1"


@pytest.mark.parametrize("sn", [1 << 28 | 5, 1 << 63 | 5, (1 << 64) - (1 << 28) + 5])
def test_a_first_number_outside_the_range_is_taken_into_it(sn):
    opened, joined = SessionState("opened"), SessionState("joined")
    opened.on_open(0, Open(initial_sn=sn))
    joined.on_join(Join(zid=b"\x01", reliable_sn=sn, best_effort_sn=sn))
    for session in (opened, joined):
        assert session.opener.lanes.accept(lane_of(5, True), 5) == 0
