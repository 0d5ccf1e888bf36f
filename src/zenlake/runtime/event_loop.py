# SPDX-License-Identifier: Apache-2.0
# cython: annotation_typing=False
"""The event loop: one thread that polls all ports and runs timers.

Threading: ports, timers and callbacks belong to the event loop thread and are used nowhere else. Other threads have exactly
three entry points: `call_soon`, `run` (which waits for the result) and `stop`. `on_change` of a port may also be called from
any thread; it takes effect on the event loop thread. No code on the event loop thread may block.
"""

import heapq
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from logging import getLogger
from typing import Any, TypeVar

import cython
from cython.cimports.zenlake.core.hlc import ntp64_of
from cython.cimports.zenlake.runtime.deferred_wakeup import Wakeup, defer_wakeups, release_wakeups, take_wakeups

from zenlake.link.base import BaseLink, Port
from zenlake.runtime.peer_errors import PeerErrors

if cython.compiled:
    from cython.cimports.cpython.pythread import PyThread_get_thread_ident as get_ident
    from cython.cimports.cpython.pythread import PyThread_release_lock, PyThread_type_lock
    from cython.cimports.cpython.time import monotonic
    from cython.cimports.posix.time import CLOCK_REALTIME, clock_gettime, timespec
else:
    from threading import get_ident
    from time import monotonic

__all__ = ["EventLoop", "PolledConnection", "Timer", "wall"]

log = getLogger("zenlake.runtime")
Result = TypeVar("Result")

# The same values for `epoll` and `poll`. Other events (errors and hang-ups) are passed to readers and writers.
READ = cython.declare(cython.int, select.POLLIN)
WRITE = cython.declare(cython.int, select.POLLOUT)
HAS_EPOLL = hasattr(select, "epoll")


def wall() -> int:
    """Return the time of day as NTP64.

    Performance: a router calls this at every read.
    """
    if not cython.compiled:
        return ntp64_of(time.time_ns())
    now = cython.declare(timespec)
    clock_gettime(CLOCK_REALTIME, cython.address(now))
    return ntp64_of(cython.cast(cython.ulonglong, now.tv_sec) * 1000000000 + now.tv_nsec)


class Timer:
    """A call at a later time, which can be cancelled."""

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


class PolledConnection:
    """A connection as the event loop sees it: read without its port, and notified at the end of a turn."""

    def __init__(self) -> None:
        self.ending = False
        self.behind: PolledConnection | None = None

    def read(self, now: float) -> int:
        """Read from the port, which is readable."""
        return 0

    def end_turn(self) -> int:
        """Write gathered messages at the end of a turn."""
        return 0


