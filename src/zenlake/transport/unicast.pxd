# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake.transport.rx cimport RxPath
from zenlake.transport.tx_queue cimport TxQueue

@cython.final
cdef class Unicast:
    cdef readonly object settings
    cdef readonly object session
    cdef public object guard
    cdef readonly bint is_open
    cdef readonly bint is_closed
    cdef readonly bint paused
    cdef public unsigned long long dropped
    cdef readonly object queue
    cdef TxQueue _plain
    cdef readonly RxPath rx
    cdef readonly object shared
    cdef object _handshake
    cdef int _own
    cdef list _events
    cdef double _now
    cdef object _closing
    cdef object _waiting_first
    cdef double _last_received
    cdef double _last_sent
    cdef double _stall_began
    cdef double _stall_ended
    cdef double _keep_alive
    cdef double _peer_lease
    cpdef get_buffer(self)
    cpdef receive_buffered(self, Py_ssize_t size, double now)
    cdef _update_receive_time(self, double now)
    cpdef bint is_silent(self, double now) except -1
    cpdef restart_lease(self, double now)
    cpdef double silent_since(self, double now) except? -1
    cpdef data(self, double now)
    cpdef bint mark_sent(self, Py_ssize_t size, double now) except -1
    cpdef bint has_data(self) except -1
    cpdef next_timeout(self)
    cpdef list events(self)
