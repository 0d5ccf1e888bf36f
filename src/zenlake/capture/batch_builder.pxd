# SPDX-License-Identifier: Apache-2.0
from zenlake.columns.buffer_pool cimport Pool

cdef class BatchBuilder:
    cdef list ready
    cdef Py_ssize_t ready_count, count
    cdef Py_ssize_t max_rows, max_bytes, used
    cdef long long held, max_held
    cdef bint unordered
    cdef long long last_packet
    cdef int last_file
    cdef list memory
    cdef Pool pool
    cdef long long* received
    cdef long long* packet
    cdef int* face
    cdef int* offset
    cdef int* wire_size
    cdef int* file
    cdef signed char* direction
    cdef unsigned char* compressed
    cdef unsigned char* data

    cdef int append(
        self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int face, int direction, Py_ssize_t wire_size,
        bint compressed, long long received, long long packet, int file
    ) except -1 nogil
    cdef int allocate(self) except -1
    cdef unsigned char* column_address(self, Py_ssize_t i) except NULL
    cdef object column_buffer(self, Py_ssize_t i, Py_ssize_t size)
    cpdef int flush(self) except -1
