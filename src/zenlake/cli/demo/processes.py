# SPDX-License-Identifier: Apache-2.0
"""The processes of the live demo: a recording router and its fleet. All of them end with the demo."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zenlake.errors import ZenlakeError

__all__ = ["Fleet", "SentCounts"]

ROBOTS = 20
LOST = 9  # the robot that is killed midway
PATIENCE = 30.0
LISTENS = re.compile(r"listens on (\S+?)[,\s]")


@dataclass(slots=True)
class SentCounts:
    """Counters that the processes of the fleet print."""

    sent: Counter[str] = field(default_factory=Counter)
    killed: Counter[str] = field(default_factory=Counter)
    """Sent by the killed robot, as of its last printed line."""
    asked: Counter[str] = field(default_factory=Counter)
    looked: int = 0
    """Pictures that the slow subscriber processed."""


class Program:
    """A child process and the last line of its output."""

    def __init__(self, *arguments: str, stderr: int = subprocess.DEVNULL) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True, start_new_session=True,
        )  # fmt: skip
        self.ready = threading.Event()
        self.last = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        stream = self.process.stderr if self.process.stderr is not None else self.process.stdout
        for line in stream or ():
            if line.endswith("\n"):  # ignore the partial line of a killed process
                self.last = line.strip()
            self.ready.set()
        self.ready.set()

    def wait(self) -> Any:
        """Wait until the process ends, and return its last line, decoded from JSON."""
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise ZenlakeError(f"a process of the fleet did not end within {PATIENCE:g} s") from None
        return self.last_output()

    def last_output(self) -> Any:
        """Return the last line of a process that has ended, decoded from JSON."""
        self._reader.join(PATIENCE)
        return json.loads(self.last) if self.last.startswith("{") else {}

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


class Fleet:
    """A router that records into `log`, with 20 robots, an operator and a slow subscriber."""

    def __init__(self, log: Path, seconds: float) -> None:
        self._seconds = seconds
        self._programs: list[Program] = []
        self.router = self._start(
            "-c", "from zenlake.cli import main; main()", "router", "--listen", "tcp/127.0.0.1:0", "--log", str(log),
            stderr=subprocess.PIPE,
        )  # fmt: skip
        self.router.ready.wait(PATIENCE)
        found = LISTENS.search(self.router.last + " ")
        if found is None:
            self.close()
            raise ZenlakeError(f"the demo's router did not start: {self.router.last or 'no output'}")
        self.endpoint = found[1]
        self.real = importlib.util.find_spec("zenoh") is not None
        """Whether half of the robots run on Eclipse Zenoh."""

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self) -> None:
        """Start all processes and wait until they are connected."""
        other = "zenoh" if self.real else "zenlake"
        self._lost = self._part("zenlake", "robots", "--first", str(LOST), "--progress")
        self._parts = [
            self._part("zenlake", "robots", "--count", str(LOST)),
            self._part(other, "robots", "--first", str(LOST + 1), "--count", str(ROBOTS - LOST - 1)),
        ]
        self._operator = self._part("zenlake", "operator")
        self._slow = self._part("zenlake", "slow")
        for program in (self._lost, *self._parts, self._operator, self._slow):
            if not program.ready.wait(PATIENCE) or not program.last:
                raise ZenlakeError(f"a process of the fleet did not start within {PATIENCE:g} s")

    def lose_one(self) -> None:
        """Kill one robot with SIGKILL."""
        self._lost.end(signal.SIGKILL)

    def finish(self) -> SentCounts:
        """Wait until all processes have ended and the router has sealed its log, and return the counters."""
        counters = SentCounts(killed=Counter(self._lost.last_output().get("sent", {})))
        for program in self._parts:
            counters.sent.update(program.wait()["sent"])
        counters.asked.update(self._operator.wait()["asked"])
        counters.looked = self._slow.wait()["looked"]
        self.router.end()
        return counters

    def close(self) -> None:
        for program in self._programs:
            program.end()

    def _part(self, module: str, role: str, *arguments: str) -> Program:
        return self._start(
            "-m", "zenlake.cli.demo.robots", "--module", module, "--connect", self.endpoint, "--seconds",
            f"{self._seconds:g}", role, *arguments,
        )  # fmt: skip

    def _start(self, *arguments: str, stderr: int = subprocess.DEVNULL) -> Program:
        program = Program(*arguments, stderr=stderr)
        self._programs.append(program)
        return program
