# SPDX-License-Identifier: Apache-2.0
"""Shared memory of the application: providers, allocation policies, and the buffers that it publishes and receives."""

import time
from typing import Any

from zenlake.api.zbytes import SHARED_TYPES
from zenlake.errors import InvalidValue, LocalError
from zenlake.shared_memory.provider import BufferPool
from zenlake.shared_memory.segment import FOLDER, is_available
from zenlake.shared_memory.shared_buffers import SharedBuffer

__all__ = [
    "AllocAlignment", "BlockOn", "Deallocate", "Defragment", "GarbageCollect", "JustAlloc", "MemoryLayout",
    "ShmProvider", "ZShm", "ZShmMut",
]  # fmt: skip

MAX_POWER = 63
RETRY = 0.001  # seconds between two attempts of BlockOn


class AllocAlignment:
    """An alignment of buffers: a power of two.

    Args:
        pow: The exponent, 0 to 63.

    Raises:
        InvalidValue: The exponent is out of range.
    """

    ALIGN_1_BYTE: "AllocAlignment"
    ALIGN_2_BYTE: "AllocAlignment"
    ALIGN_4_BYTE: "AllocAlignment"
    ALIGN_8_BYTE: "AllocAlignment"

    __slots__ = ("_pow",)

    def __init__(self, pow: int) -> None:
        if not isinstance(pow, int) or not 0 <= pow <= MAX_POWER:
            raise InvalidValue(f"incorrect layout arguments: pow={pow!r}; expected 0 to {MAX_POWER}")
        self._pow = pow

    def get_alignment_value(self, /) -> int:
        """Return the alignment in bytes."""
        return 1 << self._pow

    def align_size(self, /, size: int) -> int:
        """Return `size`, rounded up to a multiple of the alignment.

        Args:
            size: A size in bytes.
        """
        unit = 1 << self._pow
        return -(-size // unit) * unit

    def __repr__(self) -> str:
        return f"AllocAlignment({self._pow})"


for _pow in range(4):
    setattr(AllocAlignment, f"ALIGN_{1 << _pow}_BYTE", AllocAlignment(_pow))


class MemoryLayout:
    """Size and alignment of a buffer.

    Args:
        size: The size in bytes, or a tuple of size and alignment.
        alignment: The alignment. The size must be a multiple of it.

    Raises:
        InvalidValue: The size is 0 or not a multiple of the alignment.
    """

    __slots__ = ("_alignment", "_size")

    def __init__(self, size: "int | tuple[int, AllocAlignment]", alignment: AllocAlignment | None = None) -> None:
        if isinstance(size, tuple):
            size, alignment = size
        alignment = AllocAlignment.ALIGN_1_BYTE if alignment is None else alignment
        if not isinstance(size, int) or size <= 0 or size % alignment.get_alignment_value():
            unit = alignment.get_alignment_value()
            raise InvalidValue(f"incorrect layout arguments: size={size!r}; expected a positive multiple of {unit}")
        self._size = size
        self._alignment = alignment

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self._size

    @property
    def alignment(self) -> AllocAlignment:
        """Alignment."""
        return self._alignment


def _as_layout(layout: Any) -> MemoryLayout:
    return layout if isinstance(layout, MemoryLayout) else MemoryLayout(layout)


class JustAlloc:
    """Allocation policy: allocate, or fail."""

    def _allocate(self, pool: BufferPool, layout: MemoryLayout) -> SharedBuffer | None:
        return pool.allocate(layout.size, layout.alignment.get_alignment_value())


def _as_policy(policy: Any) -> Any:
    if policy is None:
        return JustAlloc()
    if not isinstance(policy, (JustAlloc, BlockOn, _Retry)):
        raise TypeError(f"expected policy type, found {policy!r}; expected for example JustAlloc()")
    return policy


class BlockOn:
    """Allocation policy: wait until `inner_policy` succeeds.

    Args:
        inner_policy: The policy to repeat. Default: `JustAlloc()`.
    """

    def __init__(self, inner_policy: Any = None) -> None:
        self._inner = _as_policy(inner_policy)

    def _allocate(self, pool: BufferPool, layout: MemoryLayout) -> SharedBuffer | None:
        while (found := self._inner._allocate(pool, layout)) is None:
            if layout.size > pool.size:
                return None
            time.sleep(RETRY)
        found_buffer: SharedBuffer = found
        return found_buffer


class _Retry:
    """A policy with two steps and an action between them."""

    def __init__(self, inner_policy: Any, alt_policy: Any) -> None:
        self._inner = _as_policy(inner_policy)
        self._alternative = _as_policy(alt_policy)

    def _free(self, pool: BufferPool) -> int:
        """Free memory. Return the size of the largest buffer that was freed."""
        return 0

    def _allocate(self, pool: BufferPool, layout: MemoryLayout) -> SharedBuffer | None:
        found: SharedBuffer | None = self._inner._allocate(pool, layout)
        if found is None and self._free(pool):
            found = self._alternative._allocate(pool, layout)
        return found


class GarbageCollect(_Retry):
    """Allocation policy: if `inner_policy` fails, free unused buffers and try `alt_policy`.

    Args:
        inner_policy: The first policy. Default: `JustAlloc()`.
        alt_policy: The second policy. Default: `JustAlloc()`.
        safe: Whether to free only buffers without any handle. With False, buffers that no holder confirms are freed too.
    """

    def __init__(self, inner_policy: Any = None, alt_policy: Any = None, safe: bool = True) -> None:
        super().__init__(inner_policy, alt_policy)
        self._safe = safe

    def _free(self, pool: BufferPool) -> int:
        return pool.collect(self._safe)


class Defragment(_Retry):
    """Allocation policy: `inner_policy`. Free memory is always merged, so there is nothing to defragment.

    Args:
        inner_policy: The policy. Default: `JustAlloc()`.
        alt_policy: Not used.
    """

    def __init__(self, inner_policy: Any = None, alt_policy: Any = None) -> None:
        super().__init__(inner_policy, alt_policy)


class Deallocate(_Retry):
    """Allocation policy: if `inner_policy` fails, free up to `limit` of the oldest buffers and try `alt_policy`.

    Buffers that are in use are freed too.

    Args:
        limit: Maximum number of buffers to free.
        inner_policy: The first policy. Default: `JustAlloc()`.
        alt_policy: The second policy. Default: `JustAlloc()`.
    """

    def __init__(self, limit: int, inner_policy: Any = None, alt_policy: Any = None) -> None:
        super().__init__(inner_policy, alt_policy)
        self._limit = limit

    def _free(self, pool: BufferPool) -> int:
        return pool.deallocate(self._limit)


class ShmProvider:
    """Shared memory of this process, from which buffers are allocated. Create it with `default_backend`."""

    __slots__ = ("_pool",)
    _pool: BufferPool

    def __init__(self) -> None:
        raise TypeError("create a provider with ShmProvider.default_backend(size)")

    @classmethod
    def default_backend(cls, layout: Any) -> "ShmProvider":
        """Return a provider of POSIX shared memory.

        Args:
            layout: Size in bytes, a tuple of size and alignment, or a MemoryLayout.

        Returns:
            The provider. Its memory is removed when the provider and all its buffers are gone.

        Raises:
            InvalidValue: The layout is invalid.
            LocalError: This system has no usable shared memory.
        """
        size = _as_layout(layout).size
        if not is_available():
            raise LocalError(
                f"shared memory needs Linux, a writable {FOLDER} and the compiled modules of zenlake; publish bytes instead"
            )
        made = cls.__new__(cls)
        try:
            made._pool = BufferPool(size)
        except OSError as error:
            raise LocalError(f"cannot create {size} bytes of shared memory in {FOLDER}: {error.strerror}") from None
        return made

    def alloc(self, /, layout: Any, policy: Any = None) -> "ZShmMut":
        """Allocate a buffer.

        Args:
            layout: Size in bytes, a tuple of size and alignment, or a MemoryLayout.
            policy: Allocation policy. Default: `JustAlloc()`.

        Returns:
            The buffer. Its bytes are undefined until they are written.

        Raises:
            LocalError: There is no room.
        """
        wanted = _as_layout(layout)
        found = _as_policy(policy)._allocate(self._pool, wanted)
        if found is None:
            raise LocalError(
                f"out of memory: no room for {wanted.size} bytes; use a larger provider, or the policy GarbageCollect()"
            )
        return ZShmMut._of(found)

    def garbage_collect(self, /) -> int:
        """Free the buffers without a handle.

        Returns:
            The size of the largest freed buffer in bytes, or 0.
        """
        return self._pool.collect()

    def garbage_collect_unsafe(self, /) -> int:
        """Free the buffers that no holder confirms.

        Returns:
            The size of the largest freed buffer in bytes, or 0.
        """
        return self._pool.collect(safe=False)

    def defragment(self, /) -> None:
        """Do nothing: free memory is always merged."""

    @property
    def available(self) -> int:
        """Free bytes, possibly in several pieces."""
        return self._pool.available


class _Buffer:
    """Common base of both kinds of buffers."""

    __slots__ = ("_buffer",)
    _buffer: SharedBuffer | None

    def __init__(self) -> None:
        raise TypeError(f"{type(self).__name__} objects come from ShmProvider.alloc or ZBytes.as_shm")

    @classmethod
    def _of(cls, buffer: SharedBuffer) -> Any:
        made = cls.__new__(cls)
        made._buffer = buffer
        return made

    def _alive(self) -> SharedBuffer:
        if self._buffer is None:
            raise LocalError(f"{type(self).__name__} has been consumed by ZBytes conversion")
        return self._buffer

    def __bytes__(self) -> bytes:
        return bytes(self._alive().view())

    def __str__(self) -> str:
        try:
            return bytes(self).decode()
        except UnicodeDecodeError as error:
            raise InvalidValue(f"the buffer is not UTF-8: {error.reason} at byte {error.start}") from None

    def __repr__(self) -> str:
        buffer = self._alive()
        return f"<{type(self).__name__} of {buffer.size} bytes in segment {buffer.data.segment.id}>"


class ZShm(_Buffer):
    """A buffer in shared memory that can be read and published. The memory stays in use while this object exists."""

    __slots__ = ()

    def is_valid(self, /) -> bool:
        """Return whether the owner still keeps the bytes for this buffer."""
        return self._alive().is_valid()

    @property
    def view(self) -> memoryview:
        """A view of the bytes, without a copy. Keep this object while you use the view.

        Safety: the view trusts the owner, who can change the bytes at any time. Memory that the owner has truncated reads as zeros.
        """
        return self._alive().view()

    def _take(self) -> SharedBuffer:
        return self._alive()


class ZShmMut(_Buffer):
    """A new buffer in shared memory. Fill it, then publish it. It cannot be used afterwards."""

    __slots__ = ()

    def __setitem__(self, item: int | slice, value: Any) -> None:
        buffer = self._alive()
        if isinstance(item, slice):
            start, stop, step = item.indices(buffer.size)
            if not isinstance(value, (bytes, bytearray, memoryview)):
                raise TypeError(f"expected bytes like argument, found {value!r}")
            data = memoryview(value).cast("B")
            if step != 1:
                raise ValueError("slices of a buffer need step 1")
            if len(data) != max(0, stop - start):
                size = max(0, stop - start)
                raise ValueError(
                    f"memoryview assignment: lvalue and rvalue have different structures: {size} and {len(data)} bytes"
                )
        else:
            if (
                not isinstance(item, int)
                or not isinstance(value, int)
                or not 0 <= item < buffer.size
                or not 0 <= value < 256
            ):
                raise TypeError(f"expected bytes like argument, found [{item!r}] = {value!r}")
            start, data = item, memoryview(bytes((value,)))
        try:
            buffer.data.segment.write(data, buffer.at + start)
        except OSError as error:
            raise LocalError(f"cannot write to {FOLDER}: {error.strerror}") from None

    def __delitem__(self, item: object) -> None:
        raise TypeError("a buffer has a fixed size; its bytes cannot be removed")

    def _take(self) -> SharedBuffer:
        buffer = self._alive()
        self._buffer = None
        return buffer


SHARED_TYPES.update((ZShm, ZShmMut))
