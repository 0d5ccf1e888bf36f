# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake.link.stream cimport Pipe
from zenlake.runtime.event_loop cimport EventLoop, PolledConnection, Timer
from zenlake._compat.rlock cimport FastRLock
from zenlake.runtime.flush_policy cimport FlushPolicy
from zenlake.transport.unicast cimport Unicast

@cython.final
cdef class Connection(PolledConnection):
    cdef readonly object account
    cdef readonly object link
    cdef readonly object shared
    cdef readonly object node
    cdef readonly bint was_open
    cdef readonly object link_error
    cdef readonly unsigned long long bytes_out
    cdef EventLoop _engine
    cdef Pipe _pipe
    cdef readonly FastRLock lock
    cdef object _room
    cdef readonly int _waiters
    cdef readonly FlushPolicy flush_policy
    cdef bint _done
    cdef bint _paused
    cdef bint _resuming
    cdef Timer _timer
    cdef Timer _linger
    cdef object _event
    cdef readonly Unicast transport
    cpdef write(self)
    cpdef get_buffer(self)
    cpdef on_buffer_filled(self, Py_ssize_t size)
    cpdef turn(self)
    cdef Py_ssize_t _write(self, view) except -1
    cpdef _flush(self, double now)
    cpdef _run_effects(self)
    cdef _react(self)
