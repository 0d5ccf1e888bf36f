# SPDX-License-Identifier: Apache-2.0
"""Recording while reading: a tap in its own process, as long as the query lives.

Spark requests a stream's offsets in one Python process per source of a query. It recreates the reader in it at any time
and ends the process with the query, by a signal or because the driver is gone. The recorder (`zenlake.spark.recorder_main`)
is a child of that process, found by the path of the log. It ends when the pipe from its parent closes, however the
parent dies.

Several queries, or several sources of one, may record the same into one log: one recorder works, the others stand by.
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

__all__ = ["RecordingOptions", "starting_offsets", "stop_recording", "make_recorder", "start_recording"]


@dataclass(frozen=True)
class RecordingOptions:
    """Settings of a recording."""

    connect: list[str]
    subscribe: list[str]
    config: str | None
    keep_hours: float | None


class RecorderProcess:
    """The recorder process of one log, and its first offset."""

    def __init__(self, path: str, recording: RecordingOptions) -> None:
        self.path = path
        self.recording = recording
        make_recorder(path)
        self.began = Log(path).latest()
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "zenlake.spark.recorder_main"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        # Not as arguments: all users can see these, and a configuration may contain a password.
        process.stdin.write(json.dumps({"path": self.path, **asdict(self.recording)}) + "\n")
        process.stdin.flush()
        status = process.stdout.readline()
        if status not in ("recording\n", "standing by\n"):
            process.stdin.close()
            process.wait()
            raise LogError(f"zenoh: {status.strip() or 'the recorder ended without a status'}")
        return process

    def ensure(self) -> None:
        """Start the recorder again if it was killed. The log starts a new segment and records the loss."""
        if self._process.poll() is not None:
            self._process = self._start()

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)


_recorders: dict[str, RecorderProcess] = {}  # of this process, by path of the log


def start_recording(path: str, recording: RecordingOptions) -> None:
    """Start recording into a log. Raise one line if that is not possible."""
    found = _recorders.get(path)
    if found is None:
        _recorders[path] = RecorderProcess(path, recording)
    else:
        found.ensure()


def starting_offsets(path: str) -> Offsets:
    """Return the end of the log when this process started to record."""
    return _recorders[path].began


def stop_recording(path: str) -> None:
    found = _recorders.pop(path, None)
    if found is not None:
        found.end()


def make_recorder(path: str | os.PathLike[str]) -> None:
    """Create an empty log if it is missing: its identity must be known before recording starts."""
    if is_log(path):
        return
    root = Path(path)
    root.mkdir(parents=True, exist_ok=True)
    fresh = root / f"{MARKER}.{os.getpid()}.new"
    fresh.write_bytes(new_marker())
    try:
        with suppress(FileExistsError):
            os.link(fresh, root / MARKER)  # of several concurrent processes, one creates it
    finally:
        fresh.unlink()
