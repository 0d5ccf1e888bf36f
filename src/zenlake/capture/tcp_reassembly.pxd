# SPDX-License-Identifier: Apache-2.0
from zenlake.capture.batch_framing cimport BatchStream

cdef class TcpDirection:
    cdef readonly BatchStream stream
    cdef readonly object flow
    cdef readonly int side
    cdef public long long received, packet
    cdef public int file
    cdef public unsigned int first, expected, acknowledged
    cdef public bint is_started, has_acknowledged, closed
    cdef long long position, gap_since
    cdef list held
    cdef Py_ssize_t held_size

    cdef int set_packet(self) noexcept nogil
    cdef int segment(
        self, unsigned int seq, const unsigned char* p, Py_ssize_t at, Py_ssize_t end, Py_ssize_t missing, bint duplicate
    ) except -1 nogil
    cdef int datagram(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1 nogil
    cdef int deliver(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end, Py_ssize_t missing) except -1 nogil
    cdef int receive_early(
        self, long long ahead, const unsigned char* p, Py_ssize_t at, Py_ssize_t end, Py_ssize_t missing, bint duplicate
    ) except -1
    cdef int receive_late(
        self, long long behind, const unsigned char* p, Py_ssize_t at, Py_ssize_t end, Py_ssize_t missing, bint duplicate
    ) except -1
    cpdef int begin(self, unsigned int seq) except -1
    cpdef int drain(self) except -1
    cpdef int skip_gap(self) except -1
    cpdef int note(self, str kind, Py_ssize_t size) except -1
    cpdef int finish(self) except -1
    cpdef tuple save(self)
    cpdef int restore(self, tuple saved) except -1
