# SPDX-License-Identifier: Apache-2.0
"""Shared memory between our nodes and the real ones: both directions, every link, through routers, and after kill -9."""

import json
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from zenlake.shared_memory.segment import FOLDER, is_available

HERE = Path(__file__).parent
PATIENCE = 30.0
OURS, WHEEL = "zenlake", "zenoh"
PAIRS = [(OURS, OURS), (OURS, WHEEL), (WHEEL, OURS)]
QUIET_POOL = {"transport/shared_memory/transport_optimization/enabled": False}

pytestmark = pytest.mark.skipif(not is_available(), reason="shared memory needs Linux and compiled modules")


class Node:
    """A node in its own process."""

    def __init__(self, library: str, **config: Any) -> None:
        self.library = library
        config = {"transport/shared_memory/enabled": True} | {
            key.replace("__", "/"): each for key, each in config.items()
        }
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed with the process
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "shm_node.py"), library, json.dumps(config)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, text=True,
        )  # fmt: skip
        self.samples: queue.Queue[list[Any]] = queue.Queue()
        self._answers: queue.Queue[list[Any]] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._take(self._answers) == ["ready"], self.errors()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            (self.samples if event[0] == "sample" else self._answers).put(event)
        for each in (self.samples, self._answers):
            each.put(["ended"])  # wakes readers of an ended process

    def _take(self, events: queue.Queue[list[Any]]) -> list[Any]:
        try:
            return events.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError(f"the node says nothing for {PATIENCE} s: {self.stacks()}") from None

    def sample(self) -> list[Any]:
        return self._take(self.samples)

    def stacks(self) -> str:
        """Return the log of the process and the stack of each thread."""
        self.process.send_signal(signal.SIGUSR1)
        time.sleep(1)
        return self.errors()

    def errors(self) -> str:
        """Return the log of the process."""
        self._stderr.seek(0)
        return self._stderr.read()

    def do(self, *words: Any) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        if words[0] == "close":
            return None
        kind, *value = self._take(self._answers)
        assert kind == "done", (kind, value, self.errors())
        return value[0]

    def expect(self, key: str, size: int, kind: str | None) -> None:
        """Wait for a sample with the right bytes. With `kind` None, both kinds are accepted."""
        found = self.sample()
        assert found == ["sample", key, size, found[3] if kind is None else kind, True], self.errors()

    def segments(self) -> set[str]:
        """Return the files of shared memory that the process has open."""
        folder = Path(f"/proc/{self.process.pid}/fd")
        found = set()
        for each in folder.iterdir():
            try:
                target = os.readlink(each)
            except OSError:
                continue
            if target.startswith(FOLDER) and target.endswith(".zenoh"):
                found.add(target)
        return found

    def close(self) -> None:
        """End the process."""
        if self.process.poll() is None:
            self.do("close")
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            stacks = self.stacks()
            self.process.kill()
            assert self.library == WHEEL, f"the node does not end: {stacks}"
        finally:
            self._end()

    def _end(self) -> None:
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout, self._stderr):
            if pipe is not None:
                pipe.close()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self._end()


Start = Callable[..., Node]


@pytest.fixture
def start() -> Iterator[Start]:
    nodes: list[Node] = []

    def begin(library: str, **config: Any) -> Node:
        nodes.append(Node(library, **config))
        return nodes[-1]

    yield begin
    for node in reversed(nodes):
        if node.process.poll() is None:
            node.close()


def until(condition: Callable[[], Any], why: str = "") -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, why
        time.sleep(0.02)


def connect(start: Start, listener: str, opener: str, endpoint: str, **config: Any) -> tuple[Node, Node]:
    first = start(listener, mode="peer", listen__endpoints=[endpoint], **config)
    second = start(opener, mode="peer", listen__endpoints=[], connect__endpoints=[endpoint], **config)
    return first, second


