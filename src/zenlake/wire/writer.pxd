cimport cython
from zenlake.wire.cursor cimport Blob, Cursor

cpdef int vle_size(unsigned long long value) noexcept nogil

@cython.final
cdef class WireWriter:
    cdef unsigned char[::1] buf
    cdef unsigned char* data
    cdef readonly Py_ssize_t room
    cdef readonly Py_ssize_t at
    cdef readonly Py_ssize_t chain
    cdef const char* message
    cdef object named
    cdef Cursor walker

    cdef int point(self, buf) except -1
    cpdef void clear(self) noexcept nogil
    cpdef int rewind(self, Py_ssize_t at) except -1
    cpdef bytes to_bytes(self)
    cdef int grow(self, Py_ssize_t room) except -1 with gil
    cdef int need(self, Py_ssize_t size) except -1 nogil
    cdef int fail(self, const char* field, unsigned long long value, unsigned long long most) except -1 with gil
    cdef int refuse(self, const char* field, const char* why) except -1 with gil

    cpdef int u8(self, const char* field, unsigned long long value) except -1 nogil
    cpdef int u16(self, const char* field, unsigned long long value) except -1 nogil
    cpdef int z64(self, const char* field, unsigned long long value) except -1 nogil
    cpdef int z8(self, const char* field, unsigned long long value) except -1 nogil
    cpdef int z16(self, const char* field, unsigned long long value) except -1 nogil
    cpdef int z32(self, const char* field, unsigned long long value) except -1 nogil
    cpdef int run(self, const char* field, Blob data) except -1 nogil
    cpdef int blob(self, const char* field, Blob data) except -1 nogil
    cpdef int short_blob(self, const char* field, Blob data, Py_ssize_t most) except -1 nogil
    cpdef int zid(self, const char* field, Blob data) except -1 nogil
    cpdef int header(self, int value) except -1 nogil
    cpdef int ext(self, int header) except -1 nogil
    cpdef int ext_z64(self, int header, unsigned long long value) except -1 nogil
    cpdef int ext_z(self, int header, unsigned long long value, unsigned long long most) except -1 nogil
    cpdef int ext_blob(self, int header, Blob data) except -1 nogil
    cpdef int ext_size(self, int header, Py_ssize_t size) except -1 nogil
    cdef int copy_unknown(self, Blob chain, unsigned long long low, unsigned long long high) except -1 nogil
