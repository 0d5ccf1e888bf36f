# SPDX-License-Identifier: Apache-2.0
# C signatures of keyexpr.py. The first three are for other modules: ranges [i, n) and [j, m) of canonical UTF-8.
cimport cython

cdef extern from "string.h" nogil:
    const unsigned char* memmem(const void* text, size_t size, const void* part, size_t part_size)

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
cdef bint _search(bint includes, const unsigned char* a, Py_ssize_t i, Py_ssize_t n,
                  const unsigned char* b, Py_ssize_t j, Py_ssize_t m) noexcept with gil
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

cdef Py_ssize_t _find(const unsigned char* a, Py_ssize_t i, Py_ssize_t e,
                      const unsigned char* b, Py_ssize_t j, Py_ssize_t m) noexcept nogil
cdef bytes _copy(const unsigned char* p, Py_ssize_t i, Py_ssize_t n)
cdef unsigned long long* _words(bytearray data) noexcept
cdef dict _places(list chunks)
cdef int _narrow(bytearray candidates, bytearray mask, Py_ssize_t by) noexcept

@cython.final
cdef class Mask:
    cdef bytearray bits
    cdef Py_ssize_t next

@cython.final
cdef class Text:
    cdef bint includes
    cdef bytes utf8
    cdef list chunks
    cdef bint is_literal
    cdef list starts
    cdef dict places
    cdef list all
    cdef list wild
    cdef dict masks
    cdef Py_ssize_t find(self, list piece, Py_ssize_t at) except -2
    cdef list groups(self, list piece)
    cdef bint has(self, list piece, Py_ssize_t at)
    cdef bint relates(self, bytes chunk, bytes other)
    cdef bytearray mask(self, bytes chunk, Py_ssize_t end)

cdef bytes _utf8(object expression)
cdef KeyExpr _expression(object other)

cdef class KeyExpr:
    cdef str _text
    cdef readonly bytes utf8