def publish_and_check(source: Node, target: Node, links_agree: bool = True) -> None:
    """Publish from a provider and through the pool, and check that every buffer comes back."""
    kind = "shm" if links_agree else "raw"
    target.do("sub", "t/**")
    source.do("alloc", 1 << 20)
    until(lambda: _arrives(source, target), "the subscriber is not known")
    source.do("shm", "t/large", 100_000)
    target.expect("t/large", 100_000, kind)
    source.do("shm", "t/small", 10)
    target.expect("t/small", 10, kind)
    deadline = time.monotonic() + PATIENCE
    while True:  # the wheel creates its pool in the background of the first large payload
        source.do("put", "t/pool", 20_000)
        found = target.sample()
        assert found == ["sample", "t/pool", 20_000, found[3], True]
        if found[3] == kind:
            break
        assert time.monotonic() < deadline
    source.do("put", "t/inline", 3071)
    target.expect("t/inline", 3071, "raw")
    until(lambda: source.do("is_full_after_collect", 900_000), "a buffer has not come back")


def _arrives(source: Node, target: Node) -> bool:
    source.do("put", "t/probe", 1)
    try:
        target.samples.get(timeout=0.2)
    except queue.Empty:
        return False
    source.do("put", "t/last", 2)  # late samples of earlier probes may precede it
    while target.sample()[1] != "t/last":
        pass
    return True


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_payloads_travel_in_shared_memory(start: Start, ports: Iterator[int], source: str, target: str) -> None:
    theirs, ours = connect(start, target, source, f"tcp/127.0.0.1:{next(ports)}")
    publish_and_check(ours, theirs)
    assert ours.do("transports") == theirs.do("transports") == [True]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_unix_socket_with_low_latency(start: Start, tmp_path: Path, source: str, target: str) -> None:
    config = {"transport__unicast__lowlatency": True, "transport__unicast__qos__enabled": False}
    endpoint = f"unixsock-stream/{tmp_path}/z"
    receiver, sender = connect(start, target, source, endpoint, **config)
    publish_and_check(sender, receiver)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_datagrams_have_references_without_counters(
    start: Start, ports: Iterator[int], source: str, target: str
) -> None:
    receiver, sender = connect(start, target, source, f"udp/127.0.0.1:{next(ports)}")
    publish_and_check(sender, receiver)


@pytest.mark.parametrize(("asker", "replier"), PAIRS)
def test_queries_and_replies(start: Start, ports: Iterator[int], asker: str, replier: str) -> None:
    """The wheel declares a wrong size of a query's body, and announces references on errors that have none."""
    second, first = connect(start, replier, asker, f"tcp/127.0.0.1:{next(ports)}")
    second.do("queryable", "q/ok", 9000)
    second.do("queryable", "q/err", 0)
    until(lambda: first.do("get", "q/ok", 10), "the queryable is not known")
    kinds = set()
    deadline = time.monotonic() + PATIENCE
    while "shm" not in kinds and time.monotonic() < deadline:
        assert first.do("get", "q/ok", 6000) == [[9000, True]]
        while not second.samples.empty():
            kinds.add(second.samples.get()[3])
    assert "shm" in kinds
    for _ in range(3):
        assert first.do("get", "q/err", 100) == [[5000, True]]


@pytest.mark.parametrize("router", [OURS, WHEEL])
@pytest.mark.parametrize(("source", "target"), [(OURS, OURS), (WHEEL, OURS), (OURS, WHEEL)])
def test_a_router_passes_references_on(
    start: Start, ports: Iterator[int], router: str, source: str, target: str
) -> None:
    endpoint = f"tcp/127.0.0.1:{next(ports)}"
    start(router, mode="router", listen__endpoints=[endpoint])
    receiver = start(target, mode="client", connect__endpoints=[endpoint])
    plain = start(OURS, mode="client", connect__endpoints=[endpoint], transport__shared_memory__enabled=False)
    sender = start(source, mode="client", connect__endpoints=[endpoint])
    plain.do("sub", "t/large")
    publish_and_check(sender, receiver)
    plain.expect("t/large", 100_000, "raw")


