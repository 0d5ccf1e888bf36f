cdef bytes take(const unsigned char* data, Py_ssize_t at, Py_ssize_t size)
cdef void copy(unsigned char* target, Py_ssize_t to, const unsigned char* source, Py_ssize_t at,
               Py_ssize_t size) noexcept nogil
cdef bint same(const unsigned char* one, Py_ssize_t at, const unsigned char* other, Py_ssize_t to,
               Py_ssize_t size) noexcept nogil
cdef Py_ssize_t utf8_fault(const unsigned char* data, Py_ssize_t at, Py_ssize_t size) except -2 nogil
cdef Py_ssize_t decoder_fault(const unsigned char* data, Py_ssize_t at, Py_ssize_t size) except -2 with gil
cdef bint nine_bytes(const unsigned char* data, Py_ssize_t at) noexcept nogil
cdef unsigned long long packed_bits(const unsigned char* data, Py_ssize_t at) noexcept nogil
