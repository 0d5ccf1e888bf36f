# SPDX-License-Identifier: Apache-2.0
"""`ZBytes`: the bytes of a payload or an attachment.

It supports the buffer protocol without a copy: `memoryview(payload)`, `numpy.frombuffer(payload)`,
`pyarrow.py_buffer(payload)`. `put(array)` sends the bytes of an array. (Uncompiled, exporting a buffer needs Python 3.12.)
"""

import cython

from zenlake.errors import InvalidValue, LocalError
from zenlake.transport.references import SharedPayload

if cython.compiled:
    from cython.cimports.cpython.buffer import Py_buffer, PyObject_GetBuffer
    from cython.cimports.cpython.ref import Py_DECREF
else:
    Py_buffer = cython.int

__all__ = ["SHARED_TYPES", "ZBytes", "as_buffer", "as_payload", "of_buffer", "with_buffer"]

_bytes = bytes


# Immutable: no reference cycles, so no garbage collection.
@cython.no_gc
@cython.freelist(8)
@cython.cclass
class ZBytes:
    """Immutable bytes of a payload or attachment.

    It compares equal to, and hashes like, the same `bytes`. It also compares equal to a str with the same UTF-8 bytes.

    Args:
        bytes: Bytes, a str (encoded as UTF-8), or any object with the buffer protocol.
    """

    __slots__ = ("_data", "_shared")

    def __init__(self, bytes=None):
        self._shared = None
        if bytes is None:
            self._data = b""
        elif type(bytes) in SHARED_TYPES:
            self._shared = bytes._take()
            self._data = self._shared.copy() or b""
        else:
            self._data = _keep_alive(bytes)

    def to_bytes(self, /):
        """Return the bytes. Copies only large payloads that are part of a larger buffer."""
        return self.whole()

    def whole(self):
        if not isinstance(self._data, bytes):
            self._data = bytes(self.buffer())
        return self._data

    def buffer(self):
        """Return the bytes, or a view of them. Copy a payload in shared memory first."""
        if self._data is None:
            self._data = self._shared.copy()
            if self._data is None:
                raise LocalError(
                    "the sender has released the shared memory of this payload; read it inside of the callback"
                )
        return self._data

    def detach(self):
        """Copy a payload in shared memory, unless its caller has the only reference."""
        if cython.compiled and self._data is None and Py_REFCNT(self) > 1:  # noqa: F821  in the .pxd
            self._data = self._shared.copy()
        return 0

    def to_string(self, /):
        """Decode the bytes as UTF-8.

        Raises:
            InvalidValue: The bytes are not UTF-8.
        """
        try:
            return str(self.buffer(), "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidValue(f"the payload is not UTF-8: {error.reason} at byte {error.start}") from None

    def as_shm(self, /):
        """Return the payload as a view of the sender's shared memory, or None if it did not arrive in one piece of it.

        The view is not a copy: it trusts the sender not to change the bytes. While the view or this object exists, the
        memory stays in use. The bytes were also copied on arrival, unless the callback has `indirect=False`.
        """
        if self._shared is None:
            return None
        from zenlake.api.shared_memory import ZShm

        return ZShm._of(self._shared)

    def __getbuffer__(self, buffer: cython.pointer(Py_buffer), flags: cython.int):  # type: ignore[valid-type]
        if cython.compiled:  # the exporter is the wrapped object; the consumer keeps a reference to it
            Py_DECREF(None)  # Cython sets the reference to None first
            PyObject_GetBuffer(self.buffer(), buffer, flags)

    def __buffer__(self, flags):
        return memoryview(self.buffer())

    def __len__(self):
        return self._shared.size if self._data is None else len(self._data)

    def __bool__(self):
        return len(self) != 0

    def __bytes__(self):
        return self.whole()

    def __str__(self):
        return self.to_string()

    def __repr__(self):
        data = self.buffer()
        return f"ZBytes({_bytes(data)!r})" if len(data) <= 64 else f"ZBytes({_bytes(data[:48])!r}... {len(data)} bytes)"

    def __eq__(self, other):
        if isinstance(other, ZBytes):
            return self.to_bytes() == other.to_bytes()
        try:
            return self.to_bytes() == as_buffer(other)
        except TypeError:
            return NotImplemented

    def __hash__(self):
        return hash(self.to_bytes())

    def __reduce__(self):
        return ZBytes, (self.to_bytes(),)


if not cython.compiled:  # compiled: inline, in the .pxd

    def make_zbytes(data):
        """Return ZBytes(data) for `bytes`."""
        made = ZBytes.__new__(ZBytes)
        made._data = data
        made._shared = None
        return made


SHARED_TYPES: set[type] = set()
"""Types of `zenlake.shm` that are payloads. That module adds them, because few programs need it."""


def with_buffer(data, shared):
    """Return ZBytes of bytes that were copied from a buffer in shared memory."""
    made: ZBytes = data if isinstance(data, ZBytes) else ZBytes(data)
    made._shared = shared
    return made


def of_buffer(shared):
    """Return ZBytes of a buffer in shared memory. The bytes are copied on first access."""
    made: ZBytes = ZBytes.__new__(ZBytes)
    made._data = None
    made._shared = shared
    return made


def as_payload(data):
    """Return what `as_buffer` returns, or a SharedPayload if the data is in shared memory."""
    if type(data) in SHARED_TYPES:
        return SharedPayload(data._take())
    if isinstance(data, ZBytes):
        known: ZBytes = data
        if known._shared is not None:
            return SharedPayload(known._shared, None if known._data is None else known.whole())
    return as_buffer(data)


def _keep_alive(data):
    """Return immutable bytes. Views of mutable objects are copied."""
    if isinstance(data, _bytes):
        return data
    view = as_buffer(data)
    return view if isinstance(view, _bytes) or (isinstance(view, memoryview) and view.readonly) else _bytes(view)


def as_buffer(data):
    """Return bytes or a view of bytes. Raise TypeError for objects without a buffer."""
    if isinstance(data, _bytes):
        return data
    if isinstance(data, ZBytes):
        return data.to_bytes()
    if isinstance(data, str):
        return data.encode()
    if type(data) in SHARED_TYPES:
        return _bytes(data)
    try:
        view = memoryview(data)
    except TypeError:
        raise TypeError(
            f"expected bytes, str, ZBytes or an object with a buffer, found {type(data).__name__!r}; "
            "use zenlake.ext.z_serialize for numbers, lists and dicts"
        ) from None
    if "O" in view.format and "O" in "".join(view.format.split(":")[::2]):  # field names are between colons
        raise TypeError(
            f"an array of objects (format {view.format!r}) contains addresses instead of values; use an array of numbers "
            "or bytes, or zenlake.ext.z_serialize"
        )
    if not view.c_contiguous:
        return view.tobytes()
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")
