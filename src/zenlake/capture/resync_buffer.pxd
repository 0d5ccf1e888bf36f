# SPDX-License-Identifier: Apache-2.0
from zenlake.capture.heuristics cimport ProtocolDetector

cdef class ResyncBuffer:
    cdef list held
    cdef Py_ssize_t size
    cdef int framing

    cdef int add(self, bytes data, long long received, long long packet, int file) except -1
    cdef list take_all(self)
    cdef Py_ssize_t drop_oldest(self, Py_ssize_t n) except -1
    cdef bytes data(self)
    cdef Py_ssize_t find_batches(self, ProtocolDetector detector, tuple framings, int enough) except -2
    cdef int find_datagrams(self, ProtocolDetector detector, tuple framings, bint known) except -3
