cimport cython
from zenlake.columns.array_builders cimport Byte, Column, Int, Long, Text
from zenlake.columns.text_encoders cimport Words
from zenlake.session.key_table cimport KeyTable
from zenlake.wire.cursor cimport Blob
from zenlake.wire.zenoh_body cimport Err
from zenlake.wire.fields cimport WireExpr
from zenlake.wire.network cimport Push, Request, Response

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
    cdef list sent
    cdef list fields
    cdef list alone
    cdef Long received
    cdef Long received_ns
    cdef Text session
    cdef Int generation
    cdef Byte direction
    cdef Text file
    cdef Long packet
    cdef Int index
    cdef Text key
    cdef Text unresolved_key
    cdef object send_alone(self, Py_ssize_t i, Column each, Py_ssize_t count)
    @cython.final
    cdef int settle_where(self, Place p) except -1 nogil
    @cython.final
    cdef int put_key(self, Py_ssize_t row, KeyTable keys, int scope, const unsigned char* data, Py_ssize_t at,
                     Py_ssize_t size) except -1 nogil
    @cython.final
    cdef int put_unresolved(self, Py_ssize_t row, int scope, const unsigned char* data, Py_ssize_t at,
                            Py_ssize_t size) except -1 with gil

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
    cdef int put_expr(self, WireExpr expr, KeyTable keys, const unsigned char* data) except -1 nogil
    cdef int put_push(self, Push push) except -1 nogil
    cdef int put_numbered(self, long long id, int qos, int body) except -1 nogil
    cdef int put_request(self, Request request, const unsigned char* data) except -1 nogil
    cdef int put_err(self, Err err, const unsigned char* data) except -1 nogil
    cdef int put_words(self, body, detail) except -1
    cpdef add_scouting(self, message, Py_ssize_t size, detail)

@cython.final
cdef class Rare(Table):
    cpdef add(self, Place p, dict values)
