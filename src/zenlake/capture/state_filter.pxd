# SPDX-License-Identifier: Apache-2.0
from zenlake.capture.batch_builder cimport BatchBuilder

cdef Py_ssize_t frame_header(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t end_of_push(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef bint changes_nothing(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t push_frame_header_size(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cpdef Py_ssize_t dependent_bytes(bytes batch) except -1

cdef class StateFilter(BatchBuilder):
    cdef BatchBuilder all_rows
    cdef Py_ssize_t max_all_rows
    cdef int run, run_face, run_direction, run_lane
    cdef long long run_number

    cpdef int stop_collecting(self) except -1

    cdef int append(
        self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int face, int direction, Py_ssize_t wire_size,
        bint compressed, long long received, long long packet, int file
    ) except -1 nogil
