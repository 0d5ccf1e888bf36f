# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake.wire.transport cimport Fragment
from zenlake.wire.writer cimport WireWriter

@cython.final
cdef class Batch:
    cdef WireWriter w
    cdef int lane
    cdef Py_ssize_t sent
    cdef Py_ssize_t second

@cython.final
cdef class FragmentedMessage:
    cdef bytes data
    cdef int reliable
    cdef bint droppable
    cdef unsigned long long sn
    cdef Py_ssize_t at
    cdef double progress_time
    cdef Py_ssize_t write(self, WireWriter w, Fragment f, Py_ssize_t room, int priority, bint late) except -1

@cython.final
cdef class TxStage:
    cdef int priority
    cdef Py_ssize_t size
    cdef list jobs
    cdef Batch open
    cdef unsigned long long next_sn[2]
