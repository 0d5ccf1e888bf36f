cimport cython
from zenlake.wire.raw_memory cimport eight_bytes, join_sevens

# A method with a body is the common case of the method without one, inlined. cursor.py defines it for uncompiled modules.

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
    cdef inline void clear(self) noexcept nogil:
        self.size = -1
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
    cdef int fail_short(self, const char* field, Py_ssize_t at, Py_ssize_t need) except -1 with gil
    cdef int fail_too_large(self, const char* field, Py_ssize_t at, unsigned long long value,
                       unsigned long long most) except -1 with gil
    cdef int fail_size(self, const char* field, Py_ssize_t at, unsigned long long size) except -1 with gil

    cdef int fail_no_blob(self, const char* field) except -1 with gil

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
    cpdef int skip_unknown(self, const char* field, int header) except -1 nogil
    cpdef int skip(self, const char* field, int header) except -1 nogil

    cdef inline int next_u8(self, const char* field) except -1 nogil:
        if self.at < self.end and not self.tracing:
            self.at += 1
            return self.data[self.at - 1]
        return self.u8(field)

    cdef inline unsigned long long next_z(self, const char* field, unsigned long long most) except? 0xFFFFFFFFFFFFFFFF nogil:
        if self.at < self.end and self.data[self.at] < 0x80 and self.data[self.at] <= most and not self.tracing:
            self.at += 1
            return self.data[self.at - 1]
        return self.z(field, most)

    cdef inline unsigned long long next_z64(self, const char* field) except? 0xFFFFFFFFFFFFFFFF nogil:
        if self.at < self.end and self.data[self.at] < 0x80 and not self.tracing:
            self.at += 1
            return self.data[self.at - 1]
        return self.long_z64(field)

    cdef inline unsigned long long next_time(self, const char* field) except? 0xFFFFFFFFFFFFFFFF nogil:
        # A timestamp takes nine bytes until 2106: eight with the continuation bit, then eight raw bits.
        cdef unsigned long long word
        if self.end - self.at >= 9 and not self.tracing:
            word = eight_bytes(self.data, self.at)
            if word & 0x8080808080808080ULL == 0x8080808080808080ULL:
                self.at += 9
                return join_sevens(word) | <unsigned long long>self.data[self.at - 1] << 56
        return self.z64(field)

    cdef inline int next_blob(self, const char* field, Blob out, Py_ssize_t most) except -1 nogil:
        cdef Py_ssize_t size
        if self.at < self.end and not self.tracing:
            size = self.data[self.at]
            if size < 0x80 and size <= most and size < self.end - self.at:
                out.at = self.at + 1
                out.size = size
                self.at += 1 + size
                return 0
        return self.short_blob(field, out, most)

    cdef inline int next_zid(self, const char* field, Blob out, Py_ssize_t size) except -1 nogil:
        if 1 <= size <= 16 and size <= self.end - self.at and self.data[self.at] != 0 and not self.tracing:
            out.at = self.at
            out.size = size
            self.at += size
            return 0
        return self.zid(field, out, size)

    cdef inline int next_ext(self, const char* field) except -1 nogil:
        if self.at < self.end and self.data[self.at] & 0x60 != 0x60 and not self.tracing:
            self.at += 1
            return self.data[self.at - 1]
        return self.ext(field)

    cdef inline Py_ssize_t next_open(self, const char* field) except -1 nogil:
        cdef Py_ssize_t outer = self.end
        if self.at < outer and not self.tracing and self.data[self.at] < 0x80 and self.data[self.at] < outer - self.at:
            self.end = self.at + 1 + self.data[self.at]
            self.at += 1
            return outer
        return self.open(field)

    cdef inline int next_close(self, const char* field, Py_ssize_t outer) except -1 nogil:
        if self.at == self.end and self.end <= outer <= self.buf.shape[0]:
            self.end = outer
            return 0
        return self.close(field, outer)
