# SPDX-License-Identifier: Apache-2.0
"""A large capture decoded by several threads, in order and in bounded memory.

The loops over packets and messages hold no interpreter lock, so threads do. Each takes the next range of the plan, which
means to make the pass that finds it if it is not known from an earlier reading, and then decodes it, while another is at
the pass: one at a time there, the others decode. What a range gives waits in a lane of its own until whoever asked has
taken those before it.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from zenlake import capture
from zenlake.capture import PATH, Capture
from zenlake.capture.decoded import ROWS, Decoded, Tables, decode_range, notes_of
from zenlake.capture.decoded import decode as decode_here
from zenlake.capture.known import KnownPlan
from zenlake.capture.ranges import SIZE, Range, size_that_can_be_cut
from zenlake.columns import Decoder
from zenlake.columns.pool import Pool

LARGE = 64 << 20  # bytes of a capture that is worth a second thread
MOST_THREADS = 4  # more would wait for the pass
AHEAD = 1  # ranges that are decoded and not taken yet, besides those at which a thread is
LONGEST = 8  # record batches that wait in a lane

Keep = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Found = tuple[str, pa.RecordBatch] | BaseException
Lane = deque[Found | None]  # what a range gives; None: that was all


def threads_for(files: list[str]) -> int:
    """How many threads a capture is worth: one, unless it is large, can be cut, and the machine has more cores."""
    if not can_be_shared(files) or size_that_can_be_cut(files) < LARGE:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_THREADS)


def can_be_shared(files: list[str]) -> bool:
    """Whether there is something to be cut, and nothing that can be read only once."""
    return size_that_can_be_cut(files) > 0 and all(map(os.path.isfile, files))


def decode(
    paths: PATH | Iterable[PATH],
    tables: Tables,
    *,
    threads: int | None = None,
    keep: Keep | None = None,
    rows: int = ROWS,
    size: int = SIZE,
) -> Decoded:
    """As `decoded.decode`, by as many threads as the capture is worth or as are asked for.

    `keep` is applied to a table's record batches where they are decoded; `size` is that of a range.
    """
    source = capture.open(paths)
    if threads is None:
        threads = threads_for(source.files)
    if threads < 2 or not can_be_shared(source.files):
        return kept(decode_here(source, tables, rows), keep)
    return decode_by_threads(source, tables, threads, keep, rows, size)


def kept(found: Decoded, keep: Keep | None) -> Decoded:
    for table, batch in found:
        for each in [batch] if keep is None else keep(iter([batch])):
            yield table, each


def decode_by_threads(
    source: Capture, tables: Tables, threads: int, keep: Keep | None, rows: int, size: int
) -> Decoded:
    plan = source.plan(size, carry=True)
    crew = Crew(plan, tables, keep, rows)
    try:
        crew.start(threads)
        yield from crew.results()
    finally:
        crew.stop()
    yield from kept(notes_of(plan, tables), keep)


class Crew:
    """Threads over one plan."""

    def __init__(self, plan: KnownPlan, tables: Tables, keep: Keep | None, rows: int) -> None:
        self._tables, self._keep, self._rows = tables, keep, rows
        self._ranges = plan.ranges()
        self._turn = threading.Lock()  # at the pass
        self._threads: list[threading.Thread] = []
        self._lanes: deque[Lane] = deque()  # of the ranges that are not taken yet, in order
        self._over = False  # there will be no further lane
        self._stopped = False
        # To wake somebody takes long, and nobody else may run meanwhile: each is woken for what it waits for.
        self._lock = threading.Lock()  # of these, and of the lanes
        self._given = threading.Condition(self._lock)  # something to the first lane, or there will be no further
        self._taken = threading.Condition(self._lock)  # a lane, or much of one; or nobody wants more

    def start(self, count: int) -> None:
        for _ in range(count):
            self._threads.append(threading.Thread(target=self._run, name="zenlake-capture", daemon=True))
            self._threads[-1].start()

    def stop(self) -> None:
        """Whatever they are at, they leave it; after this none is left."""
        with self._lock:
            self._stopped = True
            self._taken.notify_all()
        for thread in self._threads:
            thread.join()
        self._ranges.close()

    def results(self) -> Decoded:
        while some := self._next_results():
            while some:
                found = some.popleft()
                if isinstance(found, BaseException):
                    raise found
                if found is not None:
                    yield found

    def _next_results(self) -> Lane:
        """All that the first lane has; nothing, if there will be no further."""
        with self._lock:
            self._given.wait_for(lambda: self._lanes[0] if self._lanes else self._over)
            if not self._lanes:
                return deque()
            some = self._lanes[0].copy()
            self._lanes[0].clear()
            if some[-1] is None:
                self._lanes.popleft()
            if some[-1] is None or len(some) >= LONGEST:
                self._taken.notify_all()
            return some

    # In the threads

    def _run(self) -> None:
        decoder = Decoder(self._tables, self._rows)
        pool = Pool()
        while (work := self._next_range(len(self._threads) + AHEAD)) is not None:
            each, lane = work
            try:
                for found in kept(decode_range(each, self._tables, decoder=decoder, pool=pool), self._keep):
                    if not self._put(lane, found):
                        return
                self._put(lane, None)
            except BaseException as error:  # whoever asked is told
                self._put(lane, error)

    def _next_range(self, most: int) -> tuple[Range, Lane] | None:
        """The next range, and the lane of what it gives; None if there is none, or nobody wants it any more."""
        with self._turn:
            with self._lock:
                self._taken.wait_for(lambda: self._stopped or len(self._lanes) < most)
                if self._stopped or self._over:
                    return None
            lane: Lane = deque()
            try:
                each = next(self._ranges, None)
            except BaseException as error:
                each = None
                lane.append(error)
            with self._lock:
                self._over = each is None
                if each is not None or lane:
                    self._lanes.append(lane)
                if self._over:
                    self._given.notify()
            return None if each is None else (each, lane)

    def _put(self, lane: Lane, found: Found | None) -> bool:
        """False = nobody is there any more."""
        with self._lock:
            self._taken.wait_for(lambda: self._stopped or len(lane) < LONGEST)
            lane.append(found)
            if lane is self._lanes[0]:
                self._given.notify()
            return not self._stopped
