# SPDX-License-Identifier: Apache-2.0
cimport cython

@cython.final
cdef class Timer:
    cdef readonly double when
    cdef readonly object _call
    cpdef cancel(self)
    cpdef fire(self)

@cython.final
cdef class Engine:
    cdef object _poller
    cdef int _wake_read
    cdef int _wake_write
    cdef readonly object _calls
    cdef bint _awake
    cdef object _waking
    cdef list _timers
    cdef unsigned long long _count
    cdef dict _ports
    cdef dict _by_number
    cdef dict _port_timers
    cdef bint _stopping
    cdef readonly object _thread
    cdef readonly unsigned long ident
    cpdef bint is_inside(self) noexcept
    cpdef call_soon(self, call)
    cpdef Timer call_at(self, double when, call)
    cdef _update(self, port)
    cdef _forget(self, int number)
    cdef list _wait(self, timeout)
    cdef _serve(self, port, int mask, double now)
    cdef _until_next(self)
    cdef _guard(self, call)
