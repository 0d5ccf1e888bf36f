# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake.columns.rows cimport Place
from zenlake.columns.samples cimport Samples
from zenlake.session.keys cimport KeyTable
from zenlake.wire.reader cimport Reader

@cython.final
cdef class LiveSamples:
    cdef Samples samples
    cdef Place place
    cdef KeyTable keys
    cdef Py_ssize_t rows
    cdef Py_ssize_t size
    cdef unsigned char[::1] stage
    cdef unsigned char* data
    cdef Py_ssize_t used
    cpdef bint add_push(self, bytes key, Reader reader, long long received_ns) except -1
    cpdef bint add_reply(self, bytes key, Reader reader, long long received_ns) except -1
    cdef int begin(self, bytes key, Reader reader, long long received_ns) except -1
    cdef bint end(self, Reader reader) except -1
    cdef int gather(self) except -1
