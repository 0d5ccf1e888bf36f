cimport cython
from zenlake.columns.buffers cimport Byte, Column, Int, Long, Text
from zenlake.columns.words cimport Encodings, Nodes, Words
from zenlake.session.keys cimport KeyTable
from zenlake.wire.cursor cimport Blob
from zenlake.wire.data cimport Del, Err, Put
from zenlake.wire.fields cimport Source, Stamp, WireExpr
from zenlake.wire.network cimport Push, Request, Response

cdef long long microseconds(unsigned long long ntp64) noexcept nogil
cdef long long as_signed(unsigned long long value) noexcept nogil

@cython.final
cdef class Place:
    cdef public long long received_ns
    cdef public int direction
    cdef public long long packet
    cdef public int index
    cdef public int generation
    cdef readonly Blob session
    cdef readonly Blob file
    cdef public bint in_lane
    cdef public int priority
    cdef public bint reliable
    cdef public long long sn
    cdef public bint accepted
    cdef public int fragments

cdef class Table:
    cdef readonly object schema
    cdef public bint on
    cdef readonly Py_ssize_t room
    cdef readonly Py_ssize_t row
    cdef readonly Py_ssize_t settled
    cdef readonly dict columns
    cdef Long received
    cdef Long received_ns
    cdef Text session
    cdef Int generation
    cdef Byte direction
    cdef Text file
    cdef Long packet
    cdef Int index
    @cython.final
    cdef int settle_where(self, Place p) except -1 nogil
    @cython.final
    cdef int put_key(self, Text key, Text unresolved, WireExpr expr, KeyTable keys,
                     const unsigned char* data) except -1 nogil
    @cython.final
    cdef int put_unresolved(self, Text unresolved, WireExpr expr, const unsigned char* data) except -1 with gil

@cython.final
cdef class Samples(Table):
    cdef Encodings encodings
    cdef Nodes stamps
    cdef Nodes sources
    cdef Nodes responders
    cdef Py_ssize_t manner_first
    cdef int manner
    cdef Words kinds
    cdef Words congestions
    cdef Text key
    cdef Text unresolved_key
    cdef Text kind
    cdef Text payload
    cdef Long payload_size
    cdef Text shm
    cdef Long timestamp
    cdef Long ntp64
    cdef Long source_eid
    cdef Long source_sn
    cdef Text attachment
    cdef Byte priority
    cdef Text congestion
    cdef Byte express
    cdef Byte reliable
    cdef Long sn
    cdef Int fragments
    cdef Long request_id
    cdef Long responder_eid
    cdef int add_push(self, Place p, Push push, KeyTable keys, const unsigned char* data) except -1 nogil
    cdef int add_reply(self, Place p, Response response, KeyTable keys, const unsigned char* data) except -1 nogil
    cdef int put_put(self, Put put, const unsigned char* data) except -1 nogil
    cdef int put_del(self, Del delete, const unsigned char* data) except -1 nogil
    cdef int put_origin(self, Stamp stamp, Source source, Blob attachment, const unsigned char* data) except -1 nogil
    cdef int put_rest(self, Place p, int manner) except -1 nogil
    cdef int settle(self, Place p) except -1 nogil
    cdef int settle_manner(self) except -1 nogil
    cdef inline Py_ssize_t held(self) noexcept nogil:
        return self.payload.used + self.attachment.used + self.key.used

@cython.final
cdef class Messages(Table):
    cdef Words types
    cdef Words bodies
    cdef Words targets
    cdef Words consolidations
    cdef Text type
    cdef Text body
    cdef Long size_column
    cdef Int fragments
    cdef Byte priority
    cdef Byte reliable
    cdef Long sn
    cdef Byte accepted
    cdef Byte qos
    cdef Text key
    cdef Text unresolved_key
    cdef Long id
    cdef Long payload_size
    cdef Int unknown_exts
    cdef Text target
    cdef Text consolidation
    cdef Long timeout_ms
    cdef Text detail
    cdef int begin(self, Place p, int kind, Py_ssize_t size, int unknown) except -1 nogil
    cdef void end(self) noexcept nogil
    cdef int settle(self, Place p) except -1 nogil
    cdef int put_push(self, Push push, KeyTable keys, const unsigned char* data) except -1 nogil
    cdef int put_numbered(self, long long id, int qos, int body) except -1 nogil
    cdef int put_request(self, Request request, const unsigned char* data) except -1 nogil
    cdef int put_err(self, Err err, const unsigned char* data) except -1 nogil
    cdef int put_words(self, body, detail) except -1

@cython.final
cdef class Rare(Table):
    cpdef add(self, Place p, dict values)
