# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake.network.forward cimport Lane
from zenlake.runtime.engine cimport Engine, Timer
from zenlake.runtime.lock cimport Lock
from zenlake.runtime.sending cimport Sending
from zenlake.transport.unicast cimport Unicast

@cython.final
cdef class Face:
    cdef readonly object link
    cdef readonly object node
    cdef readonly bint was_open
    cdef readonly object link_error
    cdef readonly unsigned long long bytes_out
    cdef Engine _engine
    cdef readonly Lock lock
    cdef object _room
    cdef readonly int _waiters
    cdef readonly Sending way
    cdef public Lane lane
    cdef bint _done
    cdef Timer _timer
    cdef Timer _linger
    cdef object _event
    cdef readonly Unicast transport
    cpdef write(self)
    cpdef space(self)
    cpdef filled(self, Py_ssize_t size)
    cpdef turn(self)
    cpdef _flush(self, double now)
    cpdef _after(self)
