# SPDX-License-Identifier: Apache-2.0
"""Terminal output of running commands: a console that handles closed pipes, and progress lines."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.text import Text

from zenlake.cli.formatting import escape

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Printer", "show_count", "step_line", "status_line", "show_wait", "show_work"]

T = TypeVar("T")
REFRESH = 0.25  # seconds between two updates


class Printer(Console):
    """A console that raises BrokenPipeError. Rich would exit with code 1, but `| head` is not a failure."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def status_line(words: Iterable[str], problems: Iterable[str] = ()) -> Text:
    """Return the line of a command that runs: problems in red, then the figures."""
    return Text(" · ").join([*(Text(escape(each), "bold red") for each in problems if each), *map(Text, words)])


def step_line(text: str, seconds: str = "") -> Text:
    """Return a line for a step that is complete, and how long it took."""
    return Text.assemble(("✓", "green"), f" {escape(text)}", *([("  " + seconds, "dim")] if seconds else []))


@contextmanager
def show_work(what: str) -> Iterator[Callable[[str], None]]:
    """Show a progress line on the standard error if it is a terminal, and yield a function that updates it.

    Do not print inside this context: Rich redirects the standard output there, too.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with Console(stderr=True, highlight=False).status(Text(escape(what))) as status:
        shown = 0.0

        def say(text: str) -> None:
            nonlocal shown
            if time.monotonic() - shown > REFRESH:
                shown = time.monotonic()
                status.update(Text(escape(f"{what}: {text}")))

        yield say


def show_count(batches: Iterable["pa.RecordBatch"], what: str) -> Iterator["pa.RecordBatch"]:
    """Yield record batches, and show the number of rows so far."""
    with show_work(what) as say:
        rows = 0
        for batch in batches:
            rows += batch.num_rows
            say(f"{rows:,} rows")
            yield batch


def show_wait(things: Iterable[T], what: str) -> Iterator[T]:
    """Yield items with a progress line while waiting for each. The caller may print between items."""
    left = iter(things)
    while True:
        with show_work(what):
            try:
                found = next(left)
            except StopIteration:
                return
        yield found
