# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake.api.channel cimport Channel
from zenlake.columns.live_samples cimport LiveSamples
from zenlake.network.forwarding cimport RxDispatcher, PushListener
from zenlake._compat.rlock cimport FastRLock
from zenlake.wire.batch_reader cimport BatchReader

@cython.final
cdef class ArrowListener(PushListener):
    cdef LiveSamples samples
    cdef Channel channel
    cdef FastRLock lock
    cdef double age
    cdef bint replies
    cdef readonly list errors
    cdef unsigned long long generation
    cdef public object source
    cdef unsigned long long sn
    cdef long long received_ns
    cdef bint busy
    cdef list later
    cdef RxDispatcher dispatcher
    cdef unsigned long long epoch
    cdef bint steady
    cdef int add(self, bytes key, BatchReader reader) except -1
    cdef Py_ssize_t add_run(self, RxDispatcher dispatcher, BatchReader reader) except -1
    cdef Py_ssize_t name_run(self, RxDispatcher dispatcher, Py_ssize_t count) except -1
    cdef bint check_clock(self, BatchReader reader) except -1
    cdef int defer(self, bytes key, BatchReader reader) except -1
    cdef int catch_up(self) except -1
    cdef int deliver_batch(self) except -1
