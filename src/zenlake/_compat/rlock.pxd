# SPDX-License-Identifier: Apache-2.0
cimport cython

@cython.final
cdef class FastRLock:
    cdef unsigned long owner
    cdef int depth
    cdef int waiting
    cdef bint gated
    cdef object gate
    cpdef bint acquire(self) except -1
    cpdef int release(self) except -1
    cdef int wait(self, unsigned long me) except -1
