# SPDX-License-Identifier: Apache-2.0
"""Words of shared memory that other processes change too, and the thread that confirms their watchdog bits. Compiled.

Every access is one atomic instruction of the processor. Uncompiled Python has none, so `AVAILABLE` is then false: the node does not
negotiate shared memory, and `zenlake.shm` refuses to create a provider.

The watchdog thread runs without the GIL. It confirms the held slots every 50 ms, because the owner of a slot invalidates it after
100 ms without a confirmation. It also validates the slots that this process owns.

Safety: a partner may change every word at any time. Callers read a word once, check it, then use it.
"""

from time import monotonic

import cython

if cython.compiled:
    from cython.cimports.cpython.buffer import PyBUF_WRITE
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
    from cython.cimports.cpython.list import PyList_GET_ITEM
    from cython.cimports.cpython.memoryview import PyMemoryView_FromMemory
    from cython.cimports.cpython.object import PyObject
    from cython.cimports.cpython.pythread import (
        PyThread_acquire_lock,
        PyThread_allocate_lock,
        PyThread_free_lock,
        PyThread_release_lock,
    )
    from cython.cimports.libc.stdlib import calloc, free

__all__ = ["AVAILABLE", "CopyPool", "SharedWords", "SlotTable", "Watchdog"]

AVAILABLE: bool = cython.compiled

PERIOD = cython.declare(cython.uint, 50_000)  # microseconds between two confirmations
ROUNDS = cython.declare(cython.int, 10)  # confirmations per validation: 500 ms, so that a starved holder keeps its slot
ONE = cython.declare(cython.ulonglong, 1)
STEP = cython.declare(cython.Py_ssize_t, 65536)  # sizes of kept copies are rounded up to multiples of this
MOST = cython.declare(cython.Py_ssize_t, 67108864)  # maximum bytes of all kept copies

if not cython.compiled:  # compiled: C constants, in the .pxd
    SLOTS = 32768
    WORDS = 512
    SLOT_SIZE = 32
    BITMAP = 1048576
    METADATA_SIZE = 1310720


