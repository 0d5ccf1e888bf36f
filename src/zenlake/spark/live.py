# SPDX-License-Identifier: Apache-2.0
"""Recording while reading: a tap in a process of its own, for as long as the query lives.

Spark asks for a stream's offsets in one Python process for each source of a query, makes the reader in it anew as it likes, and
ends that process with the query: by a signal, or because the driver is gone. So the recorder (`zenlake.spark.recorder`) is a child
of that process, found again by the log's path, and ends when the pipe from it closes, which the system does however a process dies.

Several queries, or several sources of one, may record the same into one log: one recorder works and the others stand by.
"""

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from zenlake.errors import LogError
from zenlake.log import Log, Offsets, is_log
from zenlake.log.layout import MARKER, new_marker

__all__ = ["Recording", "began", "ended", "made", "recorded"]


@dataclass(frozen=True)
class Recording:
    """What is to be recorded."""

    connect: list[str]
    subscribe: list[str]
    config: str | None
    keep_hours: float | None


class Recorder:
    """The child that records into one log, and from where on."""

    def __init__(self, path: str, recording: Recording) -> None:
        self.path = path
        self.recording = recording
        made(path)
        self.began = Log(path).latest()
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "zenlake.spark.recorder"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        # Not as arguments: they are seen by everybody, and a configuration may hold a password.
        process.stdin.write(json.dumps({"path": self.path, **asdict(self.recording)}) + "\n")
        process.stdin.flush()
        told = process.stdout.readline()
        if told not in ("recording\n", "standing by\n"):
            process.stdin.close()
            process.wait()
            raise LogError(f"zenoh: {told.strip() or 'the recorder ended before it said anything'}")
        return process

    def ensure(self) -> None:
        """Start it again if it was killed; the log begins a new segment and says what it lost."""
        if self._process.poll() is not None:
            self._process = self._start()

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)


_recorders: dict[str, Recorder] = {}  # of this process, by the log's path


def recorded(path: str, recording: Recording) -> None:
    """Have that recorded into the log at this path, from now on; or one line that says why it cannot be."""
    found = _recorders.get(path)
    if found is None:
        _recorders[path] = Recorder(path, recording)
    else:
        found.ensure()


def began(path: str) -> Offsets:
    """Where the log ended when this process began to record into it."""
    return _recorders[path].began


def ended(path: str) -> None:
    found = _recorders.pop(path, None)
    if found is not None:
        found.end()


def made(path: str | os.PathLike[str]) -> None:
    """An empty log, if there is none: its identity must be known before anything is recorded."""
    if is_log(path):
        return
    root = Path(path)
    root.mkdir(parents=True, exist_ok=True)
    fresh = root / f"{MARKER}.{os.getpid()}.new"
    fresh.write_bytes(new_marker())
    try:
        with suppress(FileExistsError):
            os.link(fresh, root / MARKER)  # of several that come at once, one makes it
    finally:
        fresh.unlink()
