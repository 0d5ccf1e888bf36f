# SPDX-License-Identifier: Apache-2.0
cimport cython

@cython.final
cdef class Ring:
    cdef list slots
    cdef Py_ssize_t first
    cdef Py_ssize_t count
    cdef int append(self, item) except -1
    cdef int grow(self) except -1
    cdef object popleft(self)
    cdef remove(self, item)
    cdef int clear(self) except -1

cdef inline Py_ssize_t length(Ring ring) noexcept:
    return ring.count

cdef class Channel:
    cdef Ring items
    cdef Py_ssize_t capacity
    cdef bint ring
    cdef object lock
    cdef Ring waiting
    cdef bint closed
    cdef bint paused
    cdef public object source
    cdef public object wake
    cdef public unsigned long long dropped
    cdef int push(self, item) except -1
    cdef int full(self) except -1
    cdef object take(self, timeout)
    cdef object pop(self)
    cdef object wait(self, timeout)
    cdef int notify(self) except -1
    cdef int let_go(self) except -1
