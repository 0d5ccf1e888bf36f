# SPDX-License-Identifier: Apache-2.0
from zenlake.capture.tcp_reassembly cimport TcpDirection

cdef class FlowTable:
    cdef void** directions
    cdef unsigned long long* keys
    cdef unsigned long long multiplier
    cdef Py_ssize_t mask, max_flows
    cdef readonly dict flows

    cdef Py_ssize_t find(
        self,
        unsigned long long src_hi,
        unsigned long long src_lo,
        unsigned long long dst_hi,
        unsigned long long dst_lo,
        unsigned long long ports
    ) noexcept nogil
    cdef int resize(self, Py_ssize_t size) except -1
    cdef int insert_flow(self, flow) except -1
    cdef int insert(
        self,
        TcpDirection direction,
        unsigned long long src_hi,
        unsigned long long src_lo,
        unsigned long long dst_hi,
        unsigned long long dst_lo,
        unsigned long long ports
    ) except -1
    cpdef int add(self, flow) except -1
    cpdef int replace(self, old, new) except -1
    cdef int evict_idle(self) except -1
