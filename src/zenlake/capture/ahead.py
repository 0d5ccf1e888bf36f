# SPDX-License-Identifier: Apache-2.0
"""Steps that are made in a thread of their own, a few ahead of whoever takes them.

Reading a capture and decoding what was read take about as long, hold no interpreter lock, and follow each other only at a distance:
two threads in a row do both in little more than half the time, and the rows are those that one gives.
"""

import threading
from collections.abc import Generator
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

MOST = 4  # steps that were made and not taken: enough that neither waits for long, and still in the caches
END = object()

T = TypeVar("T")


class Ahead(Generic[T]):
    """An iterator over these steps. Whoever has enough of them closes it: then the thread ends, and they are closed too.

    Both sides meet in queues alone, whose calls an interrupt finds done or not begun: it leaves no lock behind that the other
    waits for. The thread starts with the first step that is asked for, when there is already somebody who will close it.
    """

    def __init__(self, steps: Generator[T, None, None]) -> None:
        self._steps = steps
        self._made: SimpleQueue[Any] = SimpleQueue()  # steps, or what went wrong; then END
        self._room: SimpleQueue[None] = SimpleQueue()  # an item for each step that may be made besides those taken
        for _ in range(MOST):
            self._room.put(None)
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="zenlake-capture", daemon=True)

    def __iter__(self) -> "Ahead[T]":
        return self

    def __next__(self) -> T:
        if self._thread.ident is None:
            self._thread.start()
        step = self._made.get()
        if step is END:
            self._made.put(END)  # for whoever asks again
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
                del step  # its memory is used again as soon as whoever took it lets it go
                self._room.get()
                if self._closed:
                    break
        except BaseException as error:  # whoever takes the steps is told, behind those before it
            self._made.put(error)
        finally:
            self._steps.close()
            self._made.put(END)
