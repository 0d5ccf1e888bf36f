# SPDX-License-Identifier: Apache-2.0
from zenlake.wire.batch_reader cimport BatchReader

cdef class ProtocolDetector:
    cdef BatchReader reader
    cdef bytes data
    cdef const unsigned char* p

    cpdef int set_data(self, bytes data) except -1
    cpdef int score_bytes(self, Py_ssize_t at, Py_ssize_t end, int framing) except -1
    cdef int score_messages(self, int framing) except -1
    cdef int check_chain(self, Py_ssize_t at, Py_ssize_t end, int framing, int enough, Py_ssize_t edge) except -1
    cdef Py_ssize_t find_chain(self, Py_ssize_t at, Py_ssize_t until, Py_ssize_t end, int framing, int enough) except -2
    cdef int features(self) except -1
    cdef int scouting_kind(self) except -1

cdef bint starts_message(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int framing) noexcept nogil
cdef long long sequence_number(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int framing) noexcept nogil
cdef Py_ssize_t lz4_size(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef int score_compressed(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t skip_bytes(Py_ssize_t at, Py_ssize_t end, Py_ssize_t n) noexcept nogil
cdef int detect_tls(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef bint detect_quic(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
