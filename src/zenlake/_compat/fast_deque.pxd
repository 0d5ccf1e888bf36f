# SPDX-License-Identifier: Apache-2.0
cimport cython

@cython.final
cdef class FastDeque:
    cdef list slots
    cdef Py_ssize_t first
    cdef Py_ssize_t count
    cdef int append(self, item) except -1
    cdef int grow(self) except -1
    cdef object popleft(self)
    cdef object peek(self)
    cdef remove(self, item)
    cdef int clear(self) except -1

cdef inline Py_ssize_t length(FastDeque queue) noexcept:
    return queue.count
