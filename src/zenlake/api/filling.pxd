# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake.api.channel cimport Channel
from zenlake.columns.live cimport LiveSamples
from zenlake.network.forward cimport Listener
from zenlake.runtime.lock cimport Lock

@cython.final
cdef class Filling(Listener):
    cdef LiveSamples samples
    cdef Channel channel
    cdef Lock lock
    cdef double age
    cdef unsigned long long generation
    cdef public object source
    cdef unsigned long long sn
    cdef long long received_ns
    cdef int hand_over(self) except -1
