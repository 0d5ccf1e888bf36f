# SPDX-License-Identifier: Apache-2.0
"""A sink suspends its receive path between messages: the order of messages is kept, and none is lost or repeated."""

import random

import pytest

from tests.transport.ends import Collector, Pair, push
from zenlake.errors import CloseReason
from zenlake.transport.memory_budget import MemoryBudget
from zenlake.transport.rx import RETRY, SUSPEND

LINKS = {
    "stream": {},
    "pieces": {"piece": 7},
    "datagrams": {"stream": False},
    "compressed": {"compression": True},
    "low latency": {"low_latency": True, "qos": False},
    "low latency datagrams": {"low_latency": True, "qos": False, "stream": False},
}


class Moody(Collector):
    """A sink that suspends at random, before or after messages."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.calls = 0

    def on_message(self, kind: int, reader: object) -> int:
        assert not self.suspended, "nothing is delivered to a suspended sink"
        self.calls += 1
        self.suspended = self.random.choice((0, SUSPEND, RETRY))
        return 0 if self.suspended == RETRY else super().on_message(kind, reader)


def fresh(pair: Pair, sink: Collector) -> None:
    pair.acceptor.rx.sink = pair.heard = sink


def drain(pair: Pair, piece: int) -> None:
    pair.pump(piece)
    for _ in range(10_000):
        if not pair.acceptor.is_suspended:
            return
        pair.acceptor.resume(pair.now)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("link", LINKS.values(), ids=list(LINKS))
def test_messages_keep_their_order(link: dict[str, object], seed: int) -> None:
    settings = dict(link)
    piece = int(settings.pop("piece", 1 << 30))
    pair = Pair(bool(settings.pop("stream", True)), **settings).open()
    sink = Moody(seed)
    fresh(pair, sink)
    large = [] if "low_latency" in settings else [70_000]  # which travels in fragments
    sent = []
    for number in range(60):
        size = random.Random(number).choice([0, 10, 1000, 3000, *large])
        sent.append((f"key/{number}", bytes([number]) * size))
        if not pair.opener.send(push(*sent[-1])):
            pair.pump(piece)
            assert pair.opener.send(push(*sent[-1]))
        if not pair.stream and number % 3 == 2:
            drain(pair, piece)
    drain(pair, piece)
    assert sink.got == sent
    assert sink.calls > len(sent)
    assert pair.acceptor.rx.messages == len(sent)
    assert not pair.ends()


def test_kept_bytes_are_charged_and_dropped_at_the_end() -> None:
    pair = Pair().open()
    budget = pair.acceptor.rx.budget = MemoryBudget(1 << 30)

    class Stops(Collector):
        def on_message(self, kind: int, reader: object) -> int:
            self.suspended = RETRY
            return 0

    fresh(pair, Stops())
    for _number in range(100):
        pair.opener.send(push("key", bytes(1000)))
    pair.pump()
    assert 100_000 < budget.held < 110_000
    pair.acceptor.abandon(CloseReason.GENERIC)
    assert budget.held == 0
    pair.acceptor.resume(pair.now)
    assert pair.heard.got == []


def test_datagrams_over_the_limit_are_lost() -> None:
    pair = Pair(stream=False).open()
    sink = Collector()
    fresh(pair, sink)
    sink.suspended = SUSPEND
    for number in range(100):
        pair.opener.send(push(str(number), bytes(10_000)), reliable=False)
        pair.pump()
    pair.acceptor.resume(pair.now)
    assert [int(key) for key, _ in sink.got] == list(range(len(sink.got)))
    assert 20 < len(sink.got) < 30
    assert pair.acceptor.rx.lost == 100 - len(sink.got)


def test_the_lease_does_not_expire_while_the_link_is_not_read() -> None:
    pair = Pair(lease=1.0).open()
    pair.acceptor.pause()
    pair.now += 100
    pair.acceptor.on_timeout(pair.now)
    assert not pair.acceptor.is_closed
    pair.acceptor.resume(pair.now)
    pair.now += 1.1
    pair.acceptor.on_timeout(pair.now)
    assert [end.reason for end in pair.ends()] == [CloseReason.EXPIRED]


def test_a_close_behind_a_suspension_is_read_after_it() -> None:
    pair = Pair().open()
    sink = Moody(1)
    fresh(pair, sink)
    for number in range(10):
        pair.opener.send(push(str(number), b""))
    pair.opener.close()
    pair.pump()
    assert not pair.acceptor.is_closed
    while not pair.acceptor.is_closed:
        pair.acceptor.resume(pair.now)
    assert [key for key, _ in sink.got] == [str(number) for number in range(10)]
