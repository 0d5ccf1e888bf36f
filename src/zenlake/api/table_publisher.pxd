# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake.columns.encoder cimport Encoder
from zenlake.columns.column_readers cimport EnumReader
from zenlake.network.prepared_put cimport PreparedPush
from zenlake.transport.queue_handle cimport QueueHandle
from zenlake.wire.cursor cimport Blob
from zenlake.wire.network cimport Push

@cython.final
cdef class TablePublisher:
    cdef object node
    cdef bint local
    cdef bint remote
    cdef Encoder encoder
    cdef Push push
    cdef list routes
    cdef list keys
    cdef object single_handle
    cdef Blob payload
    cdef object encoding
    cdef dict messages
    cdef bint is_plain
    cdef Py_ssize_t run(self, Py_ssize_t first, Py_ssize_t end, EnumReader codes, bint one) except -1
    cdef Py_ssize_t run_anywhere(self, Py_ssize_t first, Py_ssize_t end, EnumReader codes, bint one) except -1
    cdef Py_ssize_t run_plain(self, QueueHandle handle, Py_ssize_t first, Py_ssize_t end, EnumReader codes, bint one) except -1
    cdef PreparedPush find_message(self, Py_ssize_t code, int qos)