@pytest.mark.parametrize("off", [0, 1])
def test_without_agreement_payloads_are_inline(start: Start, ports: Iterator[int], off: int) -> None:
    endpoint = f"tcp/127.0.0.1:{next(ports)}"
    switches = [{"transport__shared_memory__enabled": i != off} for i in range(2)]
    receiver = start(WHEEL, mode="peer", listen__endpoints=[endpoint], **switches[0])
    sender = start(OURS, mode="peer", listen__endpoints=[], connect__endpoints=[endpoint], **switches[1])
    publish_and_check(sender, receiver, False)
    assert sender.do("transports") == [False]


SCARCE = """
import json, sys, zenlake
from zenlake.shared_memory import auth_segment as auth

begin = auth.AuthSegment.__init__

def begin_with_one_link(self):
    begin(self)
    del self._free[1:]

auth.AuthSegment.__init__ = begin_with_one_link
config = zenlake.Config()
settings = {"mode": "router", "listen/endpoints": [sys.argv[1]], "transport/shared_memory/enabled": True}
for key, value in {**settings, "scouting/multicast/enabled": False}.items():
    config.insert_json5(key, json.dumps(value))
with zenlake.open(config):
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_a_link_without_counters_left_is_inline(start: Start, ports: Iterator[int]) -> None:
    """351 links have counters. The wheel refuses the next session; ours opens it."""
    endpoint = f"tcp/127.0.0.1:{next(ports)}"
    router = subprocess.Popen(
        [sys.executable, "-c", SCARCE, endpoint], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert router.stdout is not None
        assert router.stdout.readline() == "ready\n"
        first = start(WHEEL, mode="client", connect__endpoints=[endpoint])
        second = start(WHEEL, mode="client", connect__endpoints=[endpoint])
        assert (first.do("transports"), second.do("transports")) == ([True], [False])
    finally:
        router.communicate()


@pytest.mark.parametrize("killed", ["source", "target"])
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_nothing_of_ours_is_left(start: Start, ports: Iterator[int], source: str, target: str, killed: str) -> None:
    """After kill -9 of one end under load, the other continues, and closes every segment of the killed one."""
    _kill_one(start, ports, source, target, killed, random.Random(f"{source}{target}{killed}"))


@pytest.mark.slow(reason="a hundred processes are started and killed")
def test_nothing_of_ours_is_left_after_a_hundred_kills(start: Start, ports: Iterator[int]) -> None:
    chance = random.Random(27)
    for _ in range(50):
        source, target = chance.choice(PAIRS)
        _kill_one(start, ports, source, target, chance.choice(["source", "target"]), chance)


def _kill_one(start: Start, ports: Iterator[int], source: str, target: str, killed: str, chance: random.Random) -> None:
    receiver, sender = connect(start, target, source, f"tcp/127.0.0.1:{next(ports)}")
    receiver.do("sub", "t/**")
    sender.do("alloc", 4 << 20)
    sender.do("flood", "t/x", 100_000)
    receiver.expect("t/x", 100_000, "shm")
    time.sleep(chance.random() * 0.2)
    dead, alive = (sender, receiver) if killed == "source" else (receiver, sender)
    files = dead.segments()
    assert files, "it uses no shared memory"
    dead.kill()
    until(lambda: not alive.do("transports"), "the end of the session was not noticed")
    library = target if killed == "source" else source
    if library == OURS and killed == "source":
        until(lambda: len(alive.segments()) <= 1, "a segment of the dead publisher is still open")  # except its own
    own = alive.segments()
    alive.kill() if killed == "target" else alive.close()  # a publisher that waits for room cannot be asked to end
    if library == OURS and killed == "source":
        # Another process that looks for unused files may hold the lock when ours closes. It removes the file then.
        until(lambda: not any(os.path.exists(path) for path in own | files), f"files are left: {own | files}")
