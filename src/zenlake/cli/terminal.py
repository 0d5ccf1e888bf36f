# SPDX-License-Identifier: Apache-2.0
"""What people see of a command that runs: a console that knows when nobody reads it any more, a line that says how far it is."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.text import Text

from zenlake.cli.lines import escaped

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Printer", "counted", "done", "status_line", "waited", "working"]

T = TypeVar("T")
REFRESH = 0.25  # seconds between two lines


class Printer(Console):
    """A console whose reader may leave: `| head` is no failure. Rich would end the process with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def status_line(words: Iterable[str], problems: Iterable[str] = ()) -> Text:
    """Return the line of a command that runs: problems in red, then the figures."""
    return Text(" · ").join([*(Text(escaped(each), "bold red") for each in problems if each), *map(Text, words)])


def done(text: str, seconds: str = "") -> Text:
    """Return a line for a step that is complete, and how long it took."""
    return Text.assemble(("✓", "green"), f" {escaped(text)}", *([("  " + seconds, "dim")] if seconds else []))


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Shows on the standard error what is being done, if that is a terminal, and what it is told meanwhile. Nothing may be
    printed before it ends: Rich sends the standard output there, too."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with Console(stderr=True, highlight=False).status(Text(escaped(what))) as status:
        shown = 0.0

        def say(text: str) -> None:
            nonlocal shown
            if time.monotonic() - shown > REFRESH:
                shown = time.monotonic()
                status.update(Text(escaped(f"{what}: {text}")))

        yield say


def counted(batches: Iterable["pa.RecordBatch"], what: str) -> Iterator["pa.RecordBatch"]:
    """Record batches as they come, and meanwhile how many rows they were."""
    with working(what) as say:
        rows = 0
        for batch in batches:
            rows += batch.num_rows
            say(f"{rows:,} rows")
            yield batch


def waited(things: Iterable[T], what: str) -> Iterator[T]:
    """Things that take long to come; whoever gets one may print."""
    left = iter(things)
    while True:
        with working(what):
            try:
                found = next(left)
            except StopIteration:
                return
        yield found
