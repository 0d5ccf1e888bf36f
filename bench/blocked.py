# SPDX-License-Identifier: Apache-2.0
"""Latency of other clients beside a client that does not read: pings through a router during a flood that may not be dropped.

There are two processes: the router, and all clients. Some clients ping each other in pairs. In every second turn there is also a
subscriber that never reads, and a client that publishes to it until the router no longer reads from that publisher. Turns with
and without them alternate, so that other load of the machine affects both.

    python -m bench blocked
"""

import contextlib
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

from bench import raw
from bench.crowd import Busy, partner
from bench.report import Ratio, Result, show
from zenlake.wire.declare import Declare, DeclareEntity
from zenlake.wire.network import Push
from zenlake.wire.transport import Frame
from zenlake.wire.zenoh_body import Put

PAIRS, TURNS, SECONDS = 4, 20, 0.4
SUBSCRIBER, DECLARE_QOS, BLOCKING = 0x02, 0x08, 0x0D
STANDS_STILL = 0.3  # seconds without progress of the flood
PATIENCE = 4.0  # less than the 5 s after which the router closes the client that does not read


class Pairs:
    """Clients of a router that ping each other."""

    def __init__(self, port: int, count: int) -> None:
        self._ones = {side: [Busy(port, pair, side) for pair in range(count)] for side in "ab"}
        self._chosen = selectors.DefaultSelector()
        for side, members in self._ones.items():
            for one in members:
                self._chosen.register(one.link, selectors.EVENT_READ, (side, one))
        time.sleep(0.5)  # no reply to declarations is common to both routers
        for one in self._ones["a"]:
            one.ping()

    def pings(self, seconds: float) -> list[list[float]]:
        """Return the times of the round trips of each pair."""
        for one in self._ones["a"]:
            one.took = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for key, _ in self._chosen.select(0.1):
                side, one = key.data
                for _ in range(one.hear()):
                    if side == "a":
                        one.took.append(time.perf_counter() - one.began)
                    one.ping()
        return [one.took or [seconds] for one in self._ones["a"]]  # the wheel does not serve all pairs during the flood

    def close(self) -> None:
        self._chosen.close()
        for members in self._ones.values():
            for one in members:
                one.link.close()


@contextlib.contextmanager
def blocked(port: int, turn: int) -> Iterator[Callable[[], bool]]:
    """Block a client that does not read and its publisher. Yield a function that returns whether the publisher is still blocked."""
    deaf = raw.opened(port, b"\x0bdeaf" + bytes([turn, 1]))
    declare = Declare(qos=DECLARE_QOS, body=DeclareEntity(kind=SUBSCRIBER, id=1, key="deaf"))
    raw.send(deaf, Frame(sn=0, reliable=True, priority=0).encode() + declare.encode())
    time.sleep(0.1)
    loud = raw.opened(port, b"\x0bloud" + bytes([turn, 1]))
    push = Push(key="deaf", qos=BLOCKING, body=Put(payload=bytes(20_000))).encode()
    moved = [time.monotonic()]

    def flood() -> None:
        sn = 0
        with contextlib.suppress(OSError):
            while True:
                batch = Frame(sn=sn, reliable=True).encode() + push
                rest = memoryview(len(batch).to_bytes(2, "little") + batch)
                while rest:
                    rest = rest[loud.send(rest) :]
                    moved[0] = time.monotonic()
                sn += 1

    def stands() -> bool:
        return time.monotonic() - moved[0] > STANDS_STILL

    flooding = threading.Thread(target=flood)
    flooding.start()
    try:
        until = time.monotonic() + PATIENCE
        while not stands():
            assert time.monotonic() < until, "the flood was not held up"
            time.sleep(0.02)
        yield stands
    finally:
        for link in (loud, deaf):
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
            link.close()
        flooding.join()


def late(took: list[float]) -> float:
    """Return the 99th percentile."""
    return sorted(took)[len(took) * 99 // 100]


def measured(role: str, turns: int = TURNS, seconds: float = SECONDS) -> list[tuple[float, float]]:
    """Return for each pair the 99th percentile of its round trips, beside a blocked client and without one."""
    router, port = partner(role)
    pairs = Pairs(int(port), PAIRS)
    try:
        free: list[list[float]] = [[] for _ in range(PAIRS)]
        beside: list[list[float]] = [[] for _ in range(PAIRS)]
        for turn in range(turns):
            for all, took in zip(free, pairs.pings(seconds), strict=True):
                all += took
            with blocked(int(port), turn) as still:
                pairs.pings(0.1)  # pings that waited while the flood started are not counted
                found = pairs.pings(seconds)
                assert still(), "the flood was not held up all the time"
            for all, took in zip(beside, found, strict=True):
                all += took
            pairs.pings(0.1)
    finally:
        pairs.close()
        router.communicate()
    return [(late(with_it), late(without)) for with_it, without in zip(beside, free, strict=True)]


def run(quick: bool) -> list[Result]:
    name = "router, 1 / p99 of others while a client is blocked"
    results = []
    for role, whose in (("ours", ""), ("theirs", ", wheel as router")):
        found = measured(role, 2 if quick else TURNS)
        aim = 0.5 if role == "ours" else None
        results.append(Result(name + whose, "no client blocked", [Ratio(1 / one, 1 / two) for one, two in found], aim))
    return results


if __name__ == "__main__":
    show(run("--quick" in sys.argv))
