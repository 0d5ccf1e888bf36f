# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake.api.channel cimport Channel
from zenlake.api.zbytes cimport ZBytes
from zenlake.network.forward cimport Listener
from zenlake.wire.cursor cimport Blob
from zenlake.wire.data cimport Del, Put

@cython.final
cdef class Sample:
    cdef readonly object key_expr
    cdef object _payload
    cdef bint is_put
    cdef object _encoding
    cdef object _timestamp
    cdef unsigned long long ntp64
    cdef bytes clock
    cdef int qos
    cdef object _attachment
    cdef readonly object source_info
    cdef readonly object timestamp_stack

@cython.final
cdef class Keys:
    cdef dict known
    cpdef valid(self, bytes utf8)

@cython.final
cdef class Samples(Listener):
    cdef object push
    cdef Channel channel
    cdef Keys keys
    cdef object stamper

cdef bytes clock_of(Blob id)
cpdef ZBytes payload_of(Blob blob)
cpdef Sample sample_of(key_expr, Put put, Del delete, bint is_put, int qos, stack)
