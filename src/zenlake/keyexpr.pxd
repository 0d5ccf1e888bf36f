# SPDX-License-Identifier: Apache-2.0
# C signatures of keyexpr.py. The first three are for other chapters: ranges [i, n) and [j, m) of canonical UTF-8.

cdef bint c_intersects(const unsigned char* a, Py_ssize_t i, Py_ssize_t n,
                       const unsigned char* b, Py_ssize_t j, Py_ssize_t m) noexcept nogil
cdef bint c_includes(const unsigned char* a, Py_ssize_t i, Py_ssize_t n,
                     const unsigned char* b, Py_ssize_t j, Py_ssize_t m) noexcept nogil
cdef int c_scan(const unsigned char* p, Py_ssize_t i, Py_ssize_t n) noexcept nogil

cdef bint _relates(bint includes, const unsigned char* a, Py_ssize_t i, Py_ssize_t n,
                   const unsigned char* b, Py_ssize_t j, Py_ssize_t m) noexcept nogil
cdef bint _run_relates(bint includes, const unsigned char* a, Py_ssize_t i, Py_ssize_t n,
                       const unsigned char* b, Py_ssize_t j, Py_ssize_t m) noexcept nogil
cdef bint _chunks_fit(bint includes, const unsigned char* a, Py_ssize_t i, Py_ssize_t n,
                      const unsigned char* b, Py_ssize_t j, Py_ssize_t m) noexcept nogil
cdef bint _chunk_relates(bint includes, const unsigned char* a, Py_ssize_t i, Py_ssize_t n,
                         const unsigned char* b, Py_ssize_t j, Py_ssize_t m) noexcept nogil
cdef bint _bytes_fit(const unsigned char* a, Py_ssize_t i, Py_ssize_t n,
                     const unsigned char* b, Py_ssize_t j, Py_ssize_t m) noexcept nogil
cdef Py_ssize_t _end(const unsigned char* p, Py_ssize_t i, Py_ssize_t n) noexcept nogil
cdef Py_ssize_t _last(const unsigned char* p, Py_ssize_t i, Py_ssize_t n) noexcept nogil
cdef Py_ssize_t _verbatim(const unsigned char* p, Py_ssize_t i, Py_ssize_t n) noexcept nogil
cdef bint _is_double(const unsigned char* p, Py_ssize_t i, Py_ssize_t n) noexcept nogil
cdef bint _has_double(const unsigned char* p, Py_ssize_t i, Py_ssize_t n) noexcept nogil
cdef bint _has_dollar(const unsigned char* p, Py_ssize_t i, Py_ssize_t n) noexcept nogil

cdef bytes _utf8(object expression)
cdef KeyExpr _expression(object other)

cdef class KeyExpr:
    cdef str _text
    cdef readonly bytes utf8