class EventLoop:
    """An event loop in its own thread. Call `start`, `add` ports, then `stop`."""

    def __init__(self, name: str = "zenlake") -> None:
        self._poller: Any = select.epoll() if HAS_EPOLL else select.poll()
        self._epoll: int = self._poller.fileno() if HAS_EPOLL else -1  # type: ignore[union-attr]
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._poller.register(self._wake_read, READ)
        self._calls: deque[Callable[[], object]] = deque()
        self._awake = True  # whether the loop checks the calls before it polls again
        self._waking = threading.Lock()  # prevents closing of the pipe during a wake-up
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = 0
        self._ports: dict[Port, tuple[int, int]] = {}
        self._by_number: dict[int, Port] = {}
        self._port_timers: dict[Port, Timer] = {}
        self._readers: dict[int, PolledConnection] = {}
        self._ending: PolledConnection | None = None  # first of the connections to notify at the end of the turn
        self._stopping = False
        self.peer_errors = PeerErrors("zenlake.runtime")
        """Errors caused by peers, including internal errors that they triggered."""
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self.ident = 0
        """Identifier of the event loop thread; 0 before `start`."""

    # Any thread

    def start(self) -> None:
        self._thread.start()
        self.ident = self._thread.ident or 0

    @property
    def inside(self) -> bool:
        """Whether the caller is on the event loop thread."""
        return self.is_inside()

    def is_inside(self) -> bool:
        return get_ident() == self.ident

    def call_soon(self, call: Callable[[], object]) -> None:
        """Run a call on the event loop thread. Calls keep their order."""
        self._calls.append(call)
        if not self._awake:
            with self._waking:
                if not self._awake:
                    self._awake = True
                    os.write(self._wake_write, b"\0")

    def run(self, call: Callable[[], Result]) -> Result:
        """Run a call on the event loop thread and return its result."""
        if self.is_inside():
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
                if future.done():  # the call itself raised it
                    raise
        raise RuntimeError("the event loop has stopped")

    def stop(self) -> None:
        """Stop the loop after all calls made so far, close every port, and wait for the end of the thread."""
        self.call_soon(self._stop)
        if not self.is_inside() and self._thread.is_alive():
            self._thread.join()

    # Event loop thread

    def call_at(self, when: float, call: Callable[[], object]) -> Timer:
        timer = Timer(when, call)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, timer))
        return timer

    def add(self, port: Port) -> None:
        def on_change() -> None:
            if self.is_inside():
                self._update(port)
            else:
                self.call_soon(lambda: self._update(port))

        port.on_change = on_change  # type: ignore[method-assign]
        port.on_fault = self._report  # type: ignore[method-assign]
        self._ports[port] = (-1, 0)
        self._update(port)

    def add_reader(self, number: int, reader: PolledConnection) -> None:
        """Notify a reader instead of the port when only this port is readable, until the port is removed."""
        self._readers[number] = reader

    def run_at_turn_end(self, served: PolledConnection) -> None:
        """Notify a connection at the end of this turn."""
        if not served.ending:
            served.ending = True
            served.behind = self._ending
            self._ending = served

    def _update(self, port: Port) -> None:
        """Update the polled events of a port."""
        if port not in self._ports:
            return
        number, before = self._ports[port]
        wanted = (READ if port.wants_read else 0) | (WRITE if port.wants_write else 0)
        if wanted != before:
            if not wanted:
                self._forget(number)
            elif not before:
                number = port.fileno()
                self._poller.register(number, wanted)
                self._by_number[number] = port
            else:
                self._poller.modify(number, wanted)
            self._ports[port] = (number, wanted)
        self._schedule_port_timer(port)

    def remove(self, port: Port) -> None:
        number, wanted = self._ports.pop(port, (-1, 0))
        self._readers.pop(number, None)
        if wanted:
            self._forget(number)
        timer = self._port_timers.pop(port, None)
        if timer is not None:
            timer.cancel()

    def _forget(self, number: int) -> None:
        del self._by_number[number]
        with suppress(OSError):  # closed already, on another thread
            self._poller.unregister(number)

    def _schedule_port_timer(self, port: Port) -> None:
        when = port.next_timeout()
        timer = self._port_timers.get(port)
        # An earlier timer stays and is set again when due. A new timer for each datagram would fill the heap.
        if timer is not None and when is not None and timer.when <= when:
            return
        if timer is not None:
            timer.cancel()
            del self._port_timers[port]
        if when is not None:
            self._port_timers[port] = self.call_at(when, lambda: self._on_port_timeout(port))

    def _on_port_timeout(self, port: Port) -> None:
        self._port_timers.pop(port, None)
        port.on_timeout(monotonic())
        self._update(port)

    def _stop(self) -> None:
        self._stopping = True

    def _loop(self) -> None:
        self.ident = get_ident()
        while not self._stopping:
            self._awake = False
            timeout = cython.declare(cython.double, 0.0)
            if not self._calls and self._ending is None:
                timeout = self._next_delay()
            # Rounded up: a timer that fires early would poll again.
            now = cython.declare(cython.double, self._turn(-1 if timeout < 0 else int(timeout * 1000 + 0.999)))
            if self._timers and self._timers[0][0] <= now:
                release_wakeups()
                due = []
                while self._timers and self._timers[0][0] <= now:
                    due.append(heapq.heappop(self._timers)[2])
                # A timer that sets itself for a past time runs in the next turn, so that other work is not delayed.
                for timer in due:
                    self._guard(timer.fire)
            if self._calls:
                release_wakeups()
                for _ in range(len(self._calls)):
                    self._guard(self._calls.popleft())
            if self._ending is not None:
                self._end_turn()
        self._close_files()

    def _turn(self, timeout_ms: int) -> float:
        """Poll for at most `timeout_ms` milliseconds (-1: no limit) and serve all ready ports. Return the time."""
        now = cython.declare(cython.double)
        if not cython.compiled or self._epoll < 0:
            ready = self._poll(timeout_ms)
            self._awake = True
            now = monotonic()
            for port, mask in ready:
                self._serve(port, mask, now)
            return now
        numbers = cython.declare(cython.int[256])
        masks = cython.declare(cython.int[256])
        count = cython.declare(cython.int, 0)
        i = cython.declare(cython.int)
        locks = cython.declare(PyThread_type_lock[16])
        wakeups = cython.declare(list, take_wakeups(self.ident))  # referenced until released
        if wakeups is not None:
            for wakeup in wakeups:
                if count < 16:
                    locks[count] = cython.cast(Wakeup, wakeup).lock
                    count += 1
                else:
                    wakeup.wake()
        with cython.nogil:
            for i in range(count):
                PyThread_release_lock(locks[i])
            count = wait_for_events(self._epoll, numbers, masks, timeout_ms)  # type: ignore[name-defined]  # noqa: F821
        self._awake = True
        now = monotonic()
        if count == 1:
            defer_wakeups(self.ident)
            port = self._by_number.get(numbers[0])
            reader = cython.declare(PolledConnection, self._readers.get(numbers[0]))
            if reader is None or masks[0] != READ:
                self._serve(port, masks[0], now)
            else:
                try:
                    reader.read(now)
                except Exception as error:
                    self._fail_port(port, error)  # type: ignore[arg-type]
            return now
        # Resolved before serving, because served ports may close or open others.
        for port, mask in [(self._by_number.get(numbers[i]), masks[i]) for i in range(count)]:
            self._serve(port, mask, now)
        return now

    def _poll(self, timeout_ms: int) -> list[tuple[Port | None, int]]:
        """Return the ready ports where `epoll` cannot be called directly."""
        if HAS_EPOLL:
            found = self._poller.poll(None if timeout_ms < 0 else timeout_ms / 1000, len(self._by_number) + 1)
        else:
            found = self._poller.poll(None if timeout_ms < 0 else timeout_ms)
        return [(self._by_number.get(number), mask) for number, mask in found]

    def _serve(self, port: Port | None, mask: int, now: float) -> None:
        if port is None:
            os.read(self._wake_read, 4096)
            return
        try:
            if mask & ~WRITE and port.wants_read:
                port.on_readable(now)
            if mask & ~READ and port.wants_write:
                port.on_writable(now)
        except Exception as error:
            self._fail_port(port, error)

    def _end_turn(self) -> None:
        served = cython.declare(PolledConnection, self._ending)
        self._ending = None
        while served is not None:
            behind, served.behind = served.behind, None
            served.ending = False
            try:
                served.end_turn()
            except Exception as error:
                self._report("a connection at the end of a turn", error)
            served = behind

    def _next_delay(self) -> float:
        """Return the seconds until the next timer, or a negative number if there are no timers."""
        while self._timers:
            timer = cython.declare(Timer, self._timers[0][2])
            if timer._call is not None:
                return max(0.0, timer.when - monotonic())
            heapq.heappop(self._timers)
        return -1.0

    def _guard(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:
            self._report("a call in the loop", error)

    def _report(self, place: str, error: Exception) -> None:
        """Log an internal error in one line. The traceback is logged at level DEBUG."""
        self.peer_errors.report(place, f"{type(error).__name__}: {error}", "internal errors")
        log.debug("%s failed", place, exc_info=error)

    def _fail_port(self, port: Port, error: Exception) -> None:
        """Close a port after an internal error. The loop continues.

        The owner of a link reports its end, with the error as the reason.
        """
        if isinstance(port, BaseLink):
            log.debug("%s failed", port.remote, exc_info=error)
        else:
            self._report(getattr(port, "locator", None) or type(port).__name__, error)
        self._guard(lambda: port.fail(error))
        self.remove(port)

    def _close_files(self) -> None:
        release_wakeups()
        while self._calls:
            self._guard(self._calls.popleft())
        for port in list(self._ports):
            self.remove(port)
            self._guard(port.close)
        if HAS_EPOLL:
            self._poller.close()
        with self._waking:  # `_awake` stays True: no thread writes to the pipe any more
            os.close(self._wake_read)
            os.close(self._wake_write)
