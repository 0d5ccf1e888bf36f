# SPDX-License-Identifier: Apache-2.0
cdef class CaptureFile:
    cdef object stream, pieces
    cdef bint is_mine
    cdef int number
    cdef Py_ssize_t size

cdef class Packets:
    cdef const unsigned char* p
    cdef CaptureFile source
    cdef object owner, memory
    cdef Py_ssize_t first, at, end, room
    cdef int container
    cdef bint big
    cdef long long* interfaces
    cdef Py_ssize_t interface_count
    cdef bytearray interface_memory
    cdef dict drops
    cdef long long reported_drops
    cdef readonly str trouble
    cdef readonly long long number, received
    cdef Py_ssize_t data, data_end, missing
    cdef int link

    cpdef bint more(self) except -1
    cdef bint slide(self) noexcept nogil
    cpdef int feed(self, buffer) except -1
    cdef int see(self, buffer, Py_ssize_t first, Py_ssize_t size) except -1
    cpdef int finish(self) except -1
    cpdef bint peek(self) except -1
    cdef int next(self) except -1 nogil
    cdef int open(self) except -1
    cdef int next_pcap(self) except -1 nogil
    cdef int next_pcapng(self) except -1 nogil
    cdef int packet(
        self, long long interface, unsigned long long ticks, Py_ssize_t at, Py_ssize_t size, Py_ssize_t original
    ) noexcept nogil
    cdef int section(self, Py_ssize_t at) except -1
    cdef int describe(self, Py_ssize_t at, Py_ssize_t end) except -1
    cdef int locate(self) except -1
    cdef Packets ahead(self)
    cpdef tuple place(self)
    cpdef int resume(self, tuple place) except -1
    cdef int add_interface(self, long long link, int resolution, long long offset, long long snaplen) except -1
    cdef int statistics(self, Py_ssize_t at, Py_ssize_t end) except -1
    cdef list options(self, Py_ssize_t at, Py_ssize_t end)
    cdef int stop(self, str why) except -1

cdef unsigned int u16(const unsigned char* p, Py_ssize_t at, bint big) noexcept nogil
cdef unsigned int u32(const unsigned char* p, Py_ssize_t at, bint big) noexcept nogil
