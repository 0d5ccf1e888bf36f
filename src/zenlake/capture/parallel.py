# SPDX-License-Identifier: Apache-2.0
"""A large capture decoded by several threads, in order and in bounded memory.

The loops over packets and messages hold no interpreter lock, so threads do. Each takes the next range of the plan, which
means to make the pass that finds it if it is not known from an earlier reading, and then decodes it, while another is at
the pass: one at a time there, the others decode. What a range gives waits in a lane of its own until whoever asked has
taken those before it. Whoever asked is one of the threads: instead of waiting it decodes, so nobody takes a core from another.
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
    """Threads over one plan; whoever takes the results is one of them."""

    def __init__(self, plan: KnownPlan, tables: Tables, keep: Keep | None, rows: int) -> None:
        self._tables, self._keep, self._rows = tables, keep, rows
        self._ranges = plan.ranges()
        self._turn = threading.Lock()  # at the pass
        self._threads: list[threading.Thread] = []
        self._lanes: deque[Lane] = deque()  # of the ranges that are not taken yet, in order
        self._room = AHEAD  # lanes that may still be begun
        self._over = False  # there will be no further lane
        self._stopped = False
        # To wake somebody takes long, and nobody else may run meanwhile: each is woken for what it waits for.
        self._lock = threading.Lock()  # of these, and of the lanes
        self._given = threading.Condition(self._lock)  # something to the first lane, or there will be no further
        self._taken = threading.Condition(self._lock)  # a lane, or much of one; or nobody wants more

    def start(self, count: int) -> None:
        self._room += count
        for _ in range(count - 1):
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
        """What the ranges give, in order. While the first has nothing to give, another is decoded here."""
        own = Work(self._tables, self._keep, self._rows)
        while (some := self._take()) is not None:
            for found in some:
                if isinstance(found, BaseException):
                    raise found
                if found is not None:
                    yield found
            if some:
                continue
            if own.done and self._may_begin():
                self._begin(own)
            if not own.done and len(own.lane) < LONGEST:
                self._put(own.lane, own.step())
            else:
                self._wait_for_more()

    def _take(self) -> Lane | None:
        """All that the first lane has; None if there will be no further."""
        with self._lock:
            if not self._lanes:
                return None if self._over else deque()
            some = self._lanes[0].copy()
            self._lanes[0].clear()
            over = bool(some) and some[-1] is None
            if over:
                self._lanes.popleft()
                self._room += 1
            if over or len(some) >= LONGEST:
                self._taken.notify_all()
            return some

    def _wait_for_more(self) -> None:
        with self._lock:
            self._given.wait_for(lambda: self._lanes[0] if self._lanes else self._over)

    # In each thread

    def _run(self) -> None:
        work = Work(self._tables, self._keep, self._rows)
        while self._may_begin(wait=True) and self._begin(work):
            while not work.done:
                with self._lock:
                    self._taken.wait_for(lambda: self._stopped or len(work.lane) < LONGEST)
                    if self._stopped:
                        return
                self._put(work.lane, work.step())

    def _may_begin(self, wait: bool = False) -> bool:
        """Whether there is room for another lane and somebody wants it; the room is then taken."""
        with self._lock:
            if wait:
                self._taken.wait_for(lambda: self._stopped or self._room)
            if self._stopped or not self._room:
                return False
            self._room -= 1
            return True

    def _begin(self, work: "Work") -> bool:
        """The next range, if there is one, is now its work."""
        lane: Lane = deque()
        with self._turn:
            try:
                each = None if self._over else next(self._ranges, None)
            except Exception as error:  # whoever asked is told
                each = None
                lane.append(error)
            with self._lock:
                self._over = each is None
                if each is not None or lane:
                    self._lanes.append(lane)
                if self._over:
                    self._given.notify()
        if each is None:
            return False
        work.begin(each, lane)
        return True

    def _put(self, lane: Lane, found: Found | None) -> None:
        with self._lock:
            lane.append(found)
            if lane is self._lanes[0]:
                self._given.notify()


class Work:
    """The range at which a thread is, and what it decodes with."""

    def __init__(self, tables: Tables, keep: Keep | None, rows: int) -> None:
        self._tables, self._keep = tables, keep
        self._decoder = Decoder(tables, rows)
        self._pool = Pool()
        self._steps: Decoded = iter(())
        self.lane: Lane = deque()
        self.done = True

    def begin(self, each: Range, lane: Lane) -> None:
        self._steps = kept(decode_range(each, self._tables, decoder=self._decoder, pool=self._pool), self._keep)
        self.lane = lane
        self.done = False

    def step(self) -> Found | None:
        """What the range gives next."""
        found: Found | None
        try:
            found = next(self._steps, None)
        except Exception as error:  # whoever asked is told
            found = error
        self.done = not isinstance(found, tuple)
        return found
