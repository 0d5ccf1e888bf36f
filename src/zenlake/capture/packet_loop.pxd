# SPDX-License-Identifier: Apache-2.0
from zenlake.capture.pcap cimport Packets
from zenlake.capture.flows cimport FlowTable
from zenlake.capture.headers cimport Headers
from zenlake.capture.heuristics cimport ProtocolDetector
from zenlake.capture.batch_builder cimport BatchBuilder
from zenlake.capture.tcp_reassembly cimport TcpDirection

cdef class PacketLoop:
    cdef readonly BatchBuilder rows
    cdef readonly ProtocolDetector detector
    cdef readonly list faces
    cdef public list ended_faces
    cdef readonly object notes
    cdef readonly set servers
    cdef object fragments
    cdef FlowTable table
    cdef Headers headers
    cdef readonly Packets packets
    cdef int file, lookahead_file
    cdef long long stop
    cdef unsigned long long* recent
    cdef long long* recent_times

    cpdef int begin(self, Packets packets, int file, long long stop=*) except -1
    cpdef int run(self) except -1
    cdef int step(self) except -1 nogil
    cdef int packet(self, Headers h, const unsigned char* p) except -1 nogil
    cdef int dispatch(self, TcpDirection direction, Headers h, const unsigned char* p) except -1 nogil
    cdef bint is_duplicate(self, Headers h, const unsigned char* p) noexcept nogil
    cdef int new_flow(self) except -1
    cdef int connect(self, TcpDirection direction) except -1
    cdef int fragment(self, const unsigned char* p) except -1
    cdef int add_note(self, int found) except -1
    cpdef int finish(self) except -1
    cpdef tuple save(self)
    cpdef int restore(self, tuple saved) except -1
