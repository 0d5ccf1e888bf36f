# SPDX-License-Identifier: Apache-2.0
cimport cython
from cpython.pythread cimport PyThread_type_lock

cdef extern from "pythread.h" nogil:
    int PyThread_acquire_lock_timed(PyThread_type_lock lock, long long microseconds, int interruptible)

@cython.final
cdef class Wakeup:
    cdef PyThread_type_lock lock
    cpdef bint wait(self, double seconds) except -1
    cpdef int wake(self) except -1

cdef int defer_wakeups(unsigned long me) except -1
cpdef int release_wakeups() except -1
cdef list take_wakeups(unsigned long me)
cpdef discard_wakeups()
