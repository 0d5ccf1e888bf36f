cimport cython
from zenlake.wire.transport cimport Fragment

cdef enum:
    OLD = -1
    OUT_OF_RANGE = -2

    JOINED = 1
    WAITING = 0
    NO_START = -2
    NOT_NEXT = -3
    DROPPED = -4
    TOO_LARGE = -5
    SKIPPED = -6
    ENDED = -7

cpdef int lane_of(int priority, bint reliable) noexcept nogil

@cython.final
cdef class Lanes:
    cdef long long last[16]
    cdef long long expected[16]
    cdef public long long mask
    cdef public int patch
    cdef public Py_ssize_t max_message_size
    cdef list parts
    cdef readonly list pieces
    cdef int skipped[16]
    cdef readonly long long skipped_count
    cpdef start(self, unsigned long long initial_sn)
    cpdef start_lane(self, int priority, bint reliable, unsigned long long next_sn)
    cpdef long long accept(self, int lane, unsigned long long sn) noexcept nogil
    cpdef int join(self, int lane, Fragment fragment) except -1
    cdef int skip(self, int lane, Fragment fragment, int why) except -1
    cpdef Py_ssize_t held_bytes(self) except -1
    cpdef bytearray take(self, int lane)
    cdef drop_partial(self, int lane)
