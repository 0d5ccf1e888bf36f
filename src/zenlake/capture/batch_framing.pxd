# SPDX-License-Identifier: Apache-2.0
from zenlake.capture.resync_buffer cimport ResyncBuffer
from zenlake.capture.heuristics cimport ProtocolDetector
from zenlake.capture.batch_builder cimport BatchBuilder

cdef bytes copy_bytes(const unsigned char* p, Py_ssize_t at, Py_ssize_t end)

cdef class BatchStream:
    cdef BatchBuilder rows
    cdef ProtocolDetector judge
    cdef public object flow
    cdef public int side, face, direction, mode, framing
    cdef public Py_ssize_t width
    cdef bint datagrams
    cdef public bint opening, anchored, certain
    cdef public long long received, packet
    cdef public int file
    cdef unsigned char* part
    cdef Py_ssize_t have, need, skip
    cdef ResyncBuffer aside
    cdef Py_ssize_t look_at
    cdef bint feeding
    cdef long long unread, unread_packets, unread_from

    cpdef int reset(self, bint anchored) except -1
    cpdef int take(self, bytes data) except -1
    cdef int receive(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1 nogil
    cdef Py_ssize_t complete(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1 nogil
    cdef int keep(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end, Py_ssize_t need) except -1 nogil
    cdef int batch(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1 nogil
    cdef int datagram(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1 nogil
    cdef int inflate(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1
    cdef int handshake(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1
    cpdef int frame(self, int framing) except -1
    cpdef int gap(self, Py_ssize_t n) except -1
    cpdef int drop(self) except -1
    cpdef int seek(self) except -1
    cdef int hold(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1
    cpdef int look(self) except -1
    cpdef int inspect_once(self) except -1
    cpdef int inspect_datagrams(self) except -1
    cdef tuple framings(self)
    cpdef int settle(self, int framing, Py_ssize_t at) except -1
    cdef int meet(self, bytes data) except -1
    cpdef int follow(self, int face, int direction) except -1
    cpdef int shed(self, Py_ssize_t n) except -1
    cpdef int ignore_rest(self) except -1
    cpdef int note(self, str kind, Py_ssize_t size) except -1
    cpdef int finish(self) except -1
    cpdef tuple save(self)
    cpdef int restore(self, tuple saved) except -1
