# SPDX-License-Identifier: Apache-2.0
cdef void* address(buffer) except NULL

cdef class Rows:
    cdef list ready
    cdef Py_ssize_t finished, count
    cdef Py_ssize_t most_rows, most_bytes, used
    cdef long long held, most_held
    cdef bint unordered
    cdef long long last_packet
    cdef int last_file
    cdef list memory
    cdef object loan
    cdef list back
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
    cdef int renew(self) except -1
    cpdef int flush(self) except -1
