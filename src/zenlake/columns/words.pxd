cimport cython
from zenlake.columns.buffers cimport Text
from zenlake.wire.cursor cimport Blob

@cython.final
cdef class Words:
    cdef readonly int count
    cdef bytes text
    cdef const unsigned char* data
    cdef int[::1] ends
    cdef int put(self, Text column, Py_ssize_t row, int number) except -1 nogil

@cython.final
cdef class Encodings:
    cdef Words names
    cdef int put(self, Text column, Py_ssize_t row, unsigned int id, Blob schema,
                 const unsigned char* data) except -1 nogil
    cdef int spell(self, Text column, unsigned int id) except -1 with gil

@cython.final
cdef class Ids:
    cdef unsigned char[::1] memory
    cdef unsigned char* data
    cdef unsigned char[::1] raw_size
    cdef unsigned char[::1] text_size
    cdef int put(self, Text column, Py_ssize_t row, Blob id, const unsigned char* data) except -1 nogil
    cdef void spell(self, int slot, Blob id, const unsigned char* data) noexcept nogil

cdef int hex_digit(int value) noexcept nogil
