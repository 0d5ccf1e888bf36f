# SPDX-License-Identifier: Apache-2.0
"""The process that records for a live query (`python -m zenlake.spark.recorder`); see `zenlake.spark.live`, which starts it.

It is told what to record in the first line of its standard input and ends when that closes. One line of its standard output says
how it began: `recording`; `standing by`, because another one records the same into that log, whose place it takes when
that one ends; or what is wrong.
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

from zenlake.errors import LogError, ZenlakeError
from zenlake.redact import redact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zenlake.tap.tap import Tap

NAME = "spark"  # of the writer in the log
PLACE = "recording.json"  # who holds its lock records; it says what
LOOK = 0.25  # seconds between two looks at whether the place is free
GRACE = 10.0  # seconds in which a log has to be sealed


def main(told: IO[str], tell: IO[str]) -> int:
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")  # which goes where Spark's own goes
    asked: dict[str, Any] = json.loads(told.readline())
    over = threading.Event()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which ends us
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    threading.Thread(target=until_closed, args=(told, over), daemon=True).start()
    try:
        with place(Path(asked["path"]), asked, over, tell) as is_ours:
            if not is_ours:
                return 0
            with tapped(asked):
                say(tell, "recording")
                over.wait()
    except (ZenlakeError, OSError) as error:
        say(tell, " ".join(str(error).split()))
        return 1
    return 0


def until_closed(told: IO[str], over: threading.Event) -> None:
    """The other end of the pipe is gone, and with it the query: end in order, or at least in time."""
    told.read()
    over.set()
    timer = threading.Timer(GRACE, os._exit, [1])
    timer.daemon = True
    timer.start()


@contextmanager
def place(log: Path, asked: dict[str, Any], over: threading.Event, tell: IO[str]) -> "Iterator[bool]":
    """Wait until nobody else records into this log; whether it is ours then."""
    about = {
        name: [redact(each) for each in asked[name]] for name in ("connect", "subscribe")
    }  # it is written to a file
    file = os.open(log / PLACE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        while not over.is_set():
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held = os.pread(file, 1 << 16, 0)
                if held:
                    refuse_other(json.loads(held), about, log)
                    say(tell, "standing by")
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
        raise LogError(f"another query records {other} into {log}: give this one a path of its own")


def tapped(asked: dict[str, Any]) -> "Tap":
    from zenlake.api.opening import node_config
    from zenlake.log import Retention
    from zenlake.spark.sink import configured
    from zenlake.tap.tap import Tap

    network = node_config(configured(asked["connect"], asked["config"]))
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


def say(tell: IO[str], word: str) -> None:
    """The first word counts; whoever listened for it does not listen for more."""
    if not tell.closed:
        tell.write(f"{word}\n")
        tell.close()


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed
    sys.exit(main(sys.stdin, answers))
