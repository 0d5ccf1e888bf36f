# SPDX-License-Identifier: Apache-2.0
# cython: annotation_typing=False
"""Stream sockets: TCP and Unix, plain or with a protocol in between (TLS, WebSocket).

A plain stream reads directly into the buffer of its owner and may be written from any thread. It is compiled and uses system
calls without further layers. With a `Layer` in between, the bytes of the socket and of the owner differ, and everything runs
on the event loop thread.
"""

import errno
import os
import socket
from collections.abc import Callable, Iterable
from logging import getLogger
from typing import Any, Protocol

import cython

from zenlake.core.endpoint import EndPoint
from zenlake.errors import LinkError
from zenlake.link.base import BaseLink, LinkListener, Port, describe, locator, open_socket

if cython.compiled:
    from cython.cimports.cpython.exc import PyErr_SetFromErrno
    from cython.cimports.cpython.memoryview import PyMemoryView_GET_BUFFER
    from cython.cimports.posix.unistd import read, write

__all__ = ["Layer", "LayeredLink", "Pipe", "StreamLink", "StreamListener", "dial"]

READ = 65536
MAX_UNSENT = 256 << 10  # bytes; one read adds less than three times its size, so the total stays below `link_buffers`
BRIEF = cython.declare(cython.Py_ssize_t, 1024)
BACKLOG = 1024
ACCEPTS = 64  # reads per turn of the event loop, so that a busy connection does not starve the others
EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
# Seconds until accepting is retried after one of these: a pending connection keeps the socket readable.
PAUSE = 0.5

log = getLogger("zenlake.link")


class Pipe:
    """Socket of a plain stream, read and written by direct system calls.

    Performance: a system call that copies little is faster than releasing the GIL and acquiring it again, especially from a
    thread that computes. The GIL is then kept.
    """

    def __init__(self, number: int) -> None:
        self.number = number  # -1 when it is closed
        self.brief = False  # whether the last read was small

    def read(self, view: memoryview) -> int:
        """Read into a view. Return the number of bytes, 0 at the end of the stream."""
        if not cython.compiled:
            return os.readv(self.number, [view])
        buffer = PyMemoryView_GET_BUFFER(view)
        size = cython.declare(cython.Py_ssize_t)
        if self.brief:
            size = read(self.number, buffer.buf, buffer.len)
        else:
            with cython.nogil:
                size = read(self.number, buffer.buf, buffer.len)
        if size < 0:
            PyErr_SetFromErrno(OSError)
        self.brief = size <= BRIEF
        return size  # type: ignore[no-any-return]

    def write(self, view: memoryview) -> int:
        """Write from a view. Return the number of accepted bytes."""
        if not cython.compiled:
            return os.write(self.number, view)
        buffer = PyMemoryView_GET_BUFFER(view)
        size = cython.declare(cython.Py_ssize_t)
        if buffer.len <= BRIEF:
            size = write(self.number, buffer.buf, buffer.len)
        else:
            with cython.nogil:
                size = write(self.number, buffer.buf, buffer.len)
        if size < 0:
            PyErr_SetFromErrno(OSError)
        return size  # type: ignore[no-any-return]


class Layer(Protocol):
    """A sans-IO protocol between the socket and the owner. An exception ends the link."""

    is_ready: bool
    is_ended: bool
    """Whether the peer has ended the protocol: no more data can be exchanged, even if the socket stays open."""

    @property
    def common_name(self) -> str | None:
        """Common name of the peer certificate, or None."""

    def start(self) -> None: ...

    def feed(self, data: bytes) -> Iterable[bytes]:
        """Process bytes from the socket and return the bytes for the owner."""

    def write(self, data: memoryview) -> None: ...

    def to_send(self) -> bytes:
        """Return bytes for the socket."""

    def end(self) -> None:
        """End the protocol in order, if it supports that."""


