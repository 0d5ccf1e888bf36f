# SPDX-License-Identifier: Apache-2.0
"""`CancellationToken`: ends queries that are under way."""

import threading
from collections.abc import Callable

from zenlake.errors import ClosedError

__all__ = ["CancellationToken"]


class CancellationToken:
    """Give it to one or more `get`s; `cancel` ends them all and waits until no callback of theirs runs any more."""

    __slots__ = ("_cancelled", "_lock", "_operations")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._operations: dict[object, tuple[Callable[[], None], Callable[[float | None], bool]]] = {}

    def cancel(self, /) -> None:
        """End all that it was given to, and wait until none of their callbacks runs."""
        with self._lock:
            self._cancelled = True
            operations, self._operations = list(self._operations.values()), {}
        for cancel, _ in operations:
            cancel()
        for _, idle in operations:
            idle(None)

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled

    def add(self, key: object, cancel: Callable[[], None], idle: Callable[[float | None], bool]) -> None:
        """An operation that has begun."""
        with self._lock:
            if not self._cancelled:
                self._operations[key] = cancel, idle
                return
        cancel()

    def remove(self, key: object) -> None:
        """It has ended; but `cancel` still waits for its callback, if one runs."""
        with self._lock:
            operation = self._operations.get(key)
            if operation is not None and operation[1](0.0):
                del self._operations[key]

    def check(self) -> None:
        if self._cancelled:
            raise ClosedError("the cancellation token was cancelled before: make a new one for each set of queries")

    def __repr__(self) -> str:
        return f"CancellationToken({'cancelled' if self._cancelled else f'{len(self._operations)} operations'})"
