cimport cython
from zenlake.wire.cursor cimport Blob
from zenlake.wire.fields cimport OamBody
from zenlake.wire.message_base cimport Message

@cython.final
cdef class Frame(Message):
    cdef public bint reliable
    cdef public unsigned long long sn
    cdef public int priority

@cython.final
cdef class Fragment(Message):
    cdef public bint reliable
    cdef public bint more
    cdef public unsigned long long sn
    cdef public int priority
    cdef public bint first
    cdef public bint drop
    cdef readonly Blob payload

@cython.final
cdef class KeepAlive(Message):
    pass

@cython.final
cdef class TransportOam(Message):
    cdef public int id
    cdef public int priority
    cdef readonly OamBody body
