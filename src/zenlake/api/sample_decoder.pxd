# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake.api.channel cimport Channel, LazyItems
from zenlake.network.forwarding cimport RxDispatcher, PushListener
from zenlake.wire.batch_reader cimport BatchReader
from zenlake.wire.push_scan cimport PushFields

cdef enum:
    MIN_RUN = 4  # minimum number of messages of a run: it is faster to decode fewer one by one
    MAX_RUN = 256
    SHORTEST = 8  # minimum bytes of a message: fewer than MIN_RUN times as many bytes are not scanned

@cython.final
cdef class LazySamples(LazyItems):
    cdef bytes kept
    cdef const unsigned char* data
    cdef object scans
    cdef PushFields* push
    cdef Py_ssize_t index
    cdef Py_ssize_t at
    cdef dict names
    cdef int id
    cdef object key_expr

@cython.final
cdef class KeyExprCache:
    cdef dict known
    cpdef valid(self, bytes utf8)

@cython.final
cdef class SampleListener(PushListener):
    cdef object push
    cdef Channel channel
    cdef KeyExprCache keys
    cdef object stamper
    cdef RxDispatcher dispatcher
    cdef unsigned long long epoch
    cdef dict names
    cdef bint is_named(self, int scope) except -1
