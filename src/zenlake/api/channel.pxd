# SPDX-License-Identifier: Apache-2.0
cimport cython

cdef class Channel:
    cdef object items
    cdef object append
    cdef object popleft
    cdef Py_ssize_t capacity
    cdef bint ring
    cdef object lock
    cdef object waiting
    cdef bint closed
    cdef bint paused
    cdef public object source
    cdef public object wake
    cdef public unsigned long long dropped
    cdef int push(self, item) except -1
    cdef int full(self) except -1
    cdef object pop(self)
    cdef object wait(self, timeout)
    cdef int notify(self) except -1
    cdef int let_go(self) except -1
