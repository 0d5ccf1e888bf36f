# SPDX-License-Identifier: Apache-2.0
"""The loop: one thread that waits for every port at once, and for the time.

Threading rules. Ports, timers and callbacks belong to the loop's thread: they are touched nowhere else. From other
threads there are exactly three ways in: `call_soon`, `run` (the same, waiting for the result) and `stop`. A port's
`changed` may be called from any thread too; it takes effect in the loop's. Nothing that runs in the loop may block.
"""

import heapq
import itertools
import logging
import os
import selectors
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import TypeVar

from zenlake.link.base import Port

__all__ = ["Engine", "Timer"]

log = logging.getLogger("zenlake.runtime")
Result = TypeVar("Result")

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Timer:
    """A call at a later time; `cancel` it, or let it happen."""

    __slots__ = ("_call", "when")

    def __init__(self, when: float, call: Callable[[], object]) -> None:
        self.when = when
        self._call: Callable[[], object] | None = call

    def cancel(self) -> None:
        self._call = None

    def fire(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


class Engine:
    """One loop in one thread. `start` it, give it ports, `stop` it."""

    def __init__(self, name: str = "zenlake") -> None:
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._selector.register(self._wake_read, READ, None)
        self._calls: deque[Callable[[], object]] = deque()
        self._awake = True  # whether the loop will look at the calls before it waits again
        self._waking = threading.Lock()  # while one wakes it, the pipe does not close
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = itertools.count()
        self._ports: dict[Port, tuple[int, int]] = {}
        self._port_timers: dict[Port, Timer] = {}
        self._stopping = False
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)

    # From any thread

    def start(self) -> None:
        self._thread.start()

    @property
    def inside(self) -> bool:
        """Whether this is the loop's thread."""
        return threading.get_ident() == self._thread.ident

    @property
    def ident(self) -> int:
        """The loop's thread; 0 before it is started."""
        return self._thread.ident or 0

    def call_soon(self, call: Callable[[], object]) -> None:
        """Call it in the loop's thread, in the order of asking."""
        self._calls.append(call)
        if not self._awake:
            with self._waking:
                if not self._awake:
                    self._awake = True
                    os.write(self._wake_write, b"\0")

    def run(self, call: Callable[[], Result]) -> Result:
        """Call it in the loop's thread and wait for what it returns."""
        if self.inside:
            return call()
        future: Future[Result] = Future()

        def answer() -> None:
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)

        self.call_soon(answer)
        while self._thread.is_alive():
            try:
                return future.result(1.0)
            except TimeoutError:
                continue
        raise RuntimeError("the engine has stopped")

    def stop(self) -> None:
        """End the loop after what was asked for so far, close every port, and wait until the thread is gone."""
        self.call_soon(self._stop)
        if not self.inside and self._thread.is_alive():
            self._thread.join()

    # In the loop's thread

    def call_at(self, when: float, call: Callable[[], object]) -> Timer:
        timer = Timer(when, call)
        heapq.heappush(self._timers, (when, next(self._count), timer))
        return timer

    def add(self, port: Port) -> None:
        def changed() -> None:
            if self.inside:
                self._update(port)
            else:
                self.call_soon(lambda: self._update(port))

        port.changed = changed  # type: ignore[method-assign]
        self._ports[port] = (-1, 0)
        self._update(port)

    def _update(self, port: Port) -> None:
        """Poll for what the port wants now."""
        if port not in self._ports:
            return
        number, before = self._ports[port]
        wanted = (READ if port.wants_read else 0) | (WRITE if port.wants_write else 0)
        if wanted != before:
            if not wanted:
                self._selector.unregister(number)
            elif not before:
                number = port.fileno()
                self._selector.register(number, wanted, port)
            else:
                self._selector.modify(number, wanted, port)
            self._ports[port] = (number, wanted)
        self._time(port)

    def remove(self, port: Port) -> None:
        number, wanted = self._ports.pop(port, (-1, 0))
        if wanted:
            self._selector.unregister(number)
        timer = self._port_timers.pop(port, None)
        if timer is not None:
            timer.cancel()

    def _time(self, port: Port) -> None:
        when = port.next_timeout()
        timer = self._port_timers.get(port)
        if timer is not None and timer.when == when:
            return
        if timer is not None:
            timer.cancel()
            del self._port_timers[port]
        if when is not None:
            self._port_timers[port] = self.call_at(when, lambda: self._late(port))

    def _late(self, port: Port) -> None:
        self._port_timers.pop(port, None)
        port.on_timeout(monotonic())
        self._update(port)

    def _stop(self) -> None:
        self._stopping = True

    def _loop(self) -> None:
        select = self._selector.select
        while not self._stopping:
            self._awake = False
            timeout = 0.0 if self._calls else self._until_next()
            ready = select(timeout)
            self._awake = True
            now = monotonic()
            for key, mask in ready:
                port = key.data
                if port is None:
                    os.read(self._wake_read, 4096)
                    continue
                try:
                    if mask & READ and port.wants_read:
                        port.on_readable(now)
                    if mask & WRITE and port.wants_write:
                        port.on_writable(now)
                except Exception as error:
                    self._blame(port, error)
            due = []
            while self._timers and self._timers[0][0] <= now:
                due.append(heapq.heappop(self._timers)[2])
            # One that sets itself for a time that is over waits for the next turn: others are to have theirs.
            for timer in due:
                self._guard(timer.fire)
            for _ in range(len(self._calls)):
                self._guard(self._calls.popleft())
        self._shut()

    def _until_next(self) -> float | None:
        while self._timers and self._timers[0][2]._call is None:
            heapq.heappop(self._timers)
        return max(0.0, self._timers[0][0] - monotonic()) if self._timers else None

    def _guard(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception:
            log.exception("a call in the loop failed")

    def _blame(self, port: Port, error: Exception) -> None:
        """Somebody's code failed on this port: that ends the port, not the loop."""
        log.exception("%r failed and is closed", port)
        self._guard(lambda: port.fail(error))
        self.remove(port)

    def _shut(self) -> None:
        while self._calls:
            self._guard(self._calls.popleft())
        for port in list(self._ports):
            self.remove(port)
            self._guard(port.close)
        self._selector.close()
        with self._waking:  # awake for ever: nobody writes there any more
            os.close(self._wake_read)
            os.close(self._wake_write)
