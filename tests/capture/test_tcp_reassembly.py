# SPDX-License-Identifier: Apache-2.0
"""Captured TCP segments: early, late, repeated, overlapping, truncated, missing. The same byte stream gives the same batches."""

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.capture import forge
from tests.capture.forge import (
    CLOSE,
    HANDSHAKE,
    KEEP_ALIVE,
    Connection,
    add_prefix,
    fragment,
    frame,
    list_batches,
    read_packets,
    sum_notes,
)

TALK = [
    *HANDSHAKE,
    (0, frame(0, b"first")),
    (1, frame(0, b"answer" * 30)),
    (0, fragment(1, b"f" * 4000)),
    (0, fragment(2, b"g" * 4000, more=False)),
    (0, KEEP_ALIVE),
    (0, frame(3, b"x" * 700)),
    (1, KEEP_ALIVE),
    (0, frame(4, b"last")),
    (0, CLOSE),
]


def by_side(talk):
    return [[batch for side, batch in talk if side == s] for s in (0, 1)]


def batches_by_side(table):
    return by_side(list_batches(table))


def stream(side, talk=TALK):
    return b"".join(add_prefix(batch) for batch in by_side(talk)[side])


def opened(talk=HANDSHAKE):
    connection = Connection()
    return connection, connection.open() + connection.say(talk)


def sliced(connection, side, data, cuts):
    """Return segments of `data` from the current position of the connection."""
    edges = sorted({0, len(data), *cuts})
    start = connection.seq[side]
    out = [connection.segment(side, start + a, data[a:b]) for a, b in itertools.pairwise(edges)]
    connection.seq[side] = start + len(data) & 0xFFFFFFFF
    return out


def test_a_batch_in_segments_of_one_byte(tmp_path):
    connection, packets = opened()
    data = add_prefix(frame(0)) + add_prefix(KEEP_ALIVE) + add_prefix(frame(1))
    packets += sliced(connection, 0, data, range(len(data)))
    found, table = read_packets(tmp_path, packets)
    assert list_batches(table) == [*HANDSHAKE, (0, frame(0)), (0, KEEP_ALIVE), (0, frame(1))]
    assert sum_notes(found) == {}


def test_many_batches_in_one_segment(tmp_path):
    connection, packets = opened()
    packets.append(connection.send(0, b"".join(add_prefix(frame(i)) for i in range(200))))
    _, table = read_packets(tmp_path, packets)
    assert list_batches(table) == HANDSHAKE + [(0, frame(i)) for i in range(200)]
    assert table["packet"].to_pylist()[-200:] == [8] * 200


def test_segments_out_of_order(tmp_path):
    connection, packets = opened()
    one, two, three = connection.say([(0, frame(0)), (0, frame(1)), (0, frame(2))])
    found, table = read_packets(tmp_path, [*packets, three, two, one])
    assert list_batches(table) == HANDSHAKE + [(0, frame(i)) for i in range(3)]
    assert table["packet"].to_pylist()[-3:] == [10, 10, 10]  # none could be delivered before the last one arrived
    assert sum_notes(found) == {("out-of-order", 0): (2, 2 * len(add_prefix(frame(0))))}


def test_a_segment_sent_again(tmp_path):
    connection, packets = opened()
    seq = connection.seq[0]
    data = add_prefix(frame(0))
    packets += [connection.send(0, data), connection.send(0, add_prefix(frame(1))), connection.segment(0, seq, data)]
    found, table = read_packets(tmp_path, packets)
    assert list_batches(table) == [*HANDSHAKE, (0, frame(0)), (0, frame(1))]
    assert sum_notes(found) == {("retransmitted", 0): (1, len(data))}


def test_a_packet_captured_twice(tmp_path):
    _connection, packets = opened([*HANDSHAKE, (0, frame(0)), (1, frame(1))])
    found, table = read_packets(tmp_path, [packet for packet in packets for _ in range(2)])
    assert list_batches(table) == [*HANDSHAKE, (0, frame(0)), (1, frame(1))]
    ((kind, (count, _)),) = sum_notes(found).items()
    assert kind == ("duplicated", 0)
    assert count == 6


def test_a_segment_that_overlaps_earlier_and_later_segments(tmp_path):
    connection, packets = opened()
    data = b"".join(add_prefix(frame(i, b"z" * 50)) for i in range(4))
    start = connection.seq[0]
    packets += [
        connection.segment(0, start, data[:100]),
        connection.segment(0, start + 150, data[150:220]),  # early
        connection.segment(0, start + 60, data[60:180]),  # 40 old bytes, 50 new, 30 that are held already
        connection.segment(0, start + 200, data[200:]),
    ]
    found, table = read_packets(tmp_path, packets)
    assert list_batches(table) == HANDSHAKE + [(0, frame(i, b"z" * 50)) for i in range(4)]
    assert sum_notes(found)["retransmitted", 0] == (3, 40 + 30 + 20)


