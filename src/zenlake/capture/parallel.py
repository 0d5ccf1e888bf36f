# SPDX-License-Identifier: Apache-2.0
"""A large capture decoded by several threads, in order and in bounded memory.

The loops over packets and messages hold no interpreter lock, so threads do. Two share the work as it is: one reads, the other
decodes (`ahead`). More need ranges. One at a time makes the pass, which finds the next
range if it is not known from an earlier reading; the others decode what was found, and so does it when enough has been found.
Whoever is at the pass stays there as long as the others keep up: what the pass knows stays in the caches of one core. What a range
gives waits in a lane of its own until whoever asked has taken those before it. Whoever asked is one of the threads: instead of
waiting it does what the others do, so nobody takes a core from another.
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
ENOUGH = 2  # ranges that are found and not begun yet
AHEAD = ENOUGH + 1  # ranges that are not taken yet, besides those at which a thread is
LONGEST = 8  # record batches that wait in a lane

Keep = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Found = tuple[str, pa.RecordBatch] | BaseException
Lane = deque[Found | None]  # what a range gives; None: that was all


def threads_for(files: list[str]) -> int:
    """How many threads a capture is worth: one, unless it is large and the machine has more cores."""
    if not are_files(files) or sum(map(os.path.getsize, files)) < LARGE:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_THREADS)


def are_files(paths: list[str]) -> bool:
    """Whether none is a pipe, which nobody could leave before there is more in it."""
    return all(map(os.path.isfile, paths))


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
    if threads > 2 and are_files(source.files) and size_that_can_be_cut(source.files) > 0:
        return decode_by_threads(source, tables, threads, keep, rows, size)
    return kept(decode_here(source, tables, rows, ahead=threads > 1 and are_files(source.files)), keep)


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
        self._threads: list[threading.Thread] = []
        self._lanes: deque[Lane] = deque()  # of the ranges that are not taken yet, in order
        self._found: deque[tuple[Range, Lane]] = deque()  # those of them that nobody decodes yet
        self._room = AHEAD  # lanes that may still be begun
        self._finding = False  # somebody is at the pass
        self._over = False  # there will be no further lane
        self._stopped = False
        # To wake somebody takes long, and nobody else may run meanwhile: each is woken for what it waits for.
        self._lock = threading.Lock()  # of these, and of the lanes
        self._given = threading.Condition(self._lock)  # to whoever takes the results: rows, work, or the end
        self._asked = threading.Condition(self._lock)  # to the others: work, or the end

    def start(self, count: int) -> None:
        self._room += count
        for _ in range(count - 1):
            self._threads.append(threading.Thread(target=self._run, name="zenlake-capture", daemon=True))
            self._threads[-1].start()

    def stop(self) -> None:
        """Whatever they are at, they leave it; after this none is left."""
        with self._lock:
            self._stopped = True
            self._asked.notify_all()
        for thread in self._threads:
            thread.join()
        self._ranges.close()

    def results(self) -> Decoded:
        """What the ranges give, in order. While the first has nothing to give, this thread does what the others do."""
        own = Work(self._tables, self._keep, self._rows)
        while (some := self._take()) is not None:
            for found in some:
                if isinstance(found, BaseException):
                    raise found
                if found is not None:
                    yield found
            if not some and not self._do(own):
                with self._lock:
                    self._given.wait_for(lambda: self._has_results() or self._can_do(own))

    def _has_results(self) -> bool:
        return bool(self._lanes[0]) if self._lanes else self._over

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
                self._asked.notify_all()
            return some

    # In each thread

    def _run(self) -> None:
        work = Work(self._tables, self._keep, self._rows)
        while not self._stopped and not self._is_over(work):
            if not self._do(work):
                with self._lock:
                    self._asked.wait_for(lambda: self._stopped or self._can_do(work) or self._is_over(work))

    def _do(self, work: "Work") -> bool:
        """A step of what there is to do, if there is something."""
        with self._lock:
            if not self._can_do(work):
                return False
            find = work.done and self._may_find()
            if find:
                self._finding = True
                self._room -= 1
            elif work.done:
                work.begin(*self._found.popleft())
                self._asked.notify()  # of the pass somebody else may take care
        if find:
            self._find()
        else:
            self._put(work.lane, work.step())
        return True

    def _can_do(self, work: "Work") -> bool:
        if work.done:
            return self._may_find() or bool(self._found)
        return len(work.lane) < LONGEST

    def _may_find(self) -> bool:
        """The pass comes first, for it is done by one at a time and the others live on it; but not far ahead of them."""
        return not self._finding and not self._over and self._room > 0 and len(self._found) < ENOUGH

    def _is_over(self, work: "Work") -> bool:
        return work.done and self._over and not self._found

    def _find(self) -> None:
        """The next range, if there is one, gets a lane."""
        lane: Lane = deque()
        try:
            each = next(self._ranges, None)
        except Exception as error:  # whoever asked is told
            each = None
            lane.append(error)
        with self._lock:
            self._finding = False
            self._over = each is None
            if each is not None or lane:
                self._lanes.append(lane)
            if each is not None:
                self._found.append((each, lane))
            self._given.notify()
            self._asked.notify(len(self._threads) if self._over else 1)

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
