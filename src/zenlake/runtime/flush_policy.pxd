# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake._compat.rlock cimport FastRLock
from zenlake.transport.queue_handle cimport QueueHandle

@cython.final
cdef class FlushPolicy(QueueHandle):
    cdef FastRLock lock
    cdef bint direct
    cdef unsigned long loop
    cdef object flush
    cdef object watch
    cdef public bint blocked
    cdef public bint is_watched
    cdef public double last
    cdef double flushed
    cpdef int on_send(self, bint express, int complete) except -1