def test_sequence_numbers_wrap(tmp_path):
    connection = Connection(seq=[0xFFFFFFF0, 0xFFFFFF00])
    packets = connection.open() + connection.say(TALK)
    packets[7], packets[9] = packets[9], packets[7]
    _, table = read_packets(tmp_path, packets)
    assert batches_by_side(table) == by_side(TALK)


def test_a_gap_inside_a_batch_costs_that_batch_only(tmp_path):
    connection, packets = opened()
    big = add_prefix(fragment(0, b"q" * 5000))
    parts = sliced(connection, 0, big, [1000, 2000, 3000])
    packets += [parts[0], parts[1], parts[3], *connection.say([(0, frame(1)), (0, frame(2))])]
    found, table = read_packets(tmp_path, packets)
    assert list_batches(table) == [*HANDSHAKE, (0, frame(1)), (0, frame(2))]
    sums = sum_notes(found)
    assert sums["missing", 0] == (1, 1000)
    assert sums["unfinished", 0] == (1, 2000)
    assert sums["skipped", 0] == (1, len(big) - 3000)


def test_after_a_gap_the_next_believable_batch_is_found(tmp_path):
    connection, packets = opened()
    data = b"".join(add_prefix(frame(i, b"w" * 300)) for i in range(10))
    parts = sliced(connection, 0, data, range(500, len(data), 500))
    del parts[1]
    found, table = read_packets(tmp_path, packets + parts)
    got = list_batches(table)[4:]
    assert got[0] == (0, frame(0, b"w" * 300))
    assert got[1:] == [(0, frame(i, b"w" * 300)) for i in range(10 - len(got) + 1, 10)]
    assert len(got) >= 6
    sums = sum_notes(found)
    assert sums["missing", 0] == (1, 500)
    accounted = sum(table["wire_size"].to_pylist()) + sum(sums[k, 0][1] for k in ("missing", "unfinished", "skipped"))
    assert accounted == len(data) + sum(len(add_prefix(batch)) for _, batch in HANDSHAKE)


def test_a_gap_that_was_acknowledged_is_not_waited_for(tmp_path):
    connection, packets = opened()
    connection.send(0, add_prefix(frame(0)))  # not captured
    packets += connection.say([(0, frame(1)), (1, frame(0, b"ack"))])
    times = [forge.START + i * 1000 for i in range(len(packets))]
    for sn in range(2, 6):
        packets += connection.say([(0, frame(sn))])
        times.append(times[-1] + 60_000_000)
    found, table = read_packets(tmp_path, packets, times=times)
    assert list_batches(table)[4:] == [(0, frame(1)), (1, frame(0, b"ack")), *((0, frame(i)) for i in (2, 3, 4, 5))]
    assert table["packet"].to_pylist()[4:] == [8, 9, 10, 11, 12, 13]  # each keeps its own packet
    assert sum_notes(found)["missing", 0] == (1, len(add_prefix(frame(0))))


def test_the_snap_length_cuts_batches(tmp_path):
    connection, packets = opened()
    packets += connection.say([(0, frame(0)), (0, frame(1, b"long" * 500)), (0, frame(2))])
    found, table = read_packets(tmp_path, packets, snaplen=200)
    assert list_batches(table) == [*HANDSHAKE, (0, frame(0)), (0, frame(2))]
    whole = len(packets[-2])
    assert sum_notes(found)["cut", 0] == (1, whole - 200)
    assert sum_notes(found)["unfinished", 0] == (1, 200 - 54)


def test_a_new_connection_between_the_same_ends_is_a_new_face(tmp_path):
    _first, packets = opened(TALK)
    second = Connection(seq=[777_777, 888_888])
    packets += second.open() + second.say(TALK)
    found, table = read_packets(tmp_path, packets)
    assert list_batches(table) == TALK + TALK
    assert table["face"].to_pylist() == [0] * len(TALK) + [1] * len(TALK)
    assert sum_notes(found) == {}


def test_a_repeated_syn_is_ignored(tmp_path):
    connection = Connection()
    syn = connection.segment(0, 1000, flags=0x02)
    packets = [syn, syn, *connection.open()[1:], *connection.say(TALK), syn]
    found, table = read_packets(tmp_path, packets)
    assert list_batches(table) == TALK
    assert len(found.faces) == 1


