# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake.columns.table_builders cimport RowPosition
from zenlake.columns.samples_builder cimport SamplesBuilder
from zenlake.session.key_table cimport KeyTable
from zenlake.wire.batch_reader cimport BatchReader

@cython.final
cdef class LiveSamples:
    cdef SamplesBuilder samples
    cdef RowPosition position
    cdef KeyTable keys
    cdef dict numbers
    cdef long long[::1] ids
    cdef int[::1] key_numbers
    cdef Py_ssize_t rows
    cdef Py_ssize_t size
    cdef unsigned char[::1] buffer
    cdef unsigned char* data
    cdef Py_ssize_t used
    cdef Py_ssize_t key_bytes
    cdef Py_ssize_t last
    cdef Py_ssize_t first
    cdef bint in_place
    cpdef bint add_push(self, bytes key, BatchReader reader, long long received_ns) except -1
    cpdef bint add_reply(self, bytes key, BatchReader reader, long long received_ns) except -1
    cdef int begin(self, bytes key, BatchReader reader, long long received_ns) except -1
    cdef bint end(self, BatchReader reader) except -1
    cdef Py_ssize_t stage_run(self, BatchReader reader, Py_ssize_t size, long long received_ns) except -1
    cdef long long id_at(self, Py_ssize_t i) noexcept
    cdef Py_ssize_t resolve_keys(self, Py_ssize_t first, Py_ssize_t last) noexcept
    cdef int set_key(self, long long id, bytes key) except -1
    cdef void forget_ids(self) noexcept
    cdef bint has_room(self) noexcept
    cdef bint end_run(self, BatchReader reader, Py_ssize_t count) except -1
    cdef int fill_shared(self, BatchReader reader, long long received_ns) except -1
    cdef int key_number(self, bytes key) except -1
    cdef bint is_full(self) noexcept
    cdef int gather(self) except -1
