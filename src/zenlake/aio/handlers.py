# SPDX-License-Identifier: Apache-2.0
"""Handlers for asyncio: an awaitable channel, or a coroutine for each item.

Threading: a channel wakes the event loop from any thread that pushes an item.
"""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from zenlake.api import handlers
from zenlake.errors import ClosedError

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["Handler", "as_handler", "readable", "within"]

T = TypeVar("T")


class Handler(Generic[T]):
    """The reading end of a channel, for asyncio."""

    def __init__(self, handler: handlers.Handler[Any], convert: Callable[[Any], T] | None = None) -> None:
        self._handler = handler
        self._convert = convert
        self._loop = asyncio.get_running_loop()
        self._waiting: list[asyncio.Future[None]] = []
        self._wake_scheduled = False
        handler.wake = self._wake

    def _wake(self) -> None:
        """Wake the event loop. Runs on any thread."""
        if not self._wake_scheduled:
            self._wake_scheduled = True
            try:
                self._loop.call_soon_threadsafe(self._wake_readers)
            except RuntimeError:  # the event loop is closed
                self._handler.wake = None

    def _wake_readers(self) -> None:
        self._wake_scheduled = False
        for each in self._waiting:
            if not each.done():
                each.set_result(None)

    @property
    def dropped(self) -> int:
        """The number of items that a full ring has dropped."""
        return self._handler.dropped

    def __len__(self) -> int:
        return len(self._handler)

    def __bool__(self) -> bool:
        return True  # an empty channel is true

    def __repr__(self) -> str:
        return repr(self._handler)

    def try_recv(self) -> T | None:
        """Return the next item, or None if the channel is empty.

        Raises:
            ClosedError: The channel is closed and empty.
        """
        item = self._handler.try_recv()
        return item if item is None or self._convert is None else self._convert(item)

    async def recv(self, timeout: float | None = None) -> T:
        """Return the next item, waiting up to `timeout` seconds.

        Args:
            timeout: Seconds to wait. Default: no limit.

        Raises:
            TimeoutError: No item arrived in time.
            ClosedError: The channel is closed and empty.
        """
        item = self.try_recv()
        return await within(timeout, self._next()) if item is None else item

    async def _next(self) -> T:
        while True:
            item = self.try_recv()
            if item is not None:
                return item
            arrival = self._loop.create_future()
            self._waiting.append(arrival)
            try:
                await arrival
            finally:
                self._waiting.remove(arrival)

    async def __aiter__(self) -> AsyncIterator[T]:
        while True:
            try:
                item = await self.recv()
            except ClosedError:
                return
            yield item


async def within(timeout: float | None, item: Awaitable[T]) -> T:
    """Return an awaited item, or raise an error after `timeout` seconds."""
    try:
        async with asyncio.timeout(timeout):
            return await item
    except TimeoutError:
        raise TimeoutError(f"no item arrived within {timeout:g} s") from None


def readable(channel: Handler[Any] | None) -> Handler[Any]:
    """Return the channel of an entity. Raise if the entity has a callback instead."""
    if channel is None:
        raise ClosedError("the entity has a callback, so it has no channel to receive from")
    return channel


def as_handler(handler: Any, bounded: bool = False, convert: Callable[[Any], Any] | None = None) -> Any:
    """Return a callback that runs a coroutine function as an event loop task for each item.

    With `bounded` (for declarations), the number of unfinished tasks is limited. Beyond the limit, items wait or are dropped, as
    for any callback. `convert` makes the argument of the coroutine function.
    """
    if isinstance(handler, tuple) and len(handler) == 2:
        return as_handler(handler[0], bounded, convert), handler[1]
    settings = handler if isinstance(handler, handlers.Callback) else None
    call = handler if settings is None else settings.callback
    if not inspect.iscoroutinefunction(call):
        return handler
    loop, settings = asyncio.get_running_loop(), settings or handlers.Callback(call)

    def start(item: Any) -> "Future[Any]":
        work = call(item if convert is None else convert(item))
        try:
            return asyncio.run_coroutine_threadsafe(work, loop)
        except RuntimeError:  # the event loop is closed
            work.close()
            raise

    if not (bounded and settings.indirect):
        return handlers.Callback(lambda item: start(item).add_done_callback(_log), settings.drop, indirect=False)
    free = threading.Semaphore(settings.capacity)

    def start_next(item: Any) -> None:
        free.acquire()
        try:
            task = start(item)
        except BaseException:
            free.release()
            raise
        task.add_done_callback(lambda done: free.release())
        task.add_done_callback(_log)

    return handlers.Callback(start_next, settings.drop, capacity=settings.capacity, full=settings.full)


def _log(done: Any) -> None:
    if not done.cancelled() and done.exception() is not None:
        handlers.log.error("callback error", exc_info=done.exception())
