# SPDX-License-Identifier: Apache-2.0
"""The recording process of a live query (`python -m zenlake.spark.recorder_main`), started by `zenlake.spark.recorder_process`.

The first line of its standard input contains the settings. The process ends when its standard input closes. Its first
line of output is `recording`, `standing by` or an error. `standing by` means that another process records the same into the log.
This process takes over when the other one ends.
"""

import fcntl
import json
import logging
import os
import signal
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from zenlake.core.secret_redaction import redact
from zenlake.errors import LogError, ZenlakeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zenlake.tap.tap import Tap

NAME = "spark"  # of the writer in the log
PLACE = "recording.json"  # the owner of this lock records; the file names it
LOOK = 0.25  # seconds between two attempts to take the lock
GRACE = 10.0  # seconds to seal the log


def main(source: IO[str], output: IO[str]) -> int:
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")  # which is Spark's own
    asked: dict[str, Any] = json.loads(source.readline())
    over = threading.Event()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which ends this process
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    threading.Thread(target=until_closed, args=(source, over), daemon=True).start()
    try:
        with place(Path(asked["path"]), asked, over, output) as is_ours:
            if not is_ours:
                return 0
            with open_tap(asked):
                print_status(output, "recording")
                over.wait()
    except (ZenlakeError, OSError) as error:
        print_status(output, " ".join(str(error).split()))
        return 1
    return 0


def until_closed(source: IO[str], over: threading.Event) -> None:
    """End in order, or after a time limit, when the pipe of the query closes."""
    source.read()
    over.set()
    timer = threading.Timer(GRACE, os._exit, [1])
    timer.daemon = True
    timer.start()


@contextmanager
def place(log: Path, asked: dict[str, Any], over: threading.Event, output: IO[str]) -> "Iterator[bool]":
    """Wait until no other process records into this log. Return whether this process holds the lock."""
    about = {name: [redact(each) for each in asked[name]] for name in ("connect", "subscribe")}  # written to a file
    file = os.open(log / PLACE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        while not over.is_set():
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held = os.pread(file, 1 << 16, 0)
                if held:
                    refuse_other(json.loads(held), about, log)
                    print_status(output, "standing by")
                over.wait(LOOK)
                continue
            os.ftruncate(file, 0)
            os.pwrite(file, json.dumps({**about, "process": os.getpid()}).encode(), 0)
            yield True
            return
        yield False
    finally:
        os.close(file)


def refuse_other(held: dict[str, Any], about: dict[str, Any], log: Path) -> None:
    if {name: held[name] for name in about} != about:
        other = f"{','.join(held['subscribe'])} of {','.join(held['connect'])}"
        raise LogError(f"another query records {other} into {log}; use another path for this one")


def open_tap(asked: dict[str, Any]) -> "Tap":
    from zenlake.api.config_mapping import node_config
    from zenlake.log import Retention
    from zenlake.spark.network_sink import make_config
    from zenlake.tap.tap import Tap

    network = node_config(make_config(asked["connect"], asked["config"]))
    hours = asked["keep_hours"]
    return Tap(
        asked["path"],
        asked["subscribe"],
        connect=network.connect,
        name=NAME,
        retention=None if hours is None else Retention(age=hours * 3600),
        transport=network.transport,
        tls=network.tls,
        timeout=network.connect_timeout,
        backoff=network.backoff,
    )


def print_status(output: IO[str], word: str) -> None:
    """Print the first line of output, once. The parent reads only that line."""
    if not output.closed:
        output.write(f"{word}\n")
        output.close()


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # for any other output
    sys.exit(main(sys.stdin, answers))
