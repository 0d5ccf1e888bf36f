# SPDX-License-Identifier: Apache-2.0
cdef Py_ssize_t z(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t sn(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t skip(Py_ssize_t at, Py_ssize_t end, Py_ssize_t n) noexcept nogil
cdef Py_ssize_t blob(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t ext(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t exts(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int more) noexcept nogil
cdef Py_ssize_t key(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int h) noexcept nogil
cdef Py_ssize_t value(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t declaration(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t network(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t identity(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t transport(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t lz4_size(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef int weigh_packed(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef int weigh(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int framing) noexcept nogil
cdef long long number(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int framing) noexcept nogil
cdef bint begins(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int framing) noexcept nogil
cdef int chain(
    const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int framing, int enough, Py_ssize_t edge
) noexcept nogil
cdef Py_ssize_t find(
    const unsigned char* p, Py_ssize_t at, Py_ssize_t until, Py_ssize_t end, int framing, int enough
) noexcept nogil
cdef int features(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef bint scouting(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef int tls(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef bint quic(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
