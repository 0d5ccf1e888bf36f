cimport cython
from zenlake.wire.cursor cimport Blob, Cursor
from zenlake.wire.fields cimport EncodingField, Source, Stamp
from zenlake.wire.message_base cimport Message

cdef int read_slices(Cursor c, Blob slices, const char* number, const char* sort, const char* slice) except -1 nogil

@cython.final
cdef class Put(Message):
    cdef readonly Stamp timestamp
    cdef readonly EncodingField encoding
    cdef readonly Source source
    cdef public bint shm
    cdef readonly Blob attachment
    cdef readonly Blob payload
    cdef readonly Blob slices

@cython.final
cdef class Del(Message):
    cdef readonly Stamp timestamp
    cdef readonly Source source
    cdef readonly Blob attachment

@cython.final
cdef class Query(Message):
    cdef public int consolidation
    cdef readonly Blob parameters
    cdef readonly Source source
    cdef public bint shm
    cdef readonly EncodingField encoding
    cdef readonly Blob body
    cdef readonly Blob attachment

@cython.final
cdef class Reply(Message):
    cdef public int consolidation
    cdef public bint is_put
    cdef readonly Put put
    cdef readonly Del delete

@cython.final
cdef class Err(Message):
    cdef readonly EncodingField encoding
    cdef readonly Source source
    cdef public bint shm
    cdef readonly Blob payload
