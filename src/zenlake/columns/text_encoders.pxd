cimport cython
from zenlake.columns.array_builders cimport Text
from zenlake.columns.row_staging cimport Runs, Spans

cdef enum:
    SLOTS = 1024
    SLOT = 50
    TEXT = 16
    RAW_SIZE = 48
    TEXT_SIZE = 49

@cython.final
cdef class Words:
    cdef readonly int count
    cdef bytes text
    cdef const unsigned char* data
    cdef int[::1] ends
    cdef int put(self, Text column, Py_ssize_t row, int number) except -1 nogil
    cdef int fill(self, Text column, Py_ssize_t first, Py_ssize_t last, int number) except -1 nogil

@cython.final
cdef class Encodings:
    cdef Words names
    cdef Text column
    cdef Text schemas
    cdef Py_ssize_t size
    cdef unsigned char[::1] memory
    cdef unsigned char* text
    cdef int gather(self, Py_ssize_t first, const long long* ids, Spans schemas, Py_ssize_t count,
                    const unsigned char* data) except -1 nogil
    cdef int spell(self, unsigned int id, Py_ssize_t at, Py_ssize_t size, const unsigned char* data) except -1 nogil
    cdef int spell_unknown(self, unsigned int id) except -1 with gil

@cython.final
cdef class Nodes:
    cdef Text column
    cdef Runs runs
    cdef Spans spelled
    cdef unsigned char[::1] memory
    cdef unsigned char* data
    cdef int gather(self, Py_ssize_t first, Spans nodes, Py_ssize_t count, const unsigned char* data) except -1 nogil
    cdef int put_spelled(self, Py_ssize_t first, Py_ssize_t row, Py_ssize_t last) except -1 nogil
    cdef void spell(self, Py_ssize_t slot, const unsigned char* data, Py_ssize_t at, Py_ssize_t size) noexcept nogil

cdef int hex_digit(int value) noexcept nogil
