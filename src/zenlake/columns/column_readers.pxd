cimport cython
from zenlake.wire.cursor cimport Blob

@cython.final
cdef class BytesReader:
    cdef readonly bint on
    cdef Py_ssize_t first
    cdef bint has_bits
    cdef const unsigned char[::1] bits
    cdef const int[::1] offsets
    cdef const unsigned char[::1] data
    cdef void bind_row(self, Py_ssize_t row, Blob blob) noexcept nogil

@cython.final
cdef class IntReader:
    cdef readonly bint on
    cdef long long default
    cdef const long long[::1] values
    cdef long long get(self, Py_ssize_t row) noexcept nogil

@cython.final
cdef class EnumReader:
    cdef readonly bint on
    cdef long long default
    cdef long long[::1] numbers
    cdef const int[::1] codes
    cdef long long get(self, Py_ssize_t row) noexcept nogil