def dial(endpoint: EndPoint, family: int, address: Any) -> socket.socket:
    """Begin to connect to one of the addresses of the endpoint. Return the socket."""
    sock = open_socket(endpoint, family, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        error = sock.connect_ex(address)
        if error not in (0, errno.EINPROGRESS):
            raise OSError(error, "")
    except OSError as fault:
        sock.close()
        raise LinkError(str(endpoint.locator), describe(fault)) from None
    return sock


class StreamLink(BaseLink, Port):
    """A connected or connecting stream socket."""

    direct = True
    segment = 0
    """Bytes in a TCP segment when the socket was connected. 0 if the socket is not TCP."""

    def __init__(self, sock: socket.socket, protocol: str, remote: str, connecting: bool) -> None:
        sock.setblocking(False)
        self._sock = sock
        self.pipe = Pipe(sock.fileno())
        self._protocol = protocol
        self._connecting = connecting
        self._closed = False
        self.remote = remote
        self.wants_write = connecting
        if not connecting:
            self.on_connect()

    @property
    def port(self) -> Port:
        return self

    def begin(self) -> None:
        if not self._connecting:
            self.owner.on_ready()

    def fileno(self) -> int:
        return self.pipe.number

    def on_connect(self) -> None:
        if self._sock.family != socket.AF_UNIX:
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.segment = self._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        self.local = locator(self._protocol, self._sock.getsockname())

    @property
    def whole_segments(self) -> int:
        half = self.segment // 2
        if half == 0 or self._protocol not in ("tcp", "tls"):
            return self.mtu
        return max(half, (self.mtu - 1) // half * half)

    def on_readable(self, now: float) -> None:
        if self._connecting:
            return self.on_writable(now)
        try:
            size = cython.cast(Pipe, self.pipe).read(self.owner.get_buffer())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            return self._lose(error)
        if size:
            self.owner.on_buffer_filled(size)
        else:
            self._lose(None)

    def on_writable(self, now: float) -> None:
        if self._connecting:
            error = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                return self._lose(OSError(error, ""))
            self._connecting = False
            self.wants_write = False
            self.on_change()
            self.on_connect()
            self.owner.on_ready()
        elif self.wants_write:
            self.wants_write = False
            self.on_change()
            self.owner.on_writable()

    def write(self, data: memoryview) -> int:
        try:
            size: int = cython.cast(Pipe, self.pipe).write(data)
        except (BlockingIOError, InterruptedError):
            size = 0
        except OSError:
            return len(data)  # the event loop reads and reports the error; these bytes are lost anyway
        if size < len(data) and not self.wants_write:
            self.wants_write = True
            self.on_change()
        return size

    def fail(self, error: Exception) -> None:
        owner = self.owner
        self.close()
        owner.on_close(LinkError(self.remote, f"{type(error).__name__}: {error}"))

    def _lose(self, error: OSError | None) -> None:
        owner = self.owner
        self.close()
        owner.on_close(None if error is None else LinkError(self.remote, describe(error)))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.wants_read = self.wants_write = False
            self.on_change()
            self.pipe.number = -1  # Safety: the system may reuse the descriptor
            self._sock.close()


class LayeredLink(StreamLink):
    """A stream socket with a layer on it. The layer determines whether batches need a length prefix (`stream`)."""

    direct = False

    def __init__(
        self, sock: socket.socket, protocol: str, remote: str, connecting: bool, layer: Layer, stream: bool
    ) -> None:
        self._layer = layer
        self._out = bytearray()
        self._was_ready = False
        self._full = False
        self._paused = False
        super().__init__(sock, protocol, remote, connecting)
        self.stream = stream

    def begin(self) -> None:
        if not self._connecting:
            self._start()

    def _start(self) -> None:
        try:
            self._layer.start()
        except LinkError as error:
            return self._break(error)
        self._flush()

    def on_readable(self, now: float) -> None:
        if self._connecting:
            return self.on_writable(now)
        try:
            data = self._sock.recv(READ)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            return self._lose(error)
        if not data:
            return self._lose(None)
        try:
            for piece in self._layer.feed(data):
                self._notify_ready()
                if self._closed:
                    return
                self.owner.on_data(piece)
        except LinkError as error:
            self._flush()  # an alert, or a refusal with its reason
            return self._break(error)
        self._notify_ready()
        try:
            self._flush()
        except LinkError as error:
            return self._break(error)
        if self._layer.is_ended and not self._closed:
            self._lose(None)

    def _notify_ready(self) -> None:
        if self._layer.is_ready and not self._was_ready:
            self._was_ready = True
            self.owner.on_ready()

    def on_writable(self, now: float) -> None:
        if self._connecting:
            error = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                return self._lose(OSError(error, ""))
            self._connecting = False
            self.on_connect()
            self._start()
        else:
            self._flush()
            if not self._out and not self._closed:
                if self._full:
                    self._full = False
                    self.owner.on_writable()
                self.owner.on_drain()

    @property
    def common_name(self) -> str | None:
        return self._layer.common_name

    @property
    def is_drained(self) -> bool:
        return not self._out

    def write(self, data: memoryview) -> int:
        """Accept all of `data`, or nothing while bytes are unsent.

        Before the end of the layer's handshake, and after its end, bytes cannot reach the peer and are dropped.
        """
        if self._out:
            self._full = True
            return 0
        if self._layer.is_ready and not self._closed:
            self._layer.write(data)
            self._flush()
        return len(data)

    def _flush(self) -> None:
        if self._closed:
            return
        self._out += self._layer.to_send()
        if self._out:
            try:
                del self._out[: self._sock.send(self._out)]
            except (BlockingIOError, InterruptedError):
                pass
            except OSError:
                self._out.clear()  # the next read reports the error
        if self.wants_write != bool(self._out):
            self.wants_write = bool(self._out)
            self.on_change()
        self.hold(len(self._out))
        self._update_read()

    def _update_read(self) -> None:
        """Stop reading from a peer that does not read: its messages, such as a ping, may need a reply."""
        wanted = not self._paused and not self._closed and len(self._out) <= MAX_UNSENT
        if self.wants_read != wanted:
            self.wants_read = wanted
            self.on_change()

    def pause(self) -> None:
        self._paused = True
        self._update_read()

    def resume(self) -> None:
        self._paused = False
        self._update_read()

    @property
    def is_paused(self) -> bool:
        return self._paused

    def _break(self, error: LinkError) -> None:
        owner = self.owner
        super().close()
        owner.on_close(LinkError(self.remote, error.why))

    def close(self) -> None:
        if not self._closed:
            try:
                if not self._connecting:
                    self._layer.end()
                    self._flush()
            finally:
                super().close()


class StreamListener(LinkListener):
    """A listening socket. `make` turns an accepted socket into a link.

    When the process has no file descriptor left, the listener pauses. It logs that once, until it can accept again.
    """

    def __init__(self, sock: socket.socket, protocol: str, make: Callable[[socket.socket, str], BaseLink]) -> None:
        sock.setblocking(False)
        sock.listen(BACKLOG)
        self._sock = sock
        self._protocol = protocol
        self._make = make
        self._resumes: float | None = None
        self._has_warned = False
        self.locator = locator(protocol, sock.getsockname())

    def fileno(self) -> int:
        return self._sock.fileno()

    def on_readable(self, now: float) -> None:
        for _ in range(ACCEPTS):
            try:
                sock, address = self._sock.accept()
            except OSError as error:  # no pending connection, or the peer is already gone
                if error.errno in EXHAUSTED:
                    self._pause(error, now)
                return
            self._has_warned = False
            try:
                link = self._make(sock, locator(self._protocol, address))
            except OSError:  # the peer disconnected meanwhile
                sock.close()
                continue
            try:
                self.on_link(link)
            except Exception as error:  # an error of one connection: the listener continues
                link.close()
                self.on_fault(link.remote, error)

    def _pause(self, error: OSError, now: float) -> None:
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "%s: cannot accept connections: %s. New connections are delayed; raise the limit (ulimit -n) or close connections.",
                self.locator,
                error.strerror,
            )
        self.wants_read = False
        self._resumes = now + PAUSE
        self.on_change()

    def next_timeout(self) -> float | None:
        return self._resumes

    def on_timeout(self, now: float) -> None:
        self._resumes = None
        self.wants_read = True

    def close(self) -> None:
        self._resumes = None
        self.wants_read = False
        self.on_change()
        self._sock.close()
