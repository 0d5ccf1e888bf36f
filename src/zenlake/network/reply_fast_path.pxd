# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake.network.forwarding cimport PushListener
from zenlake.session.key_table cimport KeyTable
from zenlake.wire.fields cimport WireExpr
from zenlake.wire.batch_reader cimport BatchReader
from zenlake.wire.writer cimport WireWriter

@cython.final
cdef class ReplyFastPath:
    cdef object get
    cdef PushListener listener
    cdef object acquire
    cdef object release
    cdef public bint is_over
    cdef WireWriter key_buffer
    cdef list full_keys
    cdef list app_keys
    cpdef bint take(self, BatchReader reader, KeyTable remote_keys, KeyTable local_keys) except -1
    cdef bytes key(self, WireExpr wire, KeyTable declared)
