# SPDX-License-Identifier: Apache-2.0
"""Decode a large capture with several threads, in order and in bounded memory.

The loops over packets and messages release the GIL, so threads are sufficient. Two threads need no ranges: one reads, the
other decodes (`prefetch`). More threads need ranges. One thread at a time runs the planning pass, which finds the next range
unless the plan is cached. The other threads decode the ranges. The planning thread also decodes when enough ranges are
queued.

Performance: a thread keeps the planning pass as long as the others keep up, so the state of the pass stays in the caches
of one core. The rows of a range wait in a queue until the consumer has taken the earlier ranges. The consumer is one of
the threads: it works instead of waiting, so no thread takes a core from another.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from zenlake import capture
from zenlake.capture import PATH, Capture
from zenlake.capture.decode import ROWS, Decoded, Tables, decode_range, select_diagnostics
from zenlake.capture.decode import decode as decode_here
from zenlake.capture.plan_cache import CachedPlan
from zenlake.capture.splits import SIZE, Split, splittable_size
from zenlake.columns import Decoder
from zenlake.columns.buffer_pool import Pool

LARGE = 64 << 20  # minimum size in bytes of a capture for a second thread
MAX_THREADS = 4  # more threads would wait for the pass
MIN_PENDING_SPLITS = 2  # planned ranges that are not started
AHEAD = MIN_PENDING_SPLITS + 1  # ranges that are not consumed, besides those in progress
MAX_QUEUED = 8  # record batches per queue

Keep = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Found = tuple[str, pa.RecordBatch] | BaseException
RangeQueue = deque[Found | None]  # rows of a range; None: the range is complete


def count_threads(files: list[str]) -> int:
    """Return the number of threads for a capture: one, unless it is large and the machine has several cores."""
    if not are_files(files) or sum(map(os.path.getsize, files)) < LARGE:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MAX_THREADS)


def are_files(paths: list[str]) -> bool:
    """Return whether no file is a pipe. A read from a pipe cannot be abandoned before more data arrives."""
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
    """Decode like `zenlake.capture.decode.decode`, with a number of threads that depends on the capture's size.

    Args:
        paths: Files of one capture.
        tables: Table names with their columns, or None for all.
        threads: Number of threads, or None for a number that depends on the size.
        keep: Filter for a table's record batches. It runs in the decoding thread.
        rows: Number of rows of a record batch.
        size: Target size of a range, in bytes.
    """
    source = capture.open(paths)
    if threads is None:
        threads = count_threads(source.files)
    if threads > 2 and are_files(source.files) and splittable_size(source.files) > 0:
        return decode_by_threads(source, tables, threads, keep, rows, size)
    return hold_results(decode_here(source, tables, rows, ahead=threads > 1 and are_files(source.files)), keep)


def hold_results(found: Decoded, keep: Keep | None) -> Decoded:
    for table, batch in found:
        for each in [batch] if keep is None else keep(iter([batch])):
            yield table, each


def decode_by_threads(
    source: Capture, tables: Tables, threads: int, keep: Keep | None, rows: int, size: int
) -> Decoded:
    plan = source.plan(size, carry=True)
    workers = DecodeThreads(plan, tables, keep, rows)
    try:
        workers.start(threads)
        yield from workers.results()
    finally:
        workers.stop()
    yield from hold_results(select_diagnostics(plan, tables), keep)


class DecodeThreads:
    """Threads over one plan. The consumer of the results is one of them."""

    def __init__(self, plan: CachedPlan, tables: Tables, keep: Keep | None, rows: int) -> None:
        self._tables, self._keep, self._rows = tables, keep, rows
        self._ranges = plan.ranges()
        self._threads: list[threading.Thread] = []
        self._queues: deque[RangeQueue] = deque()  # of the ranges that are not consumed, in order
        self._found: deque[tuple[Split, RangeQueue]] = deque()  # ranges without a decoding thread
        self._room = AHEAD  # queues that may still be started
        self._finding = False  # a thread runs the pass
        self._over = False  # there are no further queues
        self._stopped = False
        # Performance: a wake-up takes long and blocks other threads. Each thread is woken only for its own condition.
        self._lock = threading.Lock()  # protects these fields and the queues
        self._result_ready = threading.Condition(self._lock)  # wakes the consumer: rows, work, or the end
        self._work_requested = threading.Condition(self._lock)  # wakes the other threads: work, or the end

    def start(self, count: int) -> None:
        self._room += count
        for _ in range(count - 1):
            self._threads.append(threading.Thread(target=self._run, name="zenlake-capture", daemon=True))
            self._threads[-1].start()

    def stop(self) -> None:
        """Stop and join all threads."""
        with self._lock:
            self._stopped = True
            self._work_requested.notify_all()
        for thread in self._threads:
            thread.join()
        self._ranges.close()

    def results(self) -> Decoded:
        """Iterate over the rows of the ranges in order. While the first queue is empty, this thread works like the others."""
        own = SplitDecoder(self._tables, self._keep, self._rows)
        while (some := self._take()) is not None:
            for found in some:
                if isinstance(found, BaseException):
                    raise found
                if found is not None:
                    yield found
            if not some and not self._do(own):
                with self._lock:
                    self._result_ready.wait_for(lambda: self._has_results() or self._can_do(own))

    def _has_results(self) -> bool:
        return bool(self._queues[0]) if self._queues else self._over

    def _take(self) -> RangeQueue | None:
        """Return all queued rows of the first queue, or None if there are no further queues."""
        with self._lock:
            if not self._queues:
                return None if self._over else deque()
            some = self._queues[0].copy()
            self._queues[0].clear()
            over = bool(some) and some[-1] is None
            if over:
                self._queues.popleft()
                self._room += 1
            if over or len(some) >= MAX_QUEUED:
                self._work_requested.notify_all()
            return some

    # In each thread

    def _run(self) -> None:
        work = SplitDecoder(self._tables, self._keep, self._rows)
        while not self._stopped and not self._is_over(work):
            if not self._do(work):
                with self._lock:
                    self._work_requested.wait_for(lambda: self._stopped or self._can_do(work) or self._is_over(work))

    def _do(self, work: "SplitDecoder") -> bool:
        """Do one step of the available work, if any."""
        with self._lock:
            if not self._can_do(work):
                return False
            find = work.done and self._may_find()
            if find:
                self._finding = True
                self._room -= 1
            elif work.done:
                work.begin(*self._found.popleft())
                self._work_requested.notify()  # another thread may run the pass
        if find:
            self._find()
        else:
            self._put_result(work.queue, work.step())
        return True

    def _can_do(self, work: "SplitDecoder") -> bool:
        if work.done:
            return self._may_find() or bool(self._found)
        return len(work.queue) < MAX_QUEUED

    def _may_find(self) -> bool:
        """Choose the next work. The pass comes first, because the other threads depend on it, but it must not run far ahead."""
        return not self._finding and not self._over and self._room > 0 and len(self._found) < MIN_PENDING_SPLITS

    def _is_over(self, work: "SplitDecoder") -> bool:
        return work.done and self._over and not self._found

    def _find(self) -> None:
        """Add a queue for the next range, if there is one."""
        queue: RangeQueue = deque()
        try:
            each = next(self._ranges, None)
        except Exception as error:  # raised in the consumer
            each = None
            queue.append(error)
        with self._lock:
            self._finding = False
            self._over = each is None
            if each is not None or queue:
                self._queues.append(queue)
            if each is not None:
                self._found.append((each, queue))
            self._result_ready.notify()
            self._work_requested.notify(len(self._threads) if self._over else 1)

    def _put_result(self, queue: RangeQueue, found: Found | None) -> None:
        with self._lock:
            queue.append(found)
            if queue is self._queues[0]:
                self._result_ready.notify()


class SplitDecoder:
    """The range of one thread, with its decoder."""

    def __init__(self, tables: Tables, keep: Keep | None, rows: int) -> None:
        self._tables, self._keep = tables, keep
        self._decoder = Decoder(tables, rows)
        self._pool = Pool()
        self._steps: Decoded = iter(())
        self.queue: RangeQueue = deque()
        self.done = True

    def begin(self, each: Split, queue: RangeQueue) -> None:
        self._steps = hold_results(decode_range(each, self._tables, decoder=self._decoder, pool=self._pool), self._keep)
        self.queue = queue
        self.done = False

    def step(self) -> Found | None:
        """Return the next rows of the range."""
        found: Found | None
        try:
            found = next(self._steps, None)
        except Exception as error:  # raised in the consumer
            found = error
        self.done = not isinstance(found, tuple)
        return found