def test_only_syn_ack_was_captured(tmp_path):
    connection = Connection()
    packets = connection.open()[1:] + connection.say(TALK)
    found, table = read_packets(tmp_path, packets)
    assert list_batches(table) == TALK
    assert found.faces[0].client == connection.client


def test_a_wild_sequence_number_is_left_out(tmp_path):
    connection, packets = opened()
    packets.append(connection.segment(0, connection.seq[0] + 0x30000000, b"wild"))
    packets += connection.say([(0, frame(0))])
    found, table = read_packets(tmp_path, packets)
    assert list_batches(table) == [*HANDSHAKE, (0, frame(0))]
    assert sum_notes(found) == {("malformed", 0): (1, 4)}


def test_remaining_bytes_at_the_end_are_counted(tmp_path):
    connection, packets = opened()
    packets.append(connection.send(0, add_prefix(frame(0, b"x" * 500))[:100]))
    found, _ = read_packets(tmp_path, packets)
    assert sum_notes(found) == {("unfinished", 0): (1, 100)}


def test_little_is_held_for_a_gap_that_never_closes(tmp_path):
    connection, packets = opened()
    connection.send(0, add_prefix(frame(0)))  # not captured
    talk = [(0, frame(i, b"h" * 1000)) for i in range(1, 1500)]
    packets += connection.say(talk)
    found, table = read_packets(tmp_path, packets, times=[forge.START] * len(packets))
    assert list_batches(table) == HANDSHAKE + talk
    _count, size = sum_notes(found)["out-of-order", 0]
    assert size < (1 << 20) + 2000


@st.composite
def capture_orders(draw):
    """Draw both streams as segments of any size, some repeated or overlapping, in an order with limited displacement."""
    events = []
    for side in (0, 1):
        data = stream(side)
        cuts = sorted(draw(st.sets(st.integers(1, len(data) - 1), max_size=25)))
        edges = [0, *cuts, len(data)]
        for i, (a, b) in enumerate(itertools.pairwise(edges)):
            events.append((10 * i + side, side, a, b))
            if draw(st.booleans()) and draw(st.booleans()):  # again, beginning earlier, perhaps ending earlier
                start = draw(st.integers(max(0, a - 100), a))
                events.append((10 * i + draw(st.integers(0, 40)), side, start, draw(st.integers(start + 1, b))))
    shaken = [(place + draw(st.integers(-25, 25)), *rest) for place, *rest in events]
    return [rest for _, *rest in sorted(shaken)]


@given(capture_orders())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_cutting_and_order_gives_the_same_batches(tmp_path, events):
    connection = Connection()
    packets = connection.open()
    starts = list(connection.seq)
    streams = (stream(0), stream(1))
    packets += [connection.segment(side, starts[side] + a, streams[side][a:b]) for side, a, b in events]
    found, table = read_packets(tmp_path, packets)
    assert batches_by_side(table) == by_side(TALK)
    assert not {kind for kind, _ in sum_notes(found)} - {"out-of-order", "retransmitted", "duplicated"}


@given(st.sets(st.integers(7, 45)), st.integers(200, 900))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_lost_no_batch_is_made_up_and_every_byte_is_accounted_for(tmp_path, lost, size):
    connection, packets = opened()
    batches = [frame(i, bytes([i]) * (37 * i % 1500)) for i in range(30)]
    data = b"".join(add_prefix(batch) for batch in batches)
    packets += sliced(connection, 0, data, range(size, len(data), size))
    packets.append(connection.send(0, add_prefix(CLOSE)))
    kept = [packet for i, packet in enumerate(packets) if i not in lost]
    found, table = read_packets(tmp_path, kept)
    got = [batch for _, batch in list_batches(table)[4:]]
    places = [([*batches, CLOSE]).index(batch) for batch in got]
    assert places == sorted(set(places))
    sums = sum_notes(found)
    explained = sum(sums.get((kind, 0), (0, 0))[1] for kind in ("missing", "unfinished", "skipped"))
    last = max(i for i in range(len(packets)) if i not in lost)  # losses after it cannot be detected
    sent = sum(len(packet) - 54 for packet in packets[3 : last + 1])
    assert sum(table["wire_size"].to_pylist()) + explained == sent


@pytest.mark.parametrize("extra", [b"", b"\x00"])
def test_an_empty_batch_is_a_row(tmp_path, extra):
    connection, packets = opened()
    packets += [connection.send(0, b"\x00\x00"[: 2 - len(extra)]), connection.send(0, extra)][: 1 + len(extra)]
    packets += connection.say([(0, frame(0))])
    _, table = read_packets(tmp_path, packets)
    assert list_batches(table)[4:] == [(0, b""), (0, frame(0))]
