# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake.columns.rows cimport Place, Samples
from zenlake.wire.reader cimport Reader

@cython.final
cdef class LiveSamples:
    cdef Samples samples
    cdef Place place
    cdef Py_ssize_t rows
    cdef Py_ssize_t size
    cpdef bint add_push(self, bytes key, Reader reader, long long received_ns) except -1
    cdef bint end(self, Reader reader, int qos, long long received_ns) except -1
