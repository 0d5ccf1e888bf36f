# SPDX-License-Identifier: Apache-2.0
"""Samples per second through a router, as a ratio to the wheel in router mode under the same load, and the cost of matching.

There are three processes: the router, a socket that writes prepared batches, and the subscribers, which count the samples.
Samples must not be dropped, and the router adds timestamps. Both routers have the same configuration.

    python -m bench router
"""

import itertools
import json
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

from bench import raw
from bench.report import Ratio, Result, show
from zenlake.wire.batch_reader import messages
from zenlake.wire.declare import Declare, DeclareEntity
from zenlake.wire.network import Push
from zenlake.wire.transport import Frame
from zenlake.wire.zenoh_body import Put

BLOCKING = 0x0D  # the QoS of a sample that may not be dropped: priority data, block
BATCH = 30_000  # the wheel accepts at most 49152 over loopback
CASES = [(size, fan, keys) for size in (8, 64) for fan in (1, 10) for keys in (1, 1000)]
COUNT = 2_000_000
SUBSCRIPTIONS = (10, 1_000, 100_000)
DECLARE_QOS = 0x08
SUBSCRIBER = 0x02


def frame(sn: int, priority: int = 5) -> bytes:
    return Frame(sn=sn, reliable=True, priority=priority).encode()


def batches(size: int, keys: int, count: int) -> Iterator[bytes]:
    """Yield the load: `count` samples over `keys` keys, in batches with length prefixes."""
    samples = itertools.cycle(
        [Push(key=f"bench/router/{n:04}", qos=BLOCKING, body=Put(payload=bytes(size))).encode() for n in range(keys)]
    )
    sn = itertools.count()
    while count:
        batch = bytearray(frame(next(sn)))
        while count and len(batch) < BATCH:
            batch += next(samples)
            count -= 1
        yield len(batch).to_bytes(2, "little") + batch


def declared(link: socket.socket, keys: list[str]) -> None:
    """Subscribe to the keys."""
    sn = itertools.count()
    for start in range(0, len(keys), 500):
        batch = frame(next(sn), 0)
        for id, key in enumerate(keys[start : start + 500], start + 1):
            batch += Declare(qos=DECLARE_QOS, body=DeclareEntity(kind=SUBSCRIBER, id=id, key=key)).encode()
        raw.send(link, batch)


def drained(link: socket.socket) -> None:
    """Read and discard the messages of a router."""
    link.settimeout(0.05)
    try:
        while link.recv(65536):
            pass
    except TimeoutError:
        link.settimeout(20)


class Subscriber:
    """A subscriber that counts samples by bytes. All samples have the size of those in the first batch."""

    def __init__(self, port: int, number: int) -> None:
        self.link = raw.opened(port, b"\x0bsub" + bytes([number, 1]))
        self.count = 0
        self.size = 0
        self.rest = b""

    def read(self) -> None:
        data = self.rest + self.link.recv(1 << 20)
        at = 0
        while len(data) - at >= 2:
            end = at + 2 + int.from_bytes(data[at : at + 2], "little")
            if end > len(data):
                break
            if data[at + 2] & 0x1F == 5 and data[at + 2] & 0x80 == 0:  # a FRAME of the data priority
                body = at + 3
                while data[body] & 0x80:
                    body += 1
                body += 1
                if not self.size:
                    self.size = len(messages(data[at + 2 : end])[1].encode())
                count, odd = divmod(end - body, self.size)
                assert not odd, "the samples of a batch are not of one size"
                self.count += count
            at = end
        self.rest = data[at:]


def subscribe() -> None:
    """Run the process of the subscribers. Arguments: port, number of subscribers, samples for each, further subscriptions."""
    port, fan, count = map(int, sys.argv[2:5])
    extra = json.loads(sys.argv[5])
    subscribers = [Subscriber(port, number) for number in range(fan)]
    chosen = selectors.DefaultSelector()
    for subscriber in subscribers:
        declared(subscriber.link, ["bench/router/*", *(f"other/{n % 300}/{n}" for n in range(extra))])
        chosen.register(subscriber.link, selectors.EVENT_READ, subscriber)
    stop = threading.Event()
    for subscriber in subscribers:
        threading.Thread(target=raw.keep_alive, args=(subscriber.link, stop), daemon=True).start()
    print("ready", flush=True)
    missing = len(subscribers)
    while missing:
        for key, _ in chosen.select():
            key.data.read()
            if key.data.count >= count:
                chosen.unregister(key.data.link)
                missing -= 1
    print(json.dumps([subscriber.count for subscriber in subscribers]), flush=True)
    sys.stdin.read()


