cimport cython
from zenlake.columns.array_builders cimport Byte, Int, Long, Text
from zenlake.columns.table_builders cimport Place, Table
from zenlake.columns.row_staging cimport Notes, Spans
from zenlake.columns.text_encoders cimport Encodings, Nodes, Words
from zenlake.session.key_table cimport KeyTable
from zenlake.wire.cursor cimport Blob
from zenlake.wire.zenoh_body cimport Del, Put
from zenlake.wire.fields cimport Source, Stamp, WireExpr
from zenlake.wire.network cimport Push, Response

cdef enum:
    MOST_BYTES = 131072

@cython.final
cdef class Samples(Table):
    cdef Text kind
    cdef Text payload
    cdef Long payload_size
    cdef Text shm
    cdef Encodings encoding
    cdef Long timestamp
    cdef Long ntp64
    cdef Nodes timestamp_id
    cdef Nodes source_zid
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
    cdef Nodes responder_zid
    cdef Long responder_eid
    cdef Words kinds
    cdef Words congestions
    cdef Py_ssize_t most
    cdef Py_ssize_t gathered
    cdef Py_ssize_t bytes
    cdef const unsigned char* data
    cdef Py_ssize_t sized
    cdef Py_ssize_t lead
    cdef Notes notes
    cdef Spans suffixes
    cdef Spans payloads
    cdef Spans slices
    cdef Spans schemas
    cdef Spans stamps
    cdef Spans sources
    cdef Spans attachments
    cdef Spans responders
    cdef int add_push(self, Place p, Push push, bint accepted, const unsigned char* data) except -1 nogil
    cdef int add_reply(self, Place p, Response response, bint accepted, const unsigned char* data) except -1 nogil
    cdef void note_no_key(self) noexcept nogil
    cdef int note_push(self, Place p, Push push, const unsigned char* data) except -1 nogil
    cdef int note_reply(self, Place p, Response response, const unsigned char* data) except -1 nogil
    cdef void note_key(self, WireExpr expr, bint accepted) noexcept nogil
    cdef void note_put(self, Put put) noexcept nogil
    cdef void note_del(self, Del delete) noexcept nogil
    cdef void note_origin(self, Py_ssize_t i, Stamp stamp, Source source, Blob attachment) noexcept nogil
    cdef int note(self, Place p, int manner, const unsigned char* data) except -1 nogil
    cdef void forget(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil
    cdef void move(self, Py_ssize_t by, const unsigned char* data) noexcept nogil
    cdef inline bint is_crowded(self) noexcept nogil:
        return self.row - self.gathered >= self.most or self.bytes >= MOST_BYTES
    cdef inline Py_ssize_t held(self) noexcept nogil:
        return self.payload.used + self.attachment.used + self.key.used
    cdef int settle(self, Place p) except -1 nogil
    cdef int gather(self, KeyTable opener, KeyTable acceptor) except -1 nogil
    cdef int gather_columns(self, Py_ssize_t first, Py_ssize_t count, KeyTable opener, KeyTable acceptor) except -1 nogil
    cdef int gather_keys(self, Py_ssize_t first, Py_ssize_t count, KeyTable opener, KeyTable acceptor) except -1 nogil
    cdef bint are_whole(self, Py_ssize_t count) noexcept nogil
    cdef int gather_times(self, Py_ssize_t first, Py_ssize_t count) except -1 nogil
    cdef int gather_manners(self, Py_ssize_t first, Py_ssize_t count) except -1 nogil
    cdef int fill_manner(self, Py_ssize_t first, Py_ssize_t last, int manner) except -1 nogil

cdef inline long long microseconds(unsigned long long ntp64) noexcept nogil:
    return (ntp64 >> 32) * 1000000 + ((ntp64 & 0xFFFFFFFFULL) * 1000000 >> 32)
cdef inline long long as_signed(unsigned long long value) noexcept nogil:
    return value
