cimport cython

cdef void pack(const unsigned char[::1] flags, Py_ssize_t count, unsigned char[::1] bits) noexcept nogil

cdef class Column:
    cdef object type
    cdef readonly bint on
    cdef Py_ssize_t rows
    cdef Py_ssize_t dense
    cdef Py_ssize_t marks
    cdef unsigned char[::1] valid
    cdef int reset(self) except -1

@cython.final
cdef class Long(Column):
    cdef object buffer
    cdef long long[::1] data
    cdef void put(self, Py_ssize_t row, long long value) noexcept nogil

@cython.final
cdef class Int(Column):
    cdef object buffer
    cdef int[::1] data
    cdef void put(self, Py_ssize_t row, int value) noexcept nogil

@cython.final
cdef class Byte(Column):
    cdef unsigned char[::1] data
    cdef void put(self, Py_ssize_t row, int value) noexcept nogil

@cython.final
cdef class Text(Column):
    cdef object offsets_buffer
    cdef int[::1] offsets
    cdef object buffer
    cdef unsigned char[::1] view
    cdef unsigned char* data
    cdef int keep(self, buffer, view) except -1
    cdef Py_ssize_t room
    cdef readonly Py_ssize_t used
    cdef Py_ssize_t told
    cdef int grow(self, Py_ssize_t room) except -1 with gil
    cdef void begin(self, Py_ssize_t row) noexcept nogil
    cdef int add(self, const unsigned char* source, Py_ssize_t at, Py_ssize_t size) except -1 nogil
    cdef int add_byte(self, int value) except -1 nogil
    cdef void end(self, Py_ssize_t row) noexcept nogil
    cdef int put(self, Py_ssize_t row, const unsigned char* source, Py_ssize_t at, Py_ssize_t size) except -1 nogil
    cpdef put_value(self, Py_ssize_t row, value)
