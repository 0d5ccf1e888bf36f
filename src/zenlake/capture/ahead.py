# SPDX-License-Identifier: Apache-2.0
"""Steps that are made in a thread of their own, a few ahead of whoever takes them.

Reading a capture and decoding what was read take about as long, hold no interpreter lock, and follow each other only at a distance:
two threads in a row do both in little more than half the time, and the rows are those that one gives.
"""

import threading
from collections import deque
from collections.abc import Generator
from typing import Generic, TypeVar

MOST = 4  # steps that were made and not taken: enough that neither waits for long, and still in the caches

T = TypeVar("T")


class Ahead(Generic[T]):
    """An iterator over these steps. Whoever has enough of them closes it: then the thread ends, and they are closed too."""

    def __init__(self, steps: Generator[T, None, None]) -> None:
        self._steps = steps
        self._made: deque[T | BaseException] = deque()
        self._over = False  # nothing more will be made
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="zenlake-capture", daemon=True)
        self._thread.start()

    def __iter__(self) -> "Ahead[T]":
        return self

    def __next__(self) -> T:
        with self._changed:
            self._changed.wait_for(lambda: self._made or self._over)
            if not self._made:
                raise StopIteration
            step = self._made.popleft()
            self._changed.notify()
        if isinstance(step, BaseException):
            raise step
        return step

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    # In the thread

    def _run(self) -> None:
        try:
            for step in self._steps:
                self._put(step)
                del step  # its memory is used again as soon as whoever took it lets it go
                if self._closed:
                    break
        except BaseException as error:  # whoever takes the steps is told, behind those before it
            self._put(error)
        finally:
            self._steps.close()
            with self._changed:
                self._over = True
                self._changed.notify()

    def _put(self, step: T | BaseException) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._made) < MOST)
            self._made.append(step)
            self._changed.notify()
