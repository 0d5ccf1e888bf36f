# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake.network.forwarding cimport Listener
from zenlake.session.key_table cimport KeyTable
from zenlake.wire.fields cimport WireExpr
from zenlake.wire.batch_reader cimport Reader
from zenlake.wire.writer cimport Writer

@cython.final
cdef class Answers:
    cdef object get
    cdef Listener listener
    cdef object acquire
    cdef object release
    cdef public bint over
    cdef Writer spelled
    cdef list whole
    cdef list own
    cpdef bint take(self, Reader reader, KeyTable theirs, KeyTable mine) except -1
    cdef bytes key(self, WireExpr wire, KeyTable declared)
