# SPDX-License-Identifier: Apache-2.0
"""Record src/zenlake/sample_captures/sample.pcap: a small fleet on eclipse-zenoh, captured by tcpdump at the port of the router.

    python -m docs.record_sample OUT.pcap        (as root: tcpdump listens on the loopback interface)

Six robots and an operator run for half a minute, each in its own process. These faults are intentional, so that the report
finds them:

- r6 connects to the router over UDP, through a relay that drops one datagram in twelve.
- r3 is killed and sends no CLOSE.
- r5 replies to queries slowly, and with an error every fourth time.
- Queries for r9 get no reply.
"""

import json
import math
import multiprocessing
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import zenoh

SECONDS = 30.0
ROBOTS = ("r1", "r2", "r3", "r4", "r5", "r6")
LOST, SLOW, LOSSY = "r3", "r5", "r6"
CAMERAS = ("r1", "r2")
ROUTER, RELAY = 17447, 17448


def open_session(mode: str, **endpoints: list[str]) -> zenoh.Session:
    config = zenoh.Config()
    config.insert_json5("mode", json.dumps(mode))
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("transport/shared_memory/enabled", "false")
    for side, where in endpoints.items():
        config.insert_json5(f"{side}/endpoints", json.dumps(where))
    return zenoh.open(config)


def router(stop: Any) -> None:
    with open_session("router", listen=[f"tcp/127.0.0.1:{ROUTER}", f"udp/127.0.0.1:{ROUTER}"]):
        stop.wait()


def relay(stop: Any) -> None:
    """Relay UDP datagrams to the router and back, and drop some datagrams of the connected robot."""
    dice = random.Random(7)
    front, back = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    front.bind(("127.0.0.1", RELAY))
    back.connect(("127.0.0.1", ROUTER))
    robot = None
    seen = 0
    with selectors.DefaultSelector() as waiting:
        for each in (front, back):
            waiting.register(each, selectors.EVENT_READ)
        while not stop.is_set():
            for key, _ in waiting.select(0.2):
                try:
                    if key.fileobj is front:
                        data, robot = front.recvfrom(65536)
                        seen += 1
                        if seen < 12 or dice.random() > 1 / 12:
                            back.send(data)
                    elif robot is not None:
                        front.sendto(back.recv(65536), robot)
                except ConnectionError:
                    pass


def robot(name: str, stop: Any) -> None:
    where = f"udp/127.0.0.1:{RELAY}?rel=0" if name == LOSSY else f"tcp/127.0.0.1:{ROUTER}"
    dice = random.Random(name)
    with open_session("client", connect=[where]) as session:
        asked = 0

        def answer(query: zenoh.Query) -> None:
            nonlocal asked
            asked += 1
            if name == SLOW:
                time.sleep(0.05 + dice.random() * 0.25)
            if name == SLOW and asked % 4 == 0:
                query.reply_err(b"motor controller does not answer")
            else:
                query.reply(f"fleet/{name}/status", json.dumps({"mode": "drive", "asked": asked}))

        token = session.liveliness().declare_token(f"fleet/{name}/alive")
        queryable = session.declare_queryable(f"fleet/{name}/status", answer)
        pose = session.declare_publisher(f"fleet/{name}/pose", encoding=zenoh.Encoding.APPLICATION_JSON)
        battery = session.declare_publisher(f"fleet/{name}/battery", reliability=zenoh.Reliability.BEST_EFFORT)
        began = time.monotonic()
        for tick in range(10_000):
            angle = tick / 20 + dice.random() / 50
            where_it_is = {"x": round(math.cos(angle), 3), "y": round(math.sin(angle), 3), "tick": tick}
            source = zenoh.SourceInfo(pose.id, tick)
            pose.put(json.dumps(where_it_is), timestamp=session.new_timestamp(), source_info=source)
            if tick % 4 == 0:
                battery.put(f"{12.6 - tick / 400:.2f}")
            if tick % 30 == 10:
                session.put(f"fleet/{name}/log", json.dumps({"level": "info", "text": f"lap {tick // 30}"}))
            if name in CAMERAS and tick % 48 == 24:
                session.put(f"fleet/{name}/camera", dice.randbytes(70_000), encoding=zenoh.Encoding.IMAGE_JPEG)
            if stop.wait(max(0.0, began + tick * 0.25 - time.monotonic())):
                break
        token.undeclare()
        queryable.undeclare()


def operator(stop: Any) -> None:
    with open_session("client", connect=[f"tcp/127.0.0.1:{ROUTER}"]) as session:
        everything = session.declare_subscriber("fleet/*/*", lambda sample: None)
        alive = session.liveliness().declare_subscriber("fleet/*/alive", lambda sample: None, history=True)
        dice = random.Random(1)
        while not stop.wait(0.4):
            who = dice.choice((*ROBOTS, "r9"))
            list(session.get(f"fleet/{who}/status", timeout=2.0))
        alive.undeclare()
        everything.undeclare()


def main(out: str) -> None:
    filter_ = f"port {ROUTER}"
    dump = subprocess.Popen(["tcpdump", "-q", "-U", "-i", "lo", "-B", "65536", "-w", out, filter_])
    time.sleep(1.0)
    many = multiprocessing.get_context("spawn")  # zenoh does not support fork
    stops = {}
    workers = {}

    def start(name: str, run: Callable[..., None], *arguments: Any) -> None:
        stops[name] = many.Event()
        workers[name] = many.Process(target=run, args=(*arguments, stops[name]))
        workers[name].start()

    start("relay", relay)
    start("router", router)
    time.sleep(1.5)
    start("operator", operator)
    for name in ROBOTS:
        start(name, robot, name)
        time.sleep(0.4)
    time.sleep(SECONDS * 0.55)
    pid = workers[LOST].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    time.sleep(SECONDS * 0.45)
    for name in (
        *ROBOTS[:-1],
        "operator",
        LOSSY,
        "relay",
        "router",
    ):  # each worker can send its CLOSE to those that still run
        if name == LOST:  # the killed process may have held the lock of the event
            continue
        stops[name].set()
        workers[name].join(5)
    time.sleep(0.5)
    dump.terminate()
    dump.wait()


if __name__ == "__main__":
    main(sys.argv[1])
