# SPDX-License-Identifier: Apache-2.0
cdef class CaptureFile:
    cdef object stream, chunks
    cdef bint owns_descriptor
    cdef int number
    cdef Py_ssize_t size

cdef class Packets:
    cdef const unsigned char* p
    cdef CaptureFile source
    cdef object owner, memory
    cdef Py_ssize_t first, at, end, capacity
    cdef int container
    cdef bint is_big_endian
    cdef long long* interfaces
    cdef Py_ssize_t interface_count
    cdef bytearray interface_memory
    cdef dict drops
    cdef long long reported_drops
    cdef readonly str error
    cdef readonly long long number, received
    cdef Py_ssize_t data, data_end, missing
    cdef int link

    cpdef bint read_window(self) except -1
    cdef bint refill(self) noexcept nogil
    cpdef int feed(self, buffer) except -1
    cdef int set_window(self, buffer, Py_ssize_t first, Py_ssize_t size) except -1
    cpdef int finish(self) except -1
    cpdef bint peek(self) except -1
    cdef int next(self) except -1 nogil
    cdef int parse_header(self) except -1
    cdef int next_pcap(self) except -1 nogil
    cdef int next_pcapng(self) except -1 nogil
    cdef int packet(
        self, long long interface, unsigned long long ticks, Py_ssize_t at, Py_ssize_t size, Py_ssize_t original
    ) noexcept nogil
    cdef int parse_section(self, Py_ssize_t at) except -1
    cdef int parse_interface(self, Py_ssize_t at, Py_ssize_t end) except -1
    cdef int bind_interfaces(self) except -1
    cdef Packets open_lookahead(self)
    cpdef tuple position(self)
    cpdef int seek(self, tuple place) except -1
    cdef int add_interface(self, long long link, int resolution, long long offset, long long snaplen) except -1
    cdef int parse_statistics(self, Py_ssize_t at, Py_ssize_t end) except -1
    cdef list parse_options(self, Py_ssize_t at, Py_ssize_t end)
    cdef int fail(self, str why) except -1

cdef unsigned int u16(const unsigned char* p, Py_ssize_t at, bint is_big_endian) noexcept nogil
cdef unsigned int u32(const unsigned char* p, Py_ssize_t at, bint is_big_endian) noexcept nogil
