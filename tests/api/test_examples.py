# SPDX-License-Identifier: Apache-2.0
"""Run every example and check its output: Zenlake with Zenlake, and the same programs with eclipse-zenoh.

The examples use only names of zenoh-python, except those that show features that it lacks. So `zenlake` can be aliased to it.
"""

import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE = 25.0

AS_THE_WHEEL = """
import runpy, sys
import zenoh, zenoh.ext, zenoh.handlers
sys.modules.update({"zenlake": zenoh, "zenlake.ext": zenoh.ext, "zenlake.handlers": zenoh.handlers})
script = sys.argv[1]
sys.argv = sys.argv[1:]
sys.path.insert(0, script.rpartition("/")[0])
runpy.run_path(script, run_name="__main__")
"""


class Program:
    """An example that runs; its lines come as they are printed."""

    def __init__(self, name, *arguments, wheel=False):
        how = ["-c", AS_THE_WHEEL] if wheel else []
        quiet = [] if name == "z_bytes" else ["--no-multicast-scouting"]
        self.process = subprocess.Popen(
            [sys.executable, *how, str(EXAMPLES / f"{name}.py"), *quiet, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines = []
        self._coming = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self._coming.put(line)
        self._coming.put(None)

    def until(self, text):
        """Wait for a line with this text."""
        end = time.monotonic() + PATIENCE
        while True:
            line = self._coming.get(timeout=max(0.0, end - time.monotonic()))
            assert line is not None, f"it ended without saying {text!r}: {''.join(self.lines)}"
            self.lines.append(line)
            if text in line:
                return line

    def ended(self):
        assert self.process.wait(PATIENCE) == 0, "".join(self.lines)

    def interrupt(self):
        """Interrupt the program as Ctrl-C does. It must end soon."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(PATIENCE)
        self.process.stdout.close()


def endpoint():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"tcp/127.0.0.1:{sock.getsockname()[1]}"


# The waiting program with its arguments, the other program with its arguments, and the expected output of both.
QUIT = "Press Ctrl-C"
PAIRS = {
    "put": (("z_sub",), ("z_put", "-p", "hello"), ">> SampleKind.PUT demo/example/put: hello", "Putting"),
    "delete": (("z_sub",), ("z_delete",), ">> SampleKind.DELETE demo/example/put", "Deleting"),
    "pub": (
        ("z_sub",),
        ("z_pub", "-n", "2", "--interval", "0.2"),
        "[   1] Pub from Zenlake! (1)",
        "matching subscribers",
    ),
    "pull": (("z_pull", "--interval", "0.2"), ("z_put", "-p", "hello"), ">> demo/example/put: hello", "Putting"),
    "get": (
        ("z_queryable",),
        ("z_get",),
        ">> query demo/example/**",
        ">> demo/example/queryable: Queryable from Zenlake!",
    ),
    "querier": (("z_queryable",), ("z_querier", "-n", "1"), ">> query", ">> Queryable from Zenlake!"),
    "liveliness": (("z_liveliness",), ("z_get_liveliness",), None, ">> alive: group1/zenlake"),
    "ping": (("z_pong",), ("z_ping", "-n", "20"), None, "8 bytes, 20 times"),
    "throughput": (("z_sub_thr", "-s", "1"), ("z_pub_thr", "-n", "20000"), "messages/s", None),
}
WAYS = [
    pytest.param(False, False, id="ours-ours"),
    pytest.param(False, True, id="ours-wheel", marks=pytest.mark.interop),
    pytest.param(True, False, id="wheel-ours", marks=pytest.mark.interop),
]


OURS_ONLY = {"delete", "pull"}  # they show nothing that the other examples lack
RUNS = [
    pytest.param(pair, *way.values, id=f"{pair}-{way.id}", marks=way.marks)
    for pair in PAIRS
    for way in (WAYS[:1] if pair in OURS_ONLY else WAYS)
]


@pytest.mark.parametrize(("pair", "first_is_wheel", "second_is_wheel"), RUNS)
def test_pair(pair, first_is_wheel, second_is_wheel):
    waiting, coming, first_says, second_says = PAIRS[pair]
    where = endpoint()
    with Program(*waiting, "-l", where, wheel=first_is_wheel) as first:
        first.until("Waiting" if pair == "throughput" else QUIT)
        with Program(*coming, "-e", where, wheel=second_is_wheel) as second:
            if second_says is not None:
                second.until(second_says)
            if first_says is not None:
                first.until(first_says)
            if pair != "throughput":
                second.ended()
        first.interrupt()


@pytest.mark.parametrize(("first_is_wheel", "second_is_wheel"), WAYS)
def test_late_subscriber_gets_history(first_is_wheel, second_is_wheel):
    where = endpoint()
    with Program("z_advanced_pub", "-l", where, "-i", "2", "--interval", "0.3", wheel=first_is_wheel) as publisher:
        publisher.until("Put 3")
        with Program("z_advanced_sub", "-e", where, wheel=second_is_wheel) as subscriber:
            first = subscriber.until(">> demo/example/advanced")
            number = int(first.partition("[")[2].partition("]")[0])
            assert number >= 2
            subscriber.until(f"[{number + 3}] advanced")
            numbers = [int(line.partition("[")[2].partition("]")[0]) for line in subscriber.lines if "advanced" in line]
            assert numbers == list(range(number, number + 4))
            subscriber.interrupt()
        publisher.interrupt()


def test_storage_remembers_and_forgets():
    where = endpoint()
    with Program("z_storage", "-l", where) as storage:
        storage.until(QUIT)
        for name, arguments, says in (
            ("z_put", ("-p", "kept"), "Putting"),
            ("z_get", (), ">> demo/example/put: kept"),
            ("z_delete", (), "Deleting"),
        ):
            with Program(name, *arguments, "-e", where) as program:
                program.until(says)
                program.ended()
        storage.until("DELETE")
        with Program("z_get", "-e", where) as program:
            program.ended()
            assert not any("kept" in line for line in program.lines)
        storage.interrupt()


def test_liveliness_is_seen_to_end():
    where = endpoint()
    with Program("z_sub_liveliness", "-l", where) as watcher:
        watcher.until(QUIT)
        with Program("z_liveliness", "-e", where) as token:
            watcher.until("alive: group1/zenlake")
            token.interrupt()
        watcher.until("gone: group1/zenlake")
        watcher.interrupt()


@pytest.mark.parametrize(
    ("name", "says"), [("z_sub_async", ">> demo/example/put: hello"), ("z_sub_table", ">> 1 rows")]
)
def test_names_beyond_zenoh_python(name, says):
    where = endpoint()
    with Program(name, "-l", where) as subscriber:
        subscriber.until(QUIT)
        with Program("z_put", "-p", "hello", "-e", where) as put:
            put.ended()
        subscriber.until(says)
        subscriber.interrupt()


@pytest.mark.parametrize(("name", "says"), [("z_info", "zid: "), ("z_bytes", "all came back"), ("z_scout", None)])
def test_alone(name, says):
    with Program(name) as program:
        if says is not None:
            program.until(says)
        program.ended()


def test_every_example_is_run_here():
    run = Path(__file__).read_text()
    assert [path.stem for path in EXAMPLES.glob("z_*.py") if f'"{path.stem}"' not in run] == []
