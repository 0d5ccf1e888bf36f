# SPDX-License-Identifier: Apache-2.0
from zenlake.capture.heuristics cimport ProtocolDetector

cdef class ResyncBuffer:
    cdef list held
    cdef Py_ssize_t size
    cdef int framing

    cdef int add(self, bytes data, long long received, long long packet, int file) except -1
    cdef list empty(self)
    cdef Py_ssize_t shed(self, Py_ssize_t n) except -1
    cdef bytes data(self)
    cdef Py_ssize_t find_batches(self, ProtocolDetector judge, tuple framings, int enough) except -2
    cdef int find_datagrams(self, ProtocolDetector judge, tuple framings, bint known) except -3
