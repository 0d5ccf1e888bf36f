# SPDX-License-Identifier: Apache-2.0
cdef class Headers:
    cdef Py_ssize_t at, end, missing
    cdef unsigned long long src_hi, src_lo, dst_hi, dst_lo, ports
    cdef unsigned int seq, ack, id, offset
    cdef int flags, protocol
    cdef bint more

    cdef int read(
        self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end, Py_ssize_t missing, int link
    ) noexcept nogil
    cdef int ip(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end, Py_ssize_t missing) noexcept nogil
    cdef int ipv4(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end, Py_ssize_t missing) noexcept nogil
    cdef int ipv6(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end, Py_ssize_t missing) noexcept nogil
    cdef int transport(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end, Py_ssize_t missing) noexcept nogil

cdef unsigned int u16(const unsigned char* p, Py_ssize_t at) noexcept nogil
cdef unsigned int u32(const unsigned char* p, Py_ssize_t at) noexcept nogil
cdef unsigned long long u64(const unsigned char* p, Py_ssize_t at) noexcept nogil
