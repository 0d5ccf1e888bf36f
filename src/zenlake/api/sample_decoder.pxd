# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake.api.channel cimport Channel, LazyItems
from zenlake.network.forwarding cimport RxDispatcher, PushListener
from zenlake.wire.batch_reader cimport BatchReader

cdef enum:
    QOS = 0x21  # the header of the extension, if it is the last
    DEFAULT_QOS = 0x05
    MAY_BLOCK = 0x28  # the bits of "block" and "block first"
    MAX_KEY_ID = 0xFFFF
    # Readable bytes from the start of a message: no common message has more before its payload
    LOOKAHEAD = 48
    MIN_RUN = 4  # minimum number of messages of a run: fewer are faster to decode one by one
    NOT_COMMON = -1  # instead of an offset: not a common message

@cython.final
cdef class PushView:
    cdef int scope
    cdef int qos
    cdef Py_ssize_t clock_at
    cdef Py_ssize_t clock_size
    cdef int encoding
    cdef Py_ssize_t payload_at
    cdef Py_ssize_t payload_size
    cdef Py_ssize_t read(self, const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    cdef unsigned long long time(self, const unsigned char* data) noexcept nogil

@cython.final
cdef class LazySamples(LazyItems):
    cdef bytes kept
    cdef const unsigned char* data
    cdef Py_ssize_t at
    cdef PushView plain
    cdef dict names
    cdef int scope
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
    cdef PushView plain
    cdef RxDispatcher dispatcher
    cdef unsigned long long epoch
    cdef dict names
    cdef bint is_named(self, int scope) except -1
