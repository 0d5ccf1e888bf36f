# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake.link.stream cimport Pipe
from zenlake.network.forwarding cimport Lane
from zenlake.runtime.event_loop cimport Engine, Served, Timer
from zenlake._compat.rlock cimport Lock
from zenlake.runtime.flush_policy cimport Sending
from zenlake.transport.unicast cimport Unicast

@cython.final
cdef class Face(Served):
    cdef readonly object account
    cdef readonly object link
    cdef readonly object node
    cdef readonly bint was_open
    cdef readonly object link_error
    cdef readonly unsigned long long bytes_out
    cdef Engine _engine
    cdef Pipe _pipe
    cdef readonly Lock lock
    cdef object _room
    cdef readonly int _waiters
    cdef readonly Sending way
    cdef public Lane lane
    cdef bint _done
    cdef bint _paused
    cdef bint _resuming
    cdef Timer _timer
    cdef Timer _linger
    cdef object _event
    cdef readonly Unicast transport
    cpdef write(self)
    cpdef space(self)
    cpdef filled(self, Py_ssize_t size)
    cpdef turn(self)
    cdef Py_ssize_t _write(self, view) except -1
    cpdef _flush(self, double now)
    cpdef _after(self)
    cdef _react(self)
