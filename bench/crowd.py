# SPDX-License-Identifier: Apache-2.0
"""Cost of many idle clients for busy ones: a hundred clients ping each other through a router, alone and beside a thousand.

There are three processes: the router, the idle clients, and the busy clients in pairs. In a pair, one client publishes a ping. The
other client receives it and publishes a pong, which the first client receives. Then the first client publishes the next ping.

    python -m bench.crowd
"""

import itertools
import json
import resource
import selectors
import socket
import subprocess
import sys
import time
from dataclasses import dataclass

from bench import raw
from bench.report import Ratio, Result, show
from bench.router import processor_time
from zenlake.wire.declare import Declare, DeclareEntity
from zenlake.wire.network import Push
from zenlake.wire.transport import Frame, KeepAlive
from zenlake.wire.zenoh_body import Put

IDLE, PAIRS, SECONDS = 1000, 50, 5.0
SUBSCRIBER, DECLARE_QOS, BLOCKING = 0x02, 0x08, 0x0D
FRAME_OF_DATA = 0x25


@dataclass(frozen=True)
class Served:
    """Measurements of the busy clients."""

    rate: float
    """Round trips per second of all pairs together."""
    late: float
    """99th percentile of a round trip, in seconds."""
    cheap: float
    """Round trips per CPU second of the router."""


class Busy:
    """One client of a pair."""

    def __init__(self, port: int, pair: int, side: str) -> None:
        self.link = raw.opened(port, b"\x0bbusy" + side.encode() + pair.to_bytes(2, "big") + b"\x01")
        self.sends, self.hears = (f"crowd/{one}/{pair}" for one in (side, {"a": "b", "b": "a"}[side]))
        self.sn = itertools.count()
        self.rest = b""
        self.began = 0.0
        self.took: list[float] = []
        self.push = Push(key=self.sends, qos=BLOCKING, body=Put(payload=bytes(64))).encode()
        declare = Declare(qos=DECLARE_QOS, body=DeclareEntity(kind=SUBSCRIBER, id=1, key=self.hears))
        raw.send(self.link, Frame(sn=0, reliable=True, priority=0).encode() + declare.encode())

    def ping(self) -> None:
        self.began = time.perf_counter()
        raw.send(self.link, Frame(sn=next(self.sn), reliable=True).encode() + self.push)

    def hear(self) -> int:
        """Read, and return the number of received samples."""
        data = self.rest + self.link.recv(65536)
        at = count = 0
        while len(data) - at >= 2 and (end := at + 2 + int.from_bytes(data[at : at + 2], "little")) <= len(data):
            count += data[at + 2] == FRAME_OF_DATA
            at = end
        self.rest = data[at:]
        return count


def busy() -> None:
    """Run the process of the busy clients. Arguments: port, pairs, seconds."""
    port, pairs, seconds = int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    chosen = selectors.DefaultSelector()
    ones = {side: [Busy(port, pair, side) for pair in range(pairs)] for side in "ab"}
    for side, members in ones.items():
        for one in members:
            chosen.register(one.link, selectors.EVENT_READ, (side, one))
    time.sleep(0.5)  # no reply to declarations is common to both routers
    for one in ones["a"]:
        one.ping()
    began = time.perf_counter()
    warm, count = began + seconds / 5, 0
    while (now := time.perf_counter()) < began + seconds:
        for key, _ in chosen.select(0.1):
            side, one = key.data
            for _ in range(one.hear()):
                count += side == "a"
                if side == "a" and now > warm:
                    one.took.append(time.perf_counter() - one.began)
                one.ping()
    took = sorted(itertools.chain.from_iterable(one.took for one in ones["a"]))
    assert all(one.took for one in ones["a"]), "a pair was not served"
    print(json.dumps([len(took) / (seconds * 4 / 5), took[len(took) * 99 // 100], count]), flush=True)
    sys.stdin.read()


def idle() -> None:
    """Run the process of the idle clients. Arguments: port, number of clients."""
    many_files()
    links = [
        raw.opened(int(sys.argv[2]), b"\x0bidle" + n.to_bytes(2, "big") + b"\x01") for n in range(int(sys.argv[3]))
    ]
    print("ready", flush=True)
    sys.stdin.read()
    for link in links:
        raw.send(link, KeepAlive().encode())  # fails if the router has dropped the client
        link.close()
    print(len(links), flush=True)


def route_ours() -> None:
    from zenlake.core.enums import WhatAmI
    from zenlake.runtime.live_node import NodeConfig, open_node

    many_files()
    with open_node(NodeConfig(WhatAmI.ROUTER, listen=("tcp/127.0.0.1:0",), max_sessions=2000)) as node:
        print(node.locators[0].rpartition(":")[2], flush=True)
        sys.stdin.read()


def route_theirs() -> None:
    import zenoh

    many_files()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = zenoh.Config()
    for key, value in {
        "mode": "router",
        "listen/endpoints": [f"tcp/127.0.0.1:{port}"],
        "scouting/multicast/enabled": False,
        "timestamping/enabled": True,
        "transport/unicast/max_sessions": 2000,
    }.items():
        config.insert_json5(key, json.dumps(value))
    with zenoh.open(config):
        print(port, flush=True)
        sys.stdin.read()


def many_files() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def partner(*words: object) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.crowd", *map(str, words)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def served(role: str, idle: int, pairs: int = PAIRS, seconds: float = SECONDS) -> Served:
    """Let pairs ping each other through a router with `idle` idle clients. All clients must stay connected."""
    router, port = partner(role)
    crowd, said = partner("idle", port, idle)
    try:
        assert said == "ready", "not all idle clients were accepted"
        computed = processor_time(router.pid)
        lively, line = partner("busy", port, pairs, seconds)
        computed = processor_time(router.pid) - computed
        lively.communicate()
        assert crowd.communicate()[0].strip() == str(idle), "an idle client was dropped"
    finally:
        crowd.communicate()
        router.communicate()
    rate, late, count = json.loads(line)
    return Served(rate, late, count / max(computed, 0.01))


def run(quick: bool) -> list[Result]:
    rounds = [
        (
            served("ours", IDLE, seconds=seconds),
            served("ours", 0, seconds=seconds),
            served("theirs", IDLE, seconds=seconds),
        )
        for seconds in [2.0 if quick else SECONDS] * (1 if quick else 3)
    ]
    name = f"router, {2 * PAIRS} busy clients among {IDLE:,} idle ones"
    results = []
    for peer, other in (("no idle ones", 1), ("wheel as router", 2)):
        pairs = [(found[0], found[other]) for found in rounds]
        results += [
            Result(f"{name}, round trips", peer, [Ratio(one.rate, two.rate) for one, two in pairs]),
            Result(f"{name}, by processor time", peer, [Ratio(one.cheap, two.cheap) for one, two in pairs]),
            Result(f"{name}, 1 / p99", peer, [Ratio(1 / one.late, 1 / two.late) for one, two in pairs]),
        ]
    return results


if __name__ == "__main__":
    roles = {"ours": route_ours, "theirs": route_theirs, "busy": busy, "idle": idle}
    if len(sys.argv) > 1 and sys.argv[1] in roles:
        roles[sys.argv[1]]()
    else:
        show(run("--quick" in sys.argv))
