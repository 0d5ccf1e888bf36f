cimport cython

cdef class Field:
    cdef int bind(self, const unsigned char[::1] buf) except -1

@cython.final
cdef class Blob(Field):
    cdef const unsigned char[::1] buf
    cdef const unsigned char* data
    cdef public Py_ssize_t at
    cdef public Py_ssize_t size
    cpdef set(self, data)
    cdef int point(self, const unsigned char[::1] buf) except -1
    cdef void clear(self) noexcept nogil
    cdef bint inside(self) noexcept nogil
    cdef int check(self) except -1

@cython.final
cdef class Cursor:
    cdef const unsigned char[::1] buf
    cdef const unsigned char* data
    cdef readonly Py_ssize_t at
    cdef readonly Py_ssize_t end
    cdef const char* message
    cdef object named
    cdef readonly bint tracing
    cdef readonly list steps

    cdef int point(self, const unsigned char[::1] buf) except -1
    cpdef Cursor trace(self)
    cpdef Blob span(self)
    cdef int step(self, const char* field, const char* kind, Py_ssize_t start) except -1 with gil
    cdef int was(self, const char* kind) except -1 with gil
    cdef int fail(self, const char* field, Py_ssize_t at, const char* why) except -1 with gil
    cdef int short(self, const char* field, Py_ssize_t at, Py_ssize_t need) except -1 with gil
    cdef int too_large(self, const char* field, Py_ssize_t at, unsigned long long value,
                       unsigned long long most) except -1 with gil
    cdef int declared(self, const char* field, Py_ssize_t at, unsigned long long size) except -1 with gil

    cdef int nowhere(self, const char* field) except -1 with gil

    cpdef int u8(self, const char* field) except -1 nogil
    cpdef int u16(self, const char* field) except -1 nogil
    cpdef unsigned long long z64(self, const char* field) except? 0xFFFFFFFFFFFFFFFF nogil
    cdef unsigned long long long_z64(self, const char* field) except? 0xFFFFFFFFFFFFFFFF nogil
    cpdef unsigned long long z(self, const char* field, unsigned long long most) except? 0xFFFFFFFFFFFFFFFF nogil
    cpdef unsigned long long z8(self, const char* field) except? 0xFFFFFFFFFFFFFFFF nogil
    cpdef unsigned long long z16(self, const char* field) except? 0xFFFFFFFFFFFFFFFF nogil
    cpdef unsigned long long z32(self, const char* field) except? 0xFFFFFFFFFFFFFFFF nogil
    cpdef int run(self, const char* field, Blob out, Py_ssize_t size) except -1 nogil
    cpdef int rest(self, const char* field, Blob out) except -1 nogil
    cpdef int blob(self, const char* field, Blob out) except -1 nogil
    cpdef int short_blob(self, const char* field, Blob out, Py_ssize_t most) except -1 nogil
    cpdef int text(self, const char* field, Blob out, Py_ssize_t most) except -1 nogil
    cdef int utf8(self, const char* field, Blob out) except -1 nogil
    cpdef int zid(self, const char* field, Blob out, Py_ssize_t size) except -1 nogil
    cpdef int ext(self, const char* field) except -1 nogil
    cpdef Py_ssize_t open(self, const char* field) except -1 nogil
    cpdef int close(self, const char* field, Py_ssize_t outer) except -1 nogil
    cpdef int unknown(self, const char* field, int header) except -1 nogil
    cpdef int skip(self, const char* field, int header) except -1 nogil
