# SPDX-License-Identifier: Apache-2.0
"""A node of a fleet on the real Zenoh, in a process of its own: `python -m tests.interop.fleet_node ROLE NAME ENDPOINT OPTIONS`.

It prints READY and its ZenohID, works after the line `go`, and prints its counts as one line of JSON after the line
`account`. It closes its session after the line `close`, or when the input ends.
"""

import json
import sys
import threading
import time
from collections import Counter
from typing import Any

import zenoh

from tests.interop.wheel import QUIET

QUERIES = {"svc/ok": "answered", "svc/error": "error", "svc/never": "timeout", "svc/none": "empty"}
TIMEOUT = 1.0


def tagged(name: str, kind: str, number: int, size: int) -> bytes:
    """Return a payload that names its publication, also to a relay that sees only a part of it."""
    tag = f"<{name}/{kind}/{number}/{time.time():.6f}>".encode()
    return tag * (size // len(tag)) + tag[: size % len(tag)] if size else tag


def parts_of(payload: bytes) -> tuple[str, str, int, float]:
    """Return the publisher, the kind, the number and the time of a payload."""
    name, kind, number, at = payload[1 : payload.index(b">")].decode().split("/")
    return name, kind, int(number), float(at)


class Robot:
    """A robot: it publishes its sensors at fixed rates, subscribes to commands, and sends some queries."""

    def __init__(
        self, session: zenoh.Session, name: str, seconds: float, queries: int, leaves: bool, withholds: bool
    ) -> None:
        self.session = session
        self.name = name
        self.seconds = seconds
        self.queries = queries
        self.leaves = leaves
        self.withholds = withholds
        self.withheld: list[int] = []  # numbers of pictures that were counted and not published
        self.sent: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.heard = 0
        block = zenoh.CongestionControl.BLOCK
        self.publishers = {
            kind: session.declare_publisher(f"fleet/{name}/{kind}", congestion_control=block)
            for kind in ("imu", "status", "end")
        }
        self.publishers["camera"] = session.declare_publisher(f"fleet/{name}/camera")  # dropped if congested
        session.declare_subscriber("cmd/**", self.listen)

    def is_ready(self) -> bool:
        return all(publisher.matching_status.matching for publisher in self.publishers.values())

    def listen(self, sample: zenoh.Sample) -> None:
        self.heard += 1

    def put(self, kind: str, payload: bytes, source: zenoh.SourceInfo | None = None) -> None:
        self.publishers[kind].put(payload, source_info=source)
        self.sent[kind] += 1
        self.bytes[kind] += len(payload)

    def work(self) -> None:
        asking = threading.Thread(target=self.ask)
        asking.start()
        start = time.monotonic()
        for tick in range(int(self.seconds * 50 * (0.5 if self.leaves else 1))):
            self.put("imu", tagged(self.name, "imu", tick, 0))
            if tick % 10 == 3:
                self.show(tick // 10)
            if tick % 10 == 7:
                self.put("status", f"<{self.name}/status/0/0>".encode())  # the same value each time
            time.sleep(max(0.0, start + (tick + 1) / 50 - time.monotonic()))
        asking.join()
        self.put("end", tagged(self.name, "end", 0, 0))
        if self.leaves:
            time.sleep(0.3)
            self.session.close()

    def show(self, number: int) -> None:
        if self.withholds and number % 5 == 3:
            self.withheld.append(number)
        else:
            source = zenoh.SourceInfo(self.publishers["camera"].id, number)
            self.put("camera", tagged(self.name, "camera", number, 20_000), source)

    def ask(self) -> None:
        for _ in range(self.queries):
            for key in QUERIES:
                replies = list(self.session.get(key, timeout=TIMEOUT))
                errors = [reply.err.payload.to_bytes() for reply in replies if reply.err is not None]
                if key == "svc/never":  # the node's own timeout, or that of the router, or both
                    self.outcomes["timeout" if set(errors) <= {b"Timeout"} else f"unexpected: {errors}"] += 1
                else:
                    self.outcomes["error" if errors else "answered" if replies else "empty"] += 1

    def account(self) -> dict[str, Any]:
        return {
            "sent": self.sent, "bytes": self.bytes, "outcomes": self.outcomes, "heard": self.heard, "withheld": self.withheld,
        }  # fmt: skip


class Receiver:
    """A subscriber that counts the samples of each publisher. A slow one pauses after each sample until `account`."""

    def __init__(self, session: zenoh.Session, name: str, key: str, pause: float) -> None:
        self.pause = pause
        self.received: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.oldest: dict[str, float] = {}
        self.pictures: dict[str, list[int]] = {}
        self.last = time.monotonic()
        self.subscriber = session.declare_subscriber(key, zenoh.handlers.FifoChannel(2))
        threading.Thread(target=self.receive, daemon=True).start()

    def is_ready(self) -> bool:
        return True

    def work(self) -> None:
        pass

    def receive(self) -> None:
        for sample in self.subscriber:
            payload = sample.payload.to_bytes()
            name, kind, number, at = parts_of(payload)
            self.received[name] += 1
            self.bytes[name] += len(payload)
            if kind == "camera":
                self.pictures.setdefault(name, []).append(number)
            if at:
                self.oldest[name] = max(self.oldest.get(name, 0.0), time.time() - at)
            self.last = time.monotonic()
            if self.pause:
                time.sleep(self.pause)

    def account(self) -> dict[str, Any]:
        self.pause = 0
        while time.monotonic() - self.last < 1:
            time.sleep(0.05)
        return {"received": self.received, "bytes": self.bytes, "oldest": self.oldest, "pictures": self.pictures}


class Operator:
    """An operator: it commands all robots five times a second, replies to queries, and subscribes to a key for a moment."""

    def __init__(self, session: zenoh.Session, name: str, commands: int) -> None:
        self.session = session
        self.name = name
        self.commands = commands
        self.kept: list[zenoh.Query] = []
        self.asked = 0
        self.moment = session.declare_subscriber("moment/**", lambda sample: None)
        session.declare_queryable("svc/ok", self.answer)
        session.declare_queryable("svc/error", self.refuse)
        session.declare_queryable("svc/never", self.kept.append)
        self.publisher = session.declare_publisher("cmd/all", congestion_control=zenoh.CongestionControl.BLOCK)

    def is_ready(self) -> bool:
        return bool(self.publisher.matching_status.matching)

    def answer(self, query: zenoh.Query) -> None:
        self.asked += 1
        query.reply("svc/ok", b"here")
        query.drop()

    def refuse(self, query: zenoh.Query) -> None:
        query.reply_err(b"not today")
        query.drop()

    def work(self) -> None:
        for number in range(self.commands):
            self.publisher.put(tagged(self.name, "cmd", number, 0))
            time.sleep(0.2)
        self.moment.undeclare()

    def account(self) -> dict[str, Any]:
        return {"sent": {"cmd": self.commands}, "asked": self.asked}


class Mapper:
    """A publisher of maps, which need several datagrams, each followed by small messages. Losses do not affect the last map."""

    def __init__(self, session: zenoh.Session, name: str, count: int) -> None:
        self.session = session
        self.name = name
        self.count = count

    def is_ready(self) -> bool:
        return True

    def work(self) -> None:
        for number in range(self.count):
            for kind, size in (("map", 150_000), ("status", 0), ("end", 0)):
                payload = tagged(self.name, kind, number, size)
                self.session.put(f"fleet/{self.name}/{kind}", payload, congestion_control=zenoh.CongestionControl.BLOCK)
                time.sleep(0.02)


ROLES = {"robot": Robot, "receiver": Receiver, "operator": Operator, "mapper": Mapper}


def main() -> None:
    role, name, endpoint, options = sys.argv[1:]
    config = zenoh.Config()
    settings = {"mode": "client", "connect/endpoints": [endpoint], **QUIET, "connect/timeout_ms": 10_000}
    for key, value in settings.items():
        config.insert_json5(key, json.dumps(value))
    session = zenoh.open(config)
    node = ROLES[role](session, name, **json.loads(options))
    print("READY", session.zid(), flush=True)
    for line in sys.stdin:
        match line.strip():
            case "matched":
                while not node.is_ready():
                    time.sleep(0.02)
                print("MATCHED", flush=True)
            case "go":
                node.work()
                print("DONE", flush=True)
            case "account":
                print(json.dumps(node.account()), flush=True)
            case "close":
                break
    if not session.is_closed():
        session.close()


if __name__ == "__main__":
    main()
