cimport cython
from zenlake.columns.buffers cimport Text
from zenlake.wire.cursor cimport Blob
from zenlake.wire.memory cimport same

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
    cdef bint on
    cdef Py_ssize_t first
    cdef unsigned int id
    cdef Py_ssize_t schema_size
    cdef Py_ssize_t size
    cdef unsigned char[::1] memory
    cdef unsigned char* text
    cdef int change(self, Py_ssize_t row, unsigned int id, Blob schema, const unsigned char* data) except -1 nogil
    cdef int end(self, Py_ssize_t row) except -1 nogil
    cdef inline int put(self, Py_ssize_t row, unsigned int id, Blob schema, const unsigned char* data) except -1 nogil:
        if self.first >= 0 and id == self.id and schema.size == self.schema_size:
            if schema.size <= 0 or same(self.text, 0, data, schema.at, schema.size):
                return 0
        return self.change(row, id, schema, data) if self.on else 0
    cdef inline int stop(self, Py_ssize_t row) except -1 nogil:
        return self.end(row) if self.first >= 0 else 0
    cdef int spell(self, unsigned int id, Blob schema, const unsigned char* data) except -1 nogil
    cdef int spell_unknown(self, unsigned int id) except -1 with gil

@cython.final
cdef class Nodes:
    cdef Text column
    cdef bint on
    cdef Py_ssize_t first
    cdef Py_ssize_t slot
    cdef unsigned char[::1] memory
    cdef unsigned char* data
    cdef int change(self, Py_ssize_t row, Blob id, const unsigned char* data) except -1 nogil
    cdef int end(self, Py_ssize_t row) except -1 nogil
    cdef void spell(self, Blob id, const unsigned char* data) noexcept nogil
    cdef inline bint holds(self, Py_ssize_t slot, Blob id, const unsigned char* data) noexcept nogil:
        return self.data[slot + 48] == id.size and same(self.data, slot, data, id.at, id.size)
    cdef inline int put(self, Py_ssize_t row, Blob id, const unsigned char* data) except -1 nogil:
        if self.first >= 0 and self.holds(self.slot, id, data):
            return 0
        return self.change(row, id, data) if self.on else 0
    cdef inline int stop(self, Py_ssize_t row) except -1 nogil:
        return self.end(row) if self.first >= 0 else 0

cdef int hex_digit(int value) noexcept nogil
