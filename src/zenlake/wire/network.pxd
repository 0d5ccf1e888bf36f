cimport cython
from zenlake.wire.cursor cimport Blob, Cursor
from zenlake.wire.data cimport Del, Err, Put, Query, Reply
from zenlake.wire.fields cimport Entity, OamBody, Stamp, WireExpr
from zenlake.wire.message cimport Message
from zenlake.wire.writer cimport Writer

cdef class NetworkMessage(Message):
    cdef public int qos
    cdef readonly Stamp network_timestamp
    @cython.final
    cdef int read_common_ext(self, Cursor c, int kind) except -1 nogil
    @cython.final
    cdef int write_common_exts(self, Writer w) except -1 nogil

@cython.final
cdef class Push(NetworkMessage):
    cdef readonly WireExpr key
    cdef public int node_id
    cdef readonly Blob timestamp_stack
    cdef public bint is_put
    cdef readonly Put put
    cdef readonly Del delete
    cdef readonly Py_ssize_t body_at
    cpdef int write_head(self, Writer w) except -1 nogil

@cython.final
cdef class Request(NetworkMessage):
    cdef public unsigned int id
    cdef readonly WireExpr key
    cdef public int node_id
    cdef public int target
    cdef public unsigned int budget
    cdef public bint has_timeout
    cdef public unsigned long long timeout_ms
    cdef readonly Blob timestamp_stack
    cdef readonly Query query
    cdef readonly Py_ssize_t body_at
    cpdef int write_head(self, Writer w) except -1 nogil

@cython.final
cdef class Response(NetworkMessage):
    cdef public unsigned int id
    cdef readonly WireExpr key
    cdef readonly Entity responder
    cdef readonly Blob timestamp_stack
    cdef public bint is_reply
    cdef readonly Reply reply
    cdef readonly Err err
    cdef readonly Py_ssize_t body_at
    cpdef int write_head(self, Writer w) except -1 nogil

@cython.final
cdef class ResponseFinal(NetworkMessage):
    cdef public unsigned int id

@cython.final
cdef class Oam(NetworkMessage):
    cdef public int id
    cdef readonly OamBody body