class CopyPool:
    """Bytes objects for copies of payloads. An object without other references is used again.

    Performance: fresh memory costs more than the copy, because the system has to clear each page.
    """

    def __init__(self):
        self.recent = []
        self.total = 0
        self.used = 0.0

    def allocate(self, size):
        """Return a bytes object, and a view to fill it before anyone else sees it."""
        i: cython.Py_ssize_t
        held: cython.Py_ssize_t
        data: bytes
        room: cython.Py_ssize_t = -(-size // STEP) * STEP
        if size < STEP or room > MOST:
            data = PyBytes_FromStringAndSize(cython.NULL, size)
            return data, PyMemoryView_FromMemory(PyBytes_AS_STRING(data), size, PyBUF_WRITE)
        self.used = monotonic()
        for i in range(len(self.recent)):
            place = cython.cast(cython.pointer(PyObject), PyList_GET_ITEM(self.recent, i))
            # Safety: the list has the only reference, so no other code can see the change.
            held = PyBytes_GET_SIZE(cython.cast(object, place))
            if room - STEP < held <= room and zenlake_is_unused(place):  # noqa: F821  a C function, in the .pxd
                data = cython.cast(object, place)
                break
        else:
            while self.total + room > MOST:
                data = self.recent.pop(0)
                self.total -= -(-len(data) // STEP) * STEP
            data = PyBytes_FromStringAndSize(cython.NULL, room)
            self.recent.append(data)
            self.total += room
        zenlake_renew_bytes(cython.cast(cython.pointer(PyObject), data), size)  # noqa: F821
        return data, PyMemoryView_FromMemory(PyBytes_AS_STRING(data), size, PyBUF_WRITE)

    def trim(self, before):
        """Free the memory if it was last used before this time."""
        if self.recent and self.used < before:
            self.recent.clear()
            self.total = 0


class SharedWords:
    """Atomic words of a mapped segment, by their offset in bytes."""

    def __init__(self, buffer):
        self.view = buffer
        self.data = cython.address(self.view[0])
        self.size = self.view.shape[0]

    def place(self, at, width):
        if self.data == cython.NULL or at < 0 or at > self.size - width or at % width != 0:
            raise IndexError(f"no word of {width} bytes at {at}; the segment has {self.size} bytes")
        return self.data + at

    def load8(self, at):
        """Return a byte."""
        return zenlake_load8(self.place(at, 1))  # noqa: F821  a C function, in the .pxd

    def load32(self, at):
        """Return a word of four bytes."""
        return zenlake_load32(self.place(at, 4))  # noqa: F821

    def load64(self, at):
        """Return a word of eight bytes."""
        return zenlake_load64(self.place(at, 8))  # noqa: F821

    def store8(self, at, value):
        """Set a byte."""
        zenlake_store8(self.place(at, 1), value)  # noqa: F821
        return 0

    def store32(self, at, value):
        """Set a word of four bytes."""
        zenlake_store32(self.place(at, 4), value)  # noqa: F821
        return 0

    def store64(self, at, value):
        """Set a word of eight bytes."""
        zenlake_store64(self.place(at, 8), value)  # noqa: F821
        return 0

    def add32(self, at, value):
        """Add to a word of four bytes, modulo 2**32. Return its previous value."""
        return zenlake_add32(self.place(at, 4), value)  # noqa: F821

    def close(self):
        """Release the mapping. Later accesses raise IndexError."""
        self.data = cython.NULL
        self.size = 0
        self.view = None


class SlotTable(SharedWords):
    """The words of a metadata segment, with the watchdog bits that this process confirms or validates."""

    def __init__(self, buffer, watchdog):
        SharedWords.__init__(self, buffer)
        if self.size < METADATA_SIZE:
            raise ValueError(f"a metadata segment has {METADATA_SIZE} bytes; this one has {self.size}")
        self.counts = cython.cast(cython.p_uint, calloc(SLOTS, 4))
        self.bits = cython.cast(cython.pointer(WatchedBits), calloc(1, cython.sizeof(WatchedBits)))  # noqa: F821
        if self.counts == cython.NULL or self.bits == cython.NULL:
            raise MemoryError
        self.bits.data = self.data
        self.watchdog = watchdog
        self.watchdog.add(self.bits)

    def __dealloc__(self):
        free(self.counts)
        if self.data == cython.NULL:  # otherwise it was not closed, and the watchdog may still read the bits
            free(self.bits)

    def check(self, index):
        if self.data == cython.NULL or index < 0 or index >= SLOTS:
            raise IndexError(f"no slot {index}; expected 0 to {SLOTS - 1}")
        return 0

    def hold(self, index):
        """Confirm a slot now and from now on. Call `let_go` as often as `hold`."""
        self.check(index)
        mask: cython.ulonglong = ONE << (index & 63)
        self.counts[index] += 1
        zenlake_or64(cython.address(self.bits.held[index >> 6]), mask)  # noqa: F821
        zenlake_or64(self.data + BITMAP + 8 * (index >> 6), mask)  # noqa: F821
        return 0

    def let_go(self, index):
        """End one `hold`."""
        self.check(index)
        if self.counts[index] == 0:
            raise IndexError(f"slot {index} is not held")
        self.counts[index] -= 1
        if self.counts[index] == 0:
            mask: cython.ulonglong = ONE << (index & 63)
            zenlake_and64(cython.address(self.bits.held[index >> 6]), ~mask)  # noqa: F821
        return 0

    def own(self, index):
        """Validate a slot of this process from now on. Call `hold` first."""
        self.check(index)
        zenlake_or64(cython.address(self.bits.owned[index >> 6]), ONE << (index & 63))  # noqa: F821
        return 0

    def disown(self, index):
        """End the validation of a slot."""
        self.check(index)
        mask: cython.ulonglong = ONE << (index & 63)
        zenlake_and64(cython.address(self.bits.owned[index >> 6]), ~mask)  # noqa: F821
        return 0

    def close(self):
        """Stop confirming and release the mapping."""
        if self.data != cython.NULL:
            self.watchdog.remove(self.bits)
        SharedWords.close(self)


class Watchdog:
    """The slots of all metadata segments of this process, and the loop that confirms them."""

    def __cinit__(self):
        self.turns = 0
        self.lock = PyThread_allocate_lock()

    def __dealloc__(self):
        PyThread_free_lock(self.lock)

    def add(self, bits):
        with cython.nogil:
            PyThread_acquire_lock(self.lock, 1)
            bits.next = self.first
            self.first = bits
            PyThread_release_lock(self.lock)
        return 0

    def remove(self, bits):
        """Remove the slots of a segment. The thread does not touch its mapping after this returns."""
        each: cython.pointer(WatchedBits)  # noqa: F821
        with cython.nogil:
            PyThread_acquire_lock(self.lock, 1)
            if self.first == bits:
                self.first = bits.next
            each = self.first
            while each != cython.NULL:
                if each.next == bits:
                    each.next = bits.next
                each = each.next
            bits.next = cython.NULL
            PyThread_release_lock(self.lock)
        return 0

    def confirm(self, validate):
        each: cython.pointer(WatchedBits)  # noqa: F821
        word: cython.Py_ssize_t
        bit: cython.int
        mask: cython.ulonglong
        dead: cython.ulonglong
        PyThread_acquire_lock(self.lock, 1)
        each = self.first
        while each != cython.NULL:
            for word in range(WORDS):
                if validate:
                    mask = zenlake_load64(cython.address(each.owned[word]))  # noqa: F821
                    if mask != 0:
                        dead = mask & ~zenlake_and64(each.data + BITMAP + 8 * word, ~mask)  # noqa: F821
                        if dead != 0:
                            zenlake_and64(cython.address(each.owned[word]), ~dead)  # noqa: F821
                            for bit in range(64):
                                if (dead >> bit) & 1 != 0:
                                    zenlake_store8(each.data + SLOT_SIZE * (64 * word + bit) + 4, 1)  # noqa: F821
                mask = zenlake_load64(cython.address(each.held[word]))  # noqa: F821
                if mask != 0:
                    zenlake_or64(each.data + BITMAP + 8 * word, mask)  # noqa: F821
            each = each.next
        PyThread_release_lock(self.lock)
        return 0

    def turn(self, validate):
        """Confirm all held slots once. With `validate`, validate the slots of this process first."""
        with cython.nogil:
            self.confirm(validate)
        return 0

    def run(self):
        """Confirm every 50 ms until `stop`. Runs without the GIL."""
        count: cython.int = 0
        turn: cython.uint = self.turns
        with cython.nogil:
            while turn == self.turns:
                usleep(PERIOD)  # noqa: F821
                count = (count + 1) % ROUNDS
                self.confirm(count == 0)

    def stop(self):
        """End every `run`, within 50 ms."""
        self.turns += 1
        return 0
