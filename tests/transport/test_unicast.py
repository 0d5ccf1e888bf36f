# SPDX-License-Identifier: Apache-2.0
"""One connection with a clock that the test sets: data in pieces, KEEP_ALIVE, lanes, fragments, the end."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transport.ends import Collector, Pair, framed, push
from zenlake.errors import CloseReason, EncodeError, LocalError
from zenlake.transport.unicast import Closed, Opened
from zenlake.wire.batch_reader import messages
from zenlake.wire.handshake import Close
from zenlake.wire.transport import Fragment, Frame, KeepAlive

KINDS = {
    "plain": {},
    "no qos": {"qos": False},
    "small batches": {"batch_size": 300},
    "8-bit numbers": {"resolution": 8},
    "compression": {"compression": True},
    "compression, small batches": {"compression": True, "batch_size": 300},
    "low latency": {"qos": False, "low_latency": True},
}
each_kind = pytest.mark.parametrize("kind", KINDS)
each_carrier = pytest.mark.parametrize("stream", [True, False], ids=["stream", "datagrams"])

sent = st.lists(
    st.tuples(
        st.integers(0, 1200).map(lambda size: bytes(i % 251 for i in range(size))),
        st.integers(0, 7),
        st.booleans(),
        st.booleans(),
    ),
    max_size=20,
)


@each_kind
@each_carrier
@given(what=sent)
@settings(max_examples=25)
def test_messages_arrive_in_the_order_of_their_lane(
    kind: str, stream: bool, what: list[tuple[bytes, int, bool, bool]]
) -> None:
    pair = Pair(stream, **KINDS[kind]).open()
    for number, (payload, priority, reliable, express) in enumerate(what):
        while not pair.opener.send(push(f"k/{number}", payload), priority, reliable, express=express):
            pair.pump()
    pair.pump()
    got = [(int(key[2:]), payload) for key, payload in pair.heard.got]
    assert sorted(got) == [(number, payload) for number, (payload, *_) in enumerate(what)]
    lanes: dict[tuple[int, bool], list[int]] = {}
    for number, _ in got:
        lanes.setdefault((what[number][1], what[number][2]), []).append(number)
    for numbers in lanes.values():
        assert numbers == sorted(numbers)
    assert (pair.acceptor.rx.missing, pair.acceptor.rx.old, pair.acceptor.rx.lost) == (0, 0, 0)
    if pair.opener.session.qos:
        assert pair.heard.lanes == [(what[number][1], what[number][2]) for number, _ in got]


@each_kind
@pytest.mark.parametrize("piece", [1, 2, 3, 7, 64])
def test_a_stream_may_be_cut_anywhere(kind: str, piece: int) -> None:
    """The whole life of a connection, handshake and CLOSE included, a few bytes at a time."""
    pair = Pair(queue_size=20, **KINDS[kind])
    pair.opener.start(pair.now)
    pair.pump(piece)
    for number in range(5):
        pair.opener.send(push(f"k/{number}", bytes(100 * number)))
        pair.acceptor.send(push(f"k/{number}", bytes(100 * number)))
    pair.pump(piece)
    pair.opener.close()
    pair.pump(piece)
    expected = [(f"k/{number}", bytes(100 * number)) for number in range(5)]
    assert pair.heard.got == pair.heard_by_opener.got == expected
    assert pair.ends() == [Closed(CloseReason.GENERIC, False), Closed(CloseReason.GENERIC, True)]
    assert pair.opener.is_finished


def test_encoded_bytes_travel_as_the_message_would() -> None:
    one, two = Pair().open(), Pair().open()
    message = push("a/b", b"payload")
    one.opener.send(message)
    two.opener.send(message.encode())
    assert [*one.batches(one.opener)] == [*two.batches(two.opener)]


def test_a_message_that_fails_to_encode_leaves_no_bytes() -> None:
    pair = Pair().open()
    with pytest.raises(EncodeError):
        pair.opener.send(push("a/b", b"", qos=1 << 20))
    pair.opener.send(push("a/b", b"good"))
    pair.pump()
    assert pair.heard.got == [("a/b", b"good")]
    assert pair.acceptor.rx.missing == 0


def test_messages_share_a_frame_until_reliability_changes() -> None:
    pair = Pair().open()
    for reliable in (True, True, False, True):
        pair.opener.send(push("k", b""), reliable=reliable)
    (batch,) = pair.batches(pair.opener)
    first = pair.opener.session.opener.initial_sn
    frames = [message for message in messages(batch[2:]) if isinstance(message, Frame)]
    assert frames == [
        Frame(reliable=True, sn=first),
        Frame(reliable=False, sn=first),
        Frame(reliable=True, sn=first + 1),
    ]


def test_an_express_message_ends_its_batch() -> None:
    pair = Pair().open()
    for express in (False, True, False):
        pair.opener.send(push("k", b""), express=express)
    assert [len(messages(batch[2:])) for batch in pair.batches(pair.opener)] == [3, 2]


def sizes(data: bytes) -> list[int]:
    """Return the batches of one write, each with its length prefix."""
    found, at = [], 0
    while at < len(data):
        found.append(2 + int.from_bytes(data[at : at + 2], "little"))
        at += found[-1]
    assert at == len(data)
    return found


def test_a_short_last_fragment_travels_with_the_one_before_it() -> None:
    pair = Pair().open()
    pair.opener.send(push("k", bytes(65536)))
    (write,) = pair.batches(pair.opener)
    assert sizes(write) == [65535, len(write) - 65535]
    pair.acceptor.receive(write, pair.now)
    assert pair.heard.got == [("k", bytes(65536))]


@pytest.mark.parametrize("batch_size", [300, 65535])
def test_no_batch_is_larger_than_agreed(batch_size: int) -> None:
    for compression in (False, True):
        pair = Pair(batch_size=batch_size, compression=compression).open()
        for size in (0, 1, batch_size - 30, batch_size - 10, batch_size, 3 * batch_size):
            while not pair.opener.send(push("k", bytes(range(256)) * (size // 256) + bytes(size % 256))):
                assert all(size <= batch_size for data in pair.batches(pair.opener) for size in sizes(data))
        assert all(size <= batch_size for data in pair.batches(pair.opener) for size in sizes(data))


# Time


def test_a_sign_of_life_every_quarter_of_a_lease() -> None:
    pair = Pair(lease=1.0).open()
    for _ in range(20):
        assert pair.opener.next_timeout() == pair.now + 0.25
        pair.now += 0.25
        for end in (pair.opener, pair.acceptor):
            end.on_timeout(pair.now)
        assert [messages(batch[2:]) for batch in pair.batches(pair.opener)] == [[KeepAlive()]]
        pair.opener.receive(framed(KeepAlive().encode()), pair.now)
        pair.acceptor.receive(framed(KeepAlive().encode()), pair.now)
    assert pair.opener.is_open


def test_a_message_is_a_sign_of_life() -> None:
    pair = Pair(lease=1.0).open()
    pair.now += 0.2
    pair.opener.send(push("k", b""))
    pair.pump()
    assert pair.opener.next_timeout() == pair.now + 0.25


def test_silence_for_the_other_ends_lease_ends_the_session() -> None:
    """Each end announces its own lease. The lease of the opener is the timeout of the acceptor, and the other way round."""
    pair = Pair(lease=2.0, acceptor={"lease": 5.0}).open()
    pair.acceptor.on_timeout(pair.now + 1.999)
    assert pair.acceptor.is_open
    pair.acceptor.on_timeout(pair.now + 2.0)
    (end,) = [event for event in pair.acceptor.events() if isinstance(event, Closed)]
    assert (end.reason, end.by_peer) == (CloseReason.EXPIRED, False)
    assert messages([*pair.batches(pair.acceptor)][-1][2:]) == [Close(reason=CloseReason.EXPIRED)]
    pair.opener.on_timeout(pair.now + 4.9)
    assert pair.opener.is_open


def test_a_congested_link_gets_no_keep_alives_on_top() -> None:
    pair = Pair(lease=1.0).open()
    pair.opener.send(push("k", b""))
    for step in range(1, 4):
        pair.acceptor.receive(b"", pair.now)
        pair.opener.receive(b"", pair.now + 0.25 * step)  # it receives something
        pair.opener.on_timeout(pair.now + 0.25 * step)
    assert len([*pair.batches(pair.opener)]) == 1


# The end


def test_close_is_sent_after_queued_messages() -> None:
    pair = Pair().open()
    pair.opener.send(push("k", b"last words"))
    pair.opener.close()
    with pytest.raises(LocalError):
        pair.opener.send(push("k", b"too late"))
    pair.pump()
    assert pair.heard.got == [("k", b"last words")]
    assert pair.ends() == [Closed(CloseReason.GENERIC, False), Closed(CloseReason.GENERIC, True)]


def test_a_protocol_error_discards_the_queue_and_sends_the_reason() -> None:
    pair = Pair().open()
    pair.acceptor.send(push("k", b"never sent"))
    pair.acceptor.receive(framed(b"\x08"), pair.now)  # no transport message has the id 8
    (batch,) = pair.batches(pair.acceptor)
    assert messages(batch[2:]) == [Close(reason=CloseReason.INVALID)]
    assert pair.acceptor.is_finished


def test_nothing_is_handed_on_after_the_end() -> None:
    pair = Pair().open()
    pair.opener.send(push("k", b"1"))
    (batch,) = pair.batches(pair.opener)
    pair.acceptor.receive(framed(Close(reason=0).encode()) + batch, pair.now)
    assert pair.heard.got == []


def test_a_sink_may_close_in_the_middle_of_a_frame() -> None:
    class Once(Collector):
        def on_message(self, kind: int, reader: object) -> int:
            super().on_message(kind, reader)
            pair.acceptor.link_lost()
            return 0

    pair = Pair().open()
    once = pair.acceptor.rx.sink = Once()
    for number in range(3):
        pair.opener.send(push(f"k/{number}", b""))
    pair.pump()
    assert len(once.got) == 1


def test_events_come_once() -> None:
    pair = Pair()
    pair.opener.start(pair.now)
    pair.pump()
    assert [type(event) for event in pair.opener.events()] == [Opened]
    assert [*pair.opener.events()] == []
    pair.opener.link_lost()
    pair.opener.link_lost()
    assert len([*pair.opener.events()]) == 1


# Datagrams that are lost, repeated and reordered


@given(st.data())
@settings(max_examples=150)
def test_under_loss_repetition_and_reordering(data: st.DataObject) -> None:
    """Per lane: nothing twice, nothing older after newer, no message joined wrongly, every gap counted."""
    pair = Pair(stream=False, batch_size=300, queue_size=100).open()
    count = data.draw(st.integers(1, 25))
    lane_of = []
    for number in range(count):
        priority, reliable = data.draw(st.sampled_from([(5, True), (5, False), (1, True)]))
        size = data.draw(st.sampled_from([1, 100, 700, 1500]))
        lane_of.append((priority, reliable))
        assert pair.opener.send(push(f"k/{number}", bytes([number]) * size), priority, reliable, express=True)
    datagrams = [*pair.batches(pair.opener)]
    indices = st.lists(st.integers(0, len(datagrams) - 1), max_size=2 * len(datagrams))
    order = sorted(data.draw(indices), key=lambda index: index + data.draw(st.integers(-3, 3)))
    for index in order:
        pair.acceptor.receive(datagrams[index], pair.now)

    assert pair.acceptor.is_open
    heard: dict[tuple[int, bool], list[int]] = {}
    for key, payload in pair.heard.got:
        number = int(key[2:])
        assert set(payload) == {number}
        assert len(payload) in (1, 100, 700, 1500)
        heard.setdefault(lane_of[number], []).append(number)
    for numbers in heard.values():
        assert numbers == sorted(set(numbers))

    # Every number of a lane was accepted, or counted as missing when a later one came.
    numbers_in: dict[tuple[int, bool], list[int]] = {}
    for index in order:
        head = messages(datagrams[index])[0]
        assert isinstance(head, Frame | Fragment)
        numbers_in.setdefault((head.priority, bool(head.reliable)), []).append(head.sn)
    first = pair.opener.session.opener.initial_sn
    missing = old = 0
    for numbers in numbers_in.values():
        last = first - 1
        for sn in numbers:
            if sn > last:
                missing += sn - last - 1
                last = sn
            else:
                old += 1
    assert (pair.acceptor.rx.missing, pair.acceptor.rx.old) == (missing, old)


def test_a_repeated_handshake_datagram_is_ignored() -> None:
    pair = Pair(stream=False)
    pair.opener.start(pair.now)
    (syn,) = pair.batches(pair.opener)
    for _ in range(3):
        pair.acceptor.receive(syn, pair.now)
    ack, *_ = pair.batches(pair.acceptor)
    pair.opener.receive(ack, pair.now)
    (open_syn,) = pair.batches(pair.opener)
    for _ in range(2):
        pair.acceptor.receive(open_syn, pair.now)
    (open_ack,) = pair.batches(pair.acceptor)
    for _ in range(2):
        pair.opener.receive(open_ack, pair.now)
    pair.opener.send(push("k", b""))
    pair.pump()
    assert len(pair.heard.got) == 1
