# SPDX-License-Identifier: Apache-2.0
cimport cython

@cython.final
cdef class Pipe:
    cdef public int number
    cdef bint brief
    cdef Py_ssize_t read(self, view) except? -1
    cdef Py_ssize_t write(self, view) except? -1
