# SPDX-License-Identifier: Apache-2.0
"""`CancellationToken`: cancel running queries."""

import threading
from collections.abc import Callable

from zenlake.errors import ClosedError

__all__ = ["CancellationToken"]


class CancellationToken:
    """A token that cancels the queries to which it was passed.

    Example:
        ```python
        token = zenlake.CancellationToken()
        session.get("robots/**", print, cancellation_token=token)
        token.cancel()
        ```
    """

    __slots__ = ("_cancelled", "_lock", "_operations")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._operations: dict[object, tuple[Callable[[], None], Callable[[float | None], bool]]] = {}

    def cancel(self, /) -> None:
        """Cancel all queries of this token, and wait for their running callbacks."""
        with self._lock:
            self._cancelled = True
            operations, self._operations = list(self._operations.values()), {}
        for cancel, _ in operations:
            cancel()
        for _, idle in operations:
            idle(None)

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    def add(self, key: object, cancel: Callable[[], None], idle: Callable[[float | None], bool]) -> None:
        """Register a running operation.

        Args:
            key: Identity of the operation, for `remove`.
            cancel: Function that cancels the operation.
            idle: Function that waits until no callback of the operation runs. Its argument is a timeout in seconds.
        """
        with self._lock:
            if not self._cancelled:
                self._operations[key] = cancel, idle
                return
        cancel()

    def remove(self, key: object) -> None:
        """Remove a finished operation. `cancel` still waits for its running callback.

        Args:
            key: Identity of the operation, as passed to `add`.
        """
        with self._lock:
            operation = self._operations.get(key)
            if operation is not None and operation[1](0.0):
                del self._operations[key]

    def check(self) -> None:
        """Check that the token is not cancelled.

        Raises:
            ClosedError: `cancel` was called.
        """
        if self._cancelled:
            raise ClosedError("the cancellation token is already cancelled; create a new token for each set of queries")

    def __repr__(self) -> str:
        return f"CancellationToken({'cancelled' if self._cancelled else f'{len(self._operations)} operations'})"
