cimport cython
from zenlake.wire.cursor cimport Blob
from zenlake.wire.message_base cimport Message

@cython.final
cdef class Scout(Message):
    cdef public int version
    cdef public int what
    cdef readonly Blob zid

@cython.final
cdef class Hello(Message):
    cdef public int version
    cdef public int whatami
    cdef readonly Blob zid
    cdef Blob raw_locators
    cdef Blob scratch
