cimport cython
from zenlake.columns.array_builders cimport TextBuilder
from zenlake.columns.row_staging cimport Spans, SpanStaging

cdef enum:
    SLOTS = 1024
    SLOT = 50
    TEXT = 16
    RAW_SIZE = 48
    TEXT_SIZE = 49

@cython.final
cdef class EnumText:
    cdef readonly int count
    cdef bytes text
    cdef const unsigned char* data
    cdef int[::1] ends
    cdef int put(self, TextBuilder column, Py_ssize_t row, int number) except -1 nogil
    cdef int fill(self, TextBuilder column, Py_ssize_t first, Py_ssize_t last, int number) except -1 nogil

@cython.final
cdef class EncodingText:
    cdef EnumText names
    cdef TextBuilder column
    cdef TextBuilder schemas
    cdef Py_ssize_t size
    cdef unsigned char[::1] memory
    cdef unsigned char* text
    cdef int gather(self, Py_ssize_t first, const long long* ids, SpanStaging schemas, Py_ssize_t count,
                    const unsigned char* data) except -1 nogil
    cdef int append_text(self, unsigned int id, Py_ssize_t at, Py_ssize_t size, const unsigned char* data) except -1 nogil
    cdef int format_unknown(self, unsigned int id) except -1 with gil

@cython.final
cdef class ZenohIdText:
    cdef TextBuilder column
    cdef Spans spans
    cdef SpanStaging formatted
    cdef unsigned char[::1] memory
    cdef unsigned char* data
    cdef int gather(self, Py_ssize_t first, SpanStaging nodes, Py_ssize_t count, const unsigned char* data) except -1 nogil
    cdef int put_formatted(self, Py_ssize_t first, Py_ssize_t row, Py_ssize_t last) except -1 nogil
    cdef void append_text(self, Py_ssize_t slot, const unsigned char* data, Py_ssize_t at, Py_ssize_t size) noexcept nogil

cdef int hex_digit(int value) noexcept nogil
