# SPDX-License-Identifier: Apache-2.0
"""Full queues: waiting senders, priorities, dropped messages, and the fragments of a dropped message."""

import pytest

from tests.transport.ends import Pair, push
from zenlake.core.enums import CongestionControl
from zenlake.errors import CloseReason, LocalError, RemoteError
from zenlake.transport.unicast import Closed
from zenlake.wire.batch_reader import messages
from zenlake.wire.handshake import Close
from zenlake.wire.transport import Fragment

DROP, BLOCK, BLOCK_FIRST = CongestionControl.DROP, CongestionControl.BLOCK, CongestionControl.BLOCK_FIRST
PRIORITIES = range(8)


def fill(pair: Pair, priority: int = 5) -> int:
    """Send until there is no room; returns how many messages were taken."""
    taken = 0
    while pair.opener.send(push(f"k/{priority}/{taken}", bytes(1000)), priority):
        taken += 1
        assert taken < 10_000
    return taken


@pytest.mark.parametrize("size", [1, 2, 8])
def test_a_queue_holds_its_maximum_of_batches(size: int) -> None:
    pair = Pair(queue_size=size, batch_size=10_000).open()
    taken = fill(pair)
    assert pair.opener.queue.backlog() == [0, 0, 0, 0, 0, size, 0, 0]
    assert len([*pair.batches(pair.opener)]) == size
    assert taken == size * (10_000 // 1012)
    assert pair.opener.send(push("k", b""))


def test_a_refused_message_leaves_the_queue_unchanged() -> None:
    pair = Pair(batch_size=2000).open()
    taken = fill(pair)
    numbers = pair.opener.queue.next_sns()
    for size in (1000, 5000):
        assert not pair.opener.send(push("k", bytes(size)))
        assert not pair.opener.send(push("k", bytes(size)).encode())
    assert pair.opener.queue.next_sns() == numbers
    pair.pump()
    assert len(pair.heard.got) == taken
    assert pair.acceptor.rx.missing == 0


def test_urgent_messages_overtake_queued_ones() -> None:
    pair = Pair(batch_size=2000).open()
    for priority in reversed(PRIORITIES):
        fill(pair, priority)
    pair.pump()
    order = [int(key.split("/")[1]) for key, _ in pair.heard.got]
    assert order == sorted(order)
    assert set(order) == set(PRIORITIES)


def test_the_urgent_overtake_between_two_fragments() -> None:
    pair = Pair(batch_size=2000).open()
    pair.opener.send(push("large", bytes(20_000)), 6)
    view = pair.opener.data(pair.now)
    assert view is not None
    first = bytes(view)
    pair.opener.mark_sent(len(first), pair.now)
    pair.acceptor.receive(first, pair.now)
    pair.opener.send(push("urgent", b""), 1)
    pair.pump()
    assert [key for key, _ in pair.heard.got] == ["urgent", "large"]


def test_a_batch_that_is_partly_written_is_finished_first() -> None:
    pair = Pair(batch_size=2000).open()
    pair.opener.send(push("slow", bytes(1000)), 7)
    view = pair.opener.data(pair.now)
    assert view is not None
    half = bytes(view[:500])
    assert not pair.opener.mark_sent(500, pair.now)
    pair.opener.send(push("urgent", b""), 1)
    pair.acceptor.receive(half, pair.now)
    pair.pump()
    assert [key for key, _ in pair.heard.got] == ["slow", "urgent"]


def test_without_qos_all_wait_in_one_queue() -> None:
    pair = Pair(batch_size=2000, qos=False).open()
    fill(pair, 7)
    assert not pair.opener.send(push("urgent", bytes(1000)), 1)


def test_one_full_priority_leaves_room_in_the_others() -> None:
    pair = Pair(batch_size=2000).open()
    fill(pair, 5)
    for priority in {*PRIORITIES} - {5}:
        assert pair.opener.send(push("k", bytes(1000)), priority)


# What a full queue does to a message


@pytest.mark.parametrize(
    ("congestion", "reliable"), [(DROP, True), (DROP, False), (BLOCK, False), (BLOCK_FIRST, False)]
)
def test_droppable_messages_wait_a_moment_and_are_dropped(congestion: CongestionControl, reliable: bool) -> None:
    pair = Pair(batch_size=2000).open()
    fill(pair)
    max_wait = pair.opener.max_wait(5, reliable, congestion)
    assert max_wait == 0.001
    pair.opener.give_up(reliable, congestion, max_wait)
    assert pair.opener.dropped == 1
    assert pair.opener.is_open


@pytest.mark.parametrize("congestion", [BLOCK, BLOCK_FIRST])
def test_blocking_messages_wait_and_finally_close_the_session(congestion: CongestionControl) -> None:
    pair = Pair(batch_size=2000).open()
    fill(pair)
    max_wait = pair.opener.max_wait(5, True, congestion)
    assert max_wait == 5.0
    pair.opener.give_up(True, congestion, max_wait)
    (end,) = [event for event in pair.opener.events() if isinstance(event, Closed)]
    assert end.reason == CloseReason.UNRESPONSIVE
    assert isinstance(end.error, RemoteError)
    assert messages([*pair.batches(pair.opener)][-1][2:]) == [Close(reason=CloseReason.UNRESPONSIVE)]


def test_of_block_first_only_one_waits_in_a_priority() -> None:
    pair = Pair(batch_size=2000).open()
    first = pair.opener.max_wait(5, True, BLOCK_FIRST)
    second = pair.opener.max_wait(5, True, BLOCK_FIRST)
    assert (first, second) == (5.0, 0.0)
    assert pair.opener.max_wait(4, True, BLOCK_FIRST) == 5.0
    pair.opener.end_wait(5, BLOCK_FIRST, second)
    pair.opener.give_up(True, BLOCK_FIRST, second)
    assert (pair.opener.dropped, pair.opener.is_open) == (1, True)
    assert pair.opener.max_wait(5, True, BLOCK_FIRST) == 0.0  # the first still waits
    pair.opener.end_wait(5, BLOCK_FIRST, first)
    assert pair.opener.max_wait(5, True, BLOCK_FIRST) == 5.0


def pull(pair: Pair) -> Fragment:
    view = pair.opener.data(pair.now)
    assert view is not None
    batch = bytes(view)
    pair.opener.mark_sent(len(batch), pair.now)
    pair.acceptor.receive(batch, pair.now)
    (fragment,) = messages(batch[2:])
    assert isinstance(fragment, Fragment)
    return fragment


def test_a_droppable_message_that_is_stuck_ends_with_a_drop() -> None:
    pair = Pair(batch_size=2000).open()
    pair.opener.send(push("large", bytes(10_000)))
    assert pull(pair).first
    pair.now += 0.04
    assert not pull(pair).drop  # the link still moves
    pair.now += 0.06
    last = pull(pair)
    assert (last.drop, last.more, len(last.payload)) == (True, False, 0)
    assert pair.opener.queue.dropped == 1
    pair.opener.send(push("next", b""))
    pair.pump()
    assert [key for key, _ in pair.heard.got] == ["next"]
    assert pair.acceptor.rx.lost == 1


def test_a_blocking_message_continues_when_the_link_does() -> None:
    pair = Pair(batch_size=2000).open()
    pair.opener.send(push("large", bytes(10_000)), congestion=BLOCK)
    pull(pair)
    pair.now += 60
    pair.pump()
    assert [key for key, _ in pair.heard.got] == ["large"]


def test_low_latency_bounds_the_queue_and_refuses_large_messages() -> None:
    pair = Pair(qos=False, low_latency=True, batch_size=2000).open()
    taken = fill(pair)
    assert taken == 3  # of a thousand bytes and a head, in two batches of two thousand
    pair.pump()
    assert len(pair.heard.got) == taken
    with pytest.raises(LocalError, match="send less, or open the session without low latency"):
        pair.opener.send(push("k", bytes(2000)))
