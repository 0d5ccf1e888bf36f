# SPDX-License-Identifier: Apache-2.0
from zenlake.transport.tx_queue cimport TxQueue
from zenlake.wire.message_base cimport Message

cdef class QueueHandle:
    cdef public TxQueue queue
    cdef object guard
    cdef object schedule
    cdef public Py_ssize_t limit
    cdef public bint is_scheduled
    cdef public bint is_held
    cdef int begin(self) except -1
    cdef bint add(self, Message message, int qos, bint reliable) except -1
    cdef int end(self, bint express) except -1
    cdef bint send(self, Message message, int qos, bint reliable) except -1
