# SPDX-License-Identifier: Apache-2.0
"""Where what is received goes in an event loop: a channel that is awaited, or a coroutine for each item.

A channel tells the event loop, from whichever thread fills it, that something came.
"""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from zenlake.api import handlers
from zenlake.errors import ClosedError

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["Handler", "as_handler", "readable"]

T = TypeVar("T")


class Handler(Generic[T]):
    """The reading end of a channel, in an event loop."""

    def __init__(self, handler: handlers.Handler[T]) -> None:
        self._handler = handler
        self._loop = asyncio.get_running_loop()
        self._waiting: list[asyncio.Future[None]] = []
        self._told = False
        handler.wake = self._wake

    def _wake(self) -> None:
        """In any thread: something came."""
        if not self._told:
            self._told = True
            try:
                self._loop.call_soon_threadsafe(self._tell)
            except RuntimeError:  # the event loop has ended
                self._handler.wake = None

    def _tell(self) -> None:
        self._told = False
        for each in self._waiting:
            if not each.done():
                each.set_result(None)

    @property
    def dropped(self) -> int:
        """What a full ring forgot."""
        return self._handler.dropped

    def __len__(self) -> int:
        return len(self._handler)

    def __bool__(self) -> bool:
        return True  # an empty channel is still a channel

    def __repr__(self) -> str:
        return repr(self._handler)

    def try_recv(self) -> T | None:
        """What came next, or None if there is nothing now."""
        return self._handler.try_recv()

    async def recv(self, timeout: float | None = None) -> T:
        """What comes next; waits for it, but not longer than `timeout` seconds (then TimeoutError)."""
        item = self._handler.try_recv()
        if item is not None:
            return item
        try:
            async with asyncio.timeout(timeout):
                return await self._next()
        except TimeoutError:
            raise TimeoutError(f"nothing came in {timeout:g} s") from None

    async def _next(self) -> T:
        while True:
            item = self._handler.try_recv()
            if item is not None:
                return item
            came = self._loop.create_future()
            self._waiting.append(came)
            try:
                await came
            finally:
                self._waiting.remove(came)

    async def __aiter__(self) -> AsyncIterator[T]:
        while True:
            try:
                item = await self.recv()
            except ClosedError:
                return
            yield item


def readable(channel: Handler[Any] | None) -> Handler[Any]:
    if channel is None:
        raise ClosedError("it has a callback: there is nothing to receive here")
    return channel


def as_handler(handler: Any, bounded: bool = False) -> Any:
    """A coroutine function as a callback: each item makes a task of the event loop.

    For a declaration they are `bounded`: beyond its capacity of unfinished tasks items wait, or are dropped, as for any callback.
    """
    if isinstance(handler, tuple) and len(handler) == 2:
        return as_handler(handler[0], bounded), handler[1]
    chosen = handler if isinstance(handler, handlers.Callback) else None
    call = handler if chosen is None else chosen.callback
    if not asyncio.iscoroutinefunction(call):
        return handler
    loop, chosen = asyncio.get_running_loop(), chosen or handlers.Callback(call)

    def start(item: Any) -> "Future[Any]":
        work = call(item)
        try:
            return asyncio.run_coroutine_threadsafe(work, loop)
        except RuntimeError:  # the event loop has ended
            work.close()
            raise

    if not (bounded and chosen.indirect):
        return handlers.Callback(lambda item: start(item).add_done_callback(_log), chosen.drop, indirect=False)
    free = threading.Semaphore(chosen.capacity)

    def start_next(item: Any) -> None:
        free.acquire()
        try:
            task = start(item)
        except BaseException:
            free.release()
            raise
        task.add_done_callback(lambda done: free.release())
        task.add_done_callback(_log)

    return handlers.Callback(start_next, chosen.drop, capacity=chosen.capacity, full=chosen.full)


def _log(done: Any) -> None:
    if not done.cancelled() and done.exception() is not None:
        handlers.log.error("callback error", exc_info=done.exception())
