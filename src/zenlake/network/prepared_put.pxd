# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake.network.forwarding cimport RouteVersion, Route
from zenlake.wire.cursor cimport Blob
from zenlake.wire.message_base cimport Message

@cython.final
cdef class PreparedPush(Message):
    cdef int flags
    cdef Blob key
    cdef bytes head
    cdef const unsigned char* head_data
    cdef Py_ssize_t head_size
    cdef bytes payload
    cdef const unsigned char* data
    cdef Py_ssize_t size
    cdef bint is_busy
    cdef int set_payload(self, bytes payload) except -1
    cdef int set_payload_view(self, Blob payload) noexcept

cpdef PreparedPush encode_prepared(encoding, int qos)

@cython.final
cdef class PreparedPut:
    cdef object node
    cdef readonly bytes key
    cdef readonly int qos
    cdef readonly bint reliable
    cdef bint local
    cdef bint remote
    cdef RouteVersion epoch
    cdef Route route
    cdef int flags
    cdef PreparedPush message
    cpdef bint put(self, bytes payload) except -1
    cdef bint send(self, PreparedPush message, Route route) except -1
