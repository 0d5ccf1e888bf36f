# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake._compat.rlock cimport FastRLock
from zenlake.network.prepared_put cimport ThreadQueueHandle
from zenlake.transport.tx_queue cimport TxQueue

@cython.final
cdef class FlushPolicy(ThreadQueueHandle):
    cdef public TxQueue queue
    cdef FastRLock lock
    cdef bint direct
    cdef unsigned long loop
    cdef object flush
    cdef object turn
    cdef object watch
    cdef public bint blocked
    cdef public bint is_scheduled
    cdef public double last
    cdef double flushed
    cpdef int on_send(self, bint express, int complete) except -1
