# SPDX-License-Identifier: Apache-2.0
"""A simulated fleet: robots, an operator that queries them, and a slow subscriber.

    python -m zenlake.cli.demo.robots --module zenlake --connect tcp/127.0.0.1:7447 robots --first 0 --count 10 --seconds 10

The same program runs on Zenlake and on Eclipse Zenoh (`--module zenoh`): their APIs have the same names. At its end, or after
a line on the standard input, it prints its counters as one line of JSON. With `--progress` it prints them after every turn, so that
the counters of a killed process are known.
"""

import argparse
import importlib
import json
import math
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

CAMERA = 150_000  # bytes: more than a batch, so it travels in fragments
TICK = 0.02
ASK = 0.5
DROPPABLE = "camera"  # topic that a sender or the router may drop when a queue is full
LOOKS = 0.4  # seconds that the slow subscriber spends on a picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", choices=["zenlake", "zenoh"], default="zenlake")
    parser.add_argument("--connect", required=True, metavar="ENDPOINT")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("role", choices=["robots", "operator", "slow"])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--progress", action="store_true")
    given = parser.parse_args()
    zenoh = importlib.import_module(given.module)
    stop = threading.Event()
    threading.Thread(target=wait_for_line, args=(stop,), daemon=True).start()
    roles: dict[str, Callable[[Any, Any, threading.Event], dict[str, Any]]] = {
        "robots": robots,
        "operator": operator,
        "slow": slow,
    }
    print(json.dumps(roles[given.role](zenoh, given, stop)), flush=True)


def wait_for_line(stop: threading.Event) -> None:
    sys.stdin.readline()
    stop.set()


def open_session(zenoh: Any, endpoint: str) -> Any:
    config = zenoh.Config()
    config.insert_json5("mode", '"client"')
    config.insert_json5("connect/endpoints", json.dumps([endpoint]))
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("transport/shared_memory/enabled", "false")
    return zenoh.open(config)


class Robot:
    """A robot with its own session. It numbers its samples. Only camera pictures may be dropped; the others block."""

    def __init__(self, zenoh: Any, endpoint: str, number: int) -> None:
        self.name = f"fleet/r{number:02d}"
        self.number = number
        self.sent: Counter[str] = Counter()
        self.asked = 0
        self.session = open_session(zenoh, endpoint)
        self.source_info = zenoh.SourceInfo
        congestion = zenoh.CongestionControl
        self.publishers = {
            topic: self.session.declare_publisher(
                f"{self.name}/{topic}",
                encoding=encoding,
                congestion_control=congestion.DROP if topic == DROPPABLE else congestion.BLOCK,
            )
            for topic, encoding in {
                "pose": zenoh.Encoding.APPLICATION_JSON,
                "imu": zenoh.Encoding.APPLICATION_OCTET_STREAM,
                "battery": zenoh.Encoding.TEXT_PLAIN,
                "camera": zenoh.Encoding.IMAGE_JPEG,
                "log": zenoh.Encoding.TEXT_JSON,
            }.items()
        }
        self.token = self.session.liveliness().declare_token(f"{self.name}/alive")
        self.queryable = self.session.declare_queryable(f"{self.name}/status", self.answer)

    def answer(self, query: Any) -> None:
        self.asked += 1
        with query:
            if self.number % 7 == 3 and self.asked % 4 == 0:
                query.reply_err(b"busy")
            else:
                query.reply(f"{self.name}/status", json.dumps({"robot": self.number, "asked": self.asked}))

    def put(self, topic: str, payload: bytes | str) -> None:
        publisher, key = self.publishers[topic], f"{self.name}/{topic}"
        publisher.put(payload, source_info=self.source_info(publisher.id, self.sent[key]))
        self.sent[key] += 1

    def tick(self, turn: int) -> None:
        """Publish the samples of one turn. There are fifty turns per second."""
        angle = turn * TICK + self.number
        self.put("imu", struct.pack("<Qfff", turn, math.sin(angle), math.cos(angle), 9.81))
        if turn % 5 == 0:
            self.put("pose", json.dumps({"x": round(math.cos(angle), 3), "y": round(math.sin(angle), 3), "n": turn}))
        if turn % 50 == self.number % 50:
            self.put("battery", f"{100 - turn / 50:.1f}")
            self.put("camera", bytes([self.number]) * CAMERA)
        if turn % 150 == 7 * self.number % 150:
            self.put("log", json.dumps({"level": "info", "robot": self.number, "text": f"lap {turn // 150}"}))


def robots(zenoh: Any, given: Any, stop: threading.Event) -> dict[str, Any]:
    fleet = [Robot(zenoh, given.connect, number) for number in range(given.first, given.first + given.count)]
    print("READY", flush=True)
    began = time.monotonic()
    turn = 0

    def counters() -> dict[str, Any]:
        return {"sent": dict(sum((robot.sent for robot in fleet), Counter()))}

    while time.monotonic() - began < given.seconds and not stop.is_set():
        for robot in fleet:
            robot.tick(turn)
        if given.progress:
            print(json.dumps(counters()), flush=True)
        turn += 1
        stop.wait(max(0.0, began + turn * TICK - time.monotonic()))
    for robot in fleet:
        robot.session.close()
    return counters()


def operator(zenoh: Any, given: Any, stop: threading.Event) -> dict[str, Any]:
    """Query the whole fleet, then one robot, then a robot that does not exist, repeatedly."""
    session = open_session(zenoh, given.connect)
    print("READY", flush=True)
    asked: Counter[str] = Counter()
    began = time.monotonic()
    turn = 0
    while time.monotonic() - began < given.seconds and not stop.wait(ASK):
        for selector in ("fleet/*/status", f"fleet/r{turn % 20:02d}/status?verbose", "fleet/missing/status"):
            replies = session.get(selector, target=zenoh.QueryTarget.ALL, timeout=2.0)
            for reply in replies:
                asked["replies" if reply.ok is not None else "errors"] += 1
            asked["queries"] += 1
        turn += 1
    session.close()
    return {"asked": dict(asked)}


def slow(zenoh: Any, given: Any, stop: threading.Event) -> dict[str, Any]:
    """Subscribe to all camera pictures, and process each of them slowly."""
    session = open_session(zenoh, given.connect)
    subscriber = session.declare_subscriber(f"fleet/*/{DROPPABLE}", zenoh.handlers.FifoChannel(1))
    print("READY", flush=True)
    end = time.monotonic() + given.seconds
    looked = 0
    while time.monotonic() < end and not stop.wait(LOOKS):
        looked += subscriber.try_recv() is not None
    session.close()
    return {"looked": looked}


if __name__ == "__main__":
    main()
