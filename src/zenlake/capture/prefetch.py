# SPDX-License-Identifier: Apache-2.0
"""Prefetch: run a generator in its own thread, a few steps ahead of the consumer.

Reading a capture and decoding it take about the same time. Both release the GIL, and decoding depends only on earlier
reading. Two threads therefore take little more than half the time of one, and return the same rows.
"""

import threading
from collections.abc import Generator
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

MAX_QUEUED = (
    4  # steps produced but not consumed: enough that neither thread waits for long, and still in the CPU caches
)
END = object()

T = TypeVar("T")


class Prefetcher(Generic[T]):
    """Iterator over prefetched steps. `close` ends the thread and closes the generator.

    Threading: both sides communicate only through queues. An interrupted queue call is either complete or not started, so
    an interrupt leaves no lock held. The thread starts with the first `next`, when the caller already owns a reference to
    close.
    """

    def __init__(self, steps: Generator[T, None, None]) -> None:
        self._steps = steps
        self._made: SimpleQueue[Any] = SimpleQueue()  # steps, or the exception; then END
        self._room: SimpleQueue[None] = SimpleQueue()  # one item for each step that may be produced ahead
        for _ in range(MAX_QUEUED):
            self._room.put(None)
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="zenlake-capture", daemon=True)

    def __iter__(self) -> "Prefetcher[T]":
        return self

    def __next__(self) -> T:
        if self._thread.ident is None:
            self._thread.start()
        step = self._made.get()
        if step is END:
            self._made.put(END)  # for further calls of next
            raise StopIteration
        if isinstance(step, BaseException):
            raise step
        self._room.put(None)
        taken: T = step
        return taken

    def close(self) -> None:
        self._closed = True
        self._room.put(None)
        if self._thread.ident is not None:
            self._thread.join()
        else:
            self._steps.close()

    def _run(self) -> None:
        try:
            self._room.get()
            for step in self._steps:
                self._made.put(step)
                del step  # releases the memory as soon as the consumer is done
                self._room.get()
                if self._closed:
                    break
        except BaseException as error:  # raised in the consumer, after the earlier steps
            self._made.put(error)
        finally:
            self._steps.close()
            self._made.put(END)
