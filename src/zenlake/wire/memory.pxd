cdef bytes take(const unsigned char[::1] buf, Py_ssize_t at, Py_ssize_t size)
cdef void copy(unsigned char[::1] target, Py_ssize_t to, const unsigned char[::1] source, Py_ssize_t at,
               Py_ssize_t size) noexcept nogil
cdef bint same(const unsigned char[::1] one, Py_ssize_t at, const unsigned char[::1] other, Py_ssize_t to,
               Py_ssize_t size) noexcept nogil
cdef Py_ssize_t utf8_fault(const unsigned char[::1] buf, Py_ssize_t at, Py_ssize_t size) except -2 nogil
cdef Py_ssize_t decoder_fault(const unsigned char[::1] buf, Py_ssize_t at, Py_ssize_t size) except -2 with gil
