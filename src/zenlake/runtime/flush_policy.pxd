# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake._compat.rlock cimport Lock
from zenlake.network.prepared_put cimport Way
from zenlake.transport.tx_queue cimport Queue

@cython.final
cdef class Sending(Way):
    cdef public Queue queue
    cdef Lock lock
    cdef bint direct
    cdef unsigned long loop
    cdef object flush
    cdef object turn
    cdef object watch
    cdef public bint blocked
    cdef public bint armed
    cdef public double last
    cdef double flushed
    cpdef int sent(self, bint express, int complete) except -1
