# SPDX-License-Identifier: Apache-2.0
# cython: annotation_typing=False
"""Stream sockets: TCP and Unix, plain or with a protocol in between (TLS, WebSocket).

A plain stream reads straight into its owner's buffer and may be written from any thread; compiled, with nothing between it
and the system's calls. With a `Layer` in between, the
bytes of the socket and those of the owner differ, and all happens in the loop's thread.
"""

import errno
import os
import socket
from collections.abc import Callable, Iterable
from typing import Protocol

import cython

from zenlake.endpoint import EndPoint
from zenlake.errors import LinkError
from zenlake.link.base import Link, Listener, Port, describe, locator, open_socket
from zenlake.telling import logger

if cython.compiled:
    from cython.cimports.cpython.exc import PyErr_SetFromErrno
    from cython.cimports.cpython.memoryview import PyMemoryView_GET_BUFFER
    from cython.cimports.posix.unistd import read, write

__all__ = ["Layer", "LayeredLink", "Pipe", "StreamLink", "StreamListener", "dial"]

READ = 65536
MAX_UNSENT = 256 << 10  # bytes; one read adds less than three times its size, so this stays below `link_buffers`
BRIEF = cython.declare(cython.Py_ssize_t, 1024)
BACKLOG = 1024
ACCEPTS = 64  # in one turn of the loop, so that a flood leaves time for the others
EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
# Seconds until accepting is tried again after one of these: who waits there makes the socket readable for ever.
PAUSE = 0.5

log = logger("zenlake.link")


class Pipe:
    """A plain stream's socket, for who reads and writes it: nothing between them and the system's calls.

    A call of the system that copies little takes less time than letting go of the interpreter and asking for it again, and
    far less than getting it back from a thread that computes: the interpreter is kept then.
    """

    def __init__(self, number: int) -> None:
        self.number = number  # -1 when it is closed
        self.brief = False  # whether what came last was little

    def read(self, view: memoryview) -> int:
        """How many bytes there were for this view; 0 at the end of the stream."""
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
        """How many bytes of this view it took."""
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
    """A protocol between the socket and the owner, sans-IO. An error it raises ends the link."""

    is_ready: bool
    is_ended: bool
    """Whether the peer has ended the protocol: nothing more can be exchanged, even if the socket stays open."""

    @property
    def common_name(self) -> str | None:
        """Of the other end's certificate."""

    def start(self) -> None: ...

    def feed(self, data: bytes) -> Iterable[bytes]:
        """Bytes from the socket in; what the owner shall receive out."""

    def write(self, data: memoryview) -> None: ...

    def to_send(self) -> bytes:
        """Bytes for the socket."""

    def end(self) -> None:
        """Say goodbye, if the protocol has a word for it."""


