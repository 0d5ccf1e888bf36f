cimport cython
from zenlake.wire.cursor cimport Blob

@cython.final
cdef class Numbers:
    cdef long long[::1] view
    cdef long long* data

@cython.final
cdef class Spans:
    cdef Numbers begins
    cdef Numbers sizes
    cdef long long* at
    cdef long long* size
    cdef Py_ssize_t present(self, Py_ssize_t count) noexcept nogil
    cdef inline void note(self, Py_ssize_t row, Blob run) noexcept nogil:
        self.at[row] = run.at
        self.size[row] = run.size
    cdef inline void skip(self, Py_ssize_t row) noexcept nogil:
        self.size[row] = -1
    cdef inline void move(self, Py_ssize_t row, Py_ssize_t by) noexcept nogil:
        self.at[row] += by
