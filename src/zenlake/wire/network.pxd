cimport cython
cimport zenlake.wire.message_ids as message_ids
from zenlake.wire.cursor cimport Blob, Cursor
from zenlake.wire.zenoh_body cimport Del, Err, Put, Query, Reply
from zenlake.wire.fields cimport Entity, OamBody, Stamp, WireExpr
from zenlake.wire.message_base cimport Message
from zenlake.wire.writer cimport WireWriter

cdef class NetworkMessage(Message):
    cdef public int qos
    cdef readonly Stamp network_timestamp
    cdef inline int next_chain(self, Cursor c, int h) except -1 nogil:
        if h & message_ids.Z and c.end - c.at >= 2 and c.data[c.at] == message_ids.EXT_QOS and c.data[c.at + 1] < 0x80 and not c.tracing:
            self.qos = c.data[c.at + 1]
            self.network_timestamp.clear()
            self.unknown = 0
            self.exts.at = c.at
            self.exts.size = 2
            c.at += 2
            return 0
        return self.read_exts(c, h)
    @cython.final
    cdef int read_common_ext(self, Cursor c, int kind) except -1 nogil
    @cython.final
    cdef int write_common_exts(self, WireWriter w) except -1 nogil

@cython.final
cdef class Push(NetworkMessage):
    cdef readonly WireExpr key
    cdef public int node_id
    cdef readonly Blob timestamp_stack
    cdef public bint is_put
    cdef readonly Put put
    cdef readonly Del delete
    cdef readonly Py_ssize_t body_at
    cpdef int write_head(self, WireWriter w) except -1 nogil

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
    cpdef int write_head(self, WireWriter w) except -1 nogil

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
    cpdef int write_head(self, WireWriter w) except -1 nogil

@cython.final
cdef class ResponseFinal(NetworkMessage):
    cdef public unsigned int id

@cython.final
cdef class Oam(NetworkMessage):
    cdef public int id
    cdef readonly OamBody body
