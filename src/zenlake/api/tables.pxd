# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake.columns.encode cimport Encoder
from zenlake.columns.inputs cimport Choices
from zenlake.wire.network cimport Push

@cython.final
cdef class Rows:
    cdef object node
    cdef bint local
    cdef bint remote
    cdef Encoder encoder
    cdef Push push
    cdef list routes
    cdef list keys
    cdef object only
    cdef Py_ssize_t run(self, Py_ssize_t first, Py_ssize_t end, Choices codes, bint one) except -1
    cdef Py_ssize_t run_anywhere(self, Py_ssize_t first, Py_ssize_t end, Choices codes, bint one) except -1
