# SPDX-License-Identifier: Apache-2.0
from zenlake.capture.resync_buffer cimport ResyncBuffer
from zenlake.capture.heuristics cimport ProtocolDetector
from zenlake.capture.batch_builder cimport BatchBuilder

cdef bytes copy_bytes(const unsigned char* p, Py_ssize_t at, Py_ssize_t end)

cdef class BatchStream:
    cdef BatchBuilder rows
    cdef ProtocolDetector detector
    cdef public object flow
    cdef public int side, face, direction, mode, framing
    cdef public Py_ssize_t width
    cdef bint datagrams
    cdef public bint in_handshake, at_start, from_start
    cdef public long long received, packet
    cdef public int file
    cdef unsigned char* part
    cdef Py_ssize_t part_used, part_size, skip
    cdef ResyncBuffer resync
    cdef Py_ssize_t next_search
    cdef bint is_replaying
    cdef long long ignored_bytes, ignored_packets, ignored_from

    cpdef int reset(self, bint at_start) except -1
    cpdef int receive_bytes(self, bytes data) except -1
    cdef int receive(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1 nogil
    cdef Py_ssize_t complete_part(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1 nogil
    cdef int buffer_part(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end, Py_ssize_t part_size) except -1 nogil
    cdef int batch(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1 nogil
    cdef int datagram(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1 nogil
    cdef int inflate(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1
    cdef int handshake(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1
    cpdef int set_framing(self, int framing) except -1
    cpdef int skip_gap(self, Py_ssize_t n) except -1
    cpdef int drop_part(self) except -1
    cpdef int seek(self) except -1
    cdef int hold(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1
    cpdef int search(self) except -1
    cpdef int search_once(self) except -1
    cpdef int search_datagrams(self) except -1
    cdef tuple framings(self)
    cpdef int synchronise(self, int framing, Py_ssize_t at) except -1
    cdef int register_first(self, bytes data) except -1
    cpdef int assign_face(self, int face, int direction) except -1
    cpdef int drop_oldest(self, Py_ssize_t n) except -1
    cpdef int ignore_rest(self) except -1
    cpdef int note(self, str kind, Py_ssize_t size) except -1
    cpdef int finish(self) except -1
    cpdef tuple save(self)
    cpdef int restore(self, tuple saved) except -1