def route_ours() -> None:
    from zenlake.core.enums import WhatAmI
    from zenlake.runtime.live_node import NodeConfig, open_node

    with open_node(NodeConfig(WhatAmI.ROUTER, listen=("tcp/127.0.0.1:0",))) as node:
        print(node.locators[0].rpartition(":")[2], flush=True)
        sys.stdin.read()


def route_theirs() -> None:
    import zenoh

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = zenoh.Config()
    for key, value in {
        "mode": "router",
        "listen/endpoints": [f"tcp/127.0.0.1:{port}"],
        "scouting/multicast/enabled": False,
        "timestamping/enabled": True,
    }.items():
        config.insert_json5(key, json.dumps(value))
    with zenoh.open(config):
        print(port, flush=True)
        sys.stdin.read()


def partner(*words: object, module: str = "bench.router") -> tuple[subprocess.Popen[str], str]:
    """Start a module as a process. Return the process and its first line, which it prints when it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *map(str, words)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def processor_time(pid: int) -> float:
    """Return the processor time of a process in seconds, the kernel's included, from its clock in nanoseconds."""
    return time.clock_gettime(~pid << 3 | 2)  # CPUCLOCK_SCHED of the process: /proc/PID/stat counts ticks of 10 ms


def rates(role: str, size: int, fan: int, keys: int, count: int, extra: int = 0) -> tuple[float, float]:
    """Return the samples that reached subscribers, per second and per CPU second of the router."""
    router, port = partner(role)
    load = list(batches(size, keys, count))
    subscribers, _ = partner("subscribe", port, fan, count, extra)
    try:
        link = raw.opened(int(port))
        drained(link)
        time.sleep(0.5 if not extra else 3.0)  # no reply to declarations is common to both routers
        began, computed = time.perf_counter(), processor_time(router.pid)
        for batch in load:
            link.sendall(batch)
        assert subscribers.stdout is not None
        counts = json.loads(subscribers.stdout.readline())
        took, computed = time.perf_counter() - began, processor_time(router.pid) - computed
        assert counts == [count] * fan, f"{count} samples sent, {counts} came"
        link.close()
    finally:
        subscribers.communicate()
        router.communicate()
    return count * fan / took, count * fan / max(computed, 0.01)


def run(quick: bool) -> list[Result]:
    results = []
    for size, fan, keys in [case for case in CASES if case[0] == 64] if quick else CASES:
        count = COUNT // (5 if fan > 1 else 1) // (8 if quick else 1)
        both = [
            (rates("ours", size, fan, keys, count), rates("theirs", size, fan, keys, count // 4))
            for _ in range(1 if quick else 3)
        ]
        name = f"router, {size} bytes, one publisher, {keys} keys, {fan} subscriber{'s' if fan > 1 else ''}"
        results.append(Result(name, "wheel as router", [Ratio(ours[0], theirs[0]) for ours, theirs in both], 3.0))
        results.append(
            Result(f"{name}, by processor time", "wheel", [Ratio(ours[1], theirs[1]) for ours, theirs in both])
        )
    few = rates("ours", 8, 1, 1000, COUNT // 4, SUBSCRIPTIONS[0])[1]
    for extra in SUBSCRIPTIONS[1:2] if quick else SUBSCRIPTIONS[1:]:
        ratio = Ratio(rates("ours", 8, 1, 1000, COUNT // 4, extra)[1], few)
        name = f"router, {extra:,} subscriptions, by processor time"
        results.append(Result(name, f"{SUBSCRIPTIONS[0]} subscriptions", [ratio]))
    return results


if __name__ == "__main__":
    roles = {"ours": route_ours, "theirs": route_theirs, "subscribe": subscribe}
    if len(sys.argv) > 1 and sys.argv[1] in roles:
        roles[sys.argv[1]]()
    else:
        show(run("--quick" in sys.argv))
