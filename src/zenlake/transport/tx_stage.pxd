# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake._compat.fast_deque cimport Ring
from zenlake.wire.transport cimport Fragment
from zenlake.wire.writer cimport Writer

@cython.final
cdef class Batch:
    cdef Writer w
    cdef int lane
    cdef Py_ssize_t sent
    cdef Py_ssize_t second

@cython.final
cdef class Cut:
    cdef bytes data
    cdef int reliable
    cdef bint droppable
    cdef unsigned long long sn
    cdef Py_ssize_t at
    cdef double moved
    cdef Py_ssize_t write(self, Writer w, Fragment f, Py_ssize_t room, int priority, bint late) except -1

@cython.final
cdef class Stage:
    cdef int priority
    cdef Py_ssize_t size
    cdef Ring jobs
    cdef Batch open
    cdef unsigned long long next_sn[2]