def dial(endpoint: EndPoint, family: int, address: object) -> socket.socket:
    """Begin to connect to one of the endpoint's addresses. Return the socket."""
    sock = open_socket(endpoint, family, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        error = sock.connect_ex(address)  # type: ignore[arg-type]
        if error not in (0, errno.EINPROGRESS):
            raise OSError(error, "")
    except OSError as fault:
        sock.close()
        raise LinkError(str(endpoint.locator), describe(fault)) from None
    return sock


class StreamLink(Link, Port):
    """A connected or connecting stream socket."""

    direct = True
    segment = 0
    """Bytes in a segment of TCP's when it was connected; 0: there are none."""

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
            self._connected()

    @property
    def port(self) -> Port:
        return self

    def begin(self) -> None:
        if not self._connecting:
            self.owner.ready()

    def fileno(self) -> int:
        return self.pipe.number

    def _connected(self) -> None:
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
            size = cython.cast(Pipe, self.pipe).read(self.owner.space())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            return self._lose(error)
        if size:
            self.owner.filled(size)
        else:
            self._lose(None)

    def on_writable(self, now: float) -> None:
        if self._connecting:
            error = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                return self._lose(OSError(error, ""))
            self._connecting = False
            self.wants_write = False
            self.changed()
            self._connected()
            self.owner.ready()
        elif self.wants_write:
            self.wants_write = False
            self.changed()
            self.owner.writable()

    def write(self, data: memoryview) -> int:
        try:
            size: int = cython.cast(Pipe, self.pipe).write(data)
        except (BlockingIOError, InterruptedError):
            size = 0
        except OSError:
            return len(data)  # the loop will read the error, and tell; until then nobody misses these bytes
        if size < len(data) and not self.wants_write:
            self.wants_write = True
            self.changed()
        return size

    def fail(self, error: Exception) -> None:
        owner = self.owner
        self.close()
        owner.lost(LinkError(self.remote, f"{type(error).__name__}: {error}"))

    def _lose(self, error: OSError | None) -> None:
        owner = self.owner
        self.close()
        owner.lost(None if error is None else LinkError(self.remote, describe(error)))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.wants_read = self.wants_write = False
            self.changed()
            self.pipe.number = -1  # the system may give it to somebody else
            self._sock.close()


class LayeredLink(StreamLink):
    """A stream socket with a layer on it. The layer decides whether batches still run together (`stream`)."""

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
                self._tell_ready()
                if self._closed:
                    return
                self.owner.receive(piece)
        except LinkError as error:
            self._flush()  # an alert, or a refusal with its reason
            return self._break(error)
        self._tell_ready()
        try:
            self._flush()
        except LinkError as error:
            return self._break(error)
        if self._layer.is_ended and not self._closed:
            self._lose(None)

    def _tell_ready(self) -> None:
        if self._layer.is_ready and not self._was_ready:
            self._was_ready = True
            self.owner.ready()

    def on_writable(self, now: float) -> None:
        if self._connecting:
            error = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                return self._lose(OSError(error, ""))
            self._connecting = False
            self._connected()
            self._start()
        else:
            self._flush()
            if not self._out and not self._closed:
                if self._full:
                    self._full = False
                    self.owner.writable()
                self.owner.drained()

    @property
    def common_name(self) -> str | None:
        return self._layer.common_name

    @property
    def is_drained(self) -> bool:
        return not self._out

    def write(self, data: memoryview) -> int:
        """Take all of `data`, or nothing while bytes are unsent.

        Before the layer's handshake is over, and after its end, bytes have no way to the peer: they are dropped.
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
                self._out.clear()  # reading will tell
        if self.wants_write != bool(self._out):
            self.wants_write = bool(self._out)
            self.changed()
        self.hold(len(self._out))
        self._update_read()

    def _update_read(self) -> None:
        """Stop reading from a peer that does not read: what it sends, such as a ping, may need a reply."""
        wanted = not self._paused and not self._closed and len(self._out) <= MAX_UNSENT
        if self.wants_read != wanted:
            self.wants_read = wanted
            self.changed()

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
        owner.lost(LinkError(self.remote, error.why))

    def close(self) -> None:
        if not self._closed:
            try:
                if not self._connecting:
                    self._layer.end()
                    self._flush()
            finally:
                super().close()


class StreamListener(Listener):
    """A listening socket. `make` turns an accepted socket into a link.

    When the process has no file handle left it pauses, and says so once until it could accept again.
    """

    def __init__(self, sock: socket.socket, protocol: str, make: Callable[[socket.socket, str], Link]) -> None:
        sock.setblocking(False)
        sock.listen(BACKLOG)
        self._sock = sock
        self._protocol = protocol
        self._make = make
        self._resumes: float | None = None
        self._told = False
        self.locator = locator(protocol, sock.getsockname())

    def fileno(self) -> int:
        return self._sock.fileno()

    def on_readable(self, now: float) -> None:
        for _ in range(ACCEPTS):
            try:
                sock, address = self._sock.accept()
            except OSError as error:  # none left, or the other end is gone already
                if error.errno in EXHAUSTED:
                    self._pause(error, now)
                return
            self._told = False
            try:
                link = self._make(sock, locator(self._protocol, address))
            except OSError:  # it hung up in between
                sock.close()
                continue
            try:
                self.on_link(link)
            except Exception as error:  # of one connection: the listener serves others
                link.close()
                self.on_fault(link.remote, error)

    def _pause(self, error: OSError, now: float) -> None:
        if not self._told:
            self._told = True
            log.warning(
                "%s: nobody more can be accepted: %s. Those who ask wait; raise the limit (ulimit -n), or close something.",
                self.locator,
                error.strerror,
            )
        self.wants_read = False
        self._resumes = now + PAUSE
        self.changed()

    def next_timeout(self) -> float | None:
        return self._resumes

    def on_timeout(self, now: float) -> None:
        self._resumes = None
        self.wants_read = True

    def close(self) -> None:
        self._resumes = None
        self.wants_read = False
        self.changed()
        self._sock.close()
