cimport cython
from zenlake.columns.array_builders cimport SmallIntBuilder, Int32Builder, Int64Builder, TextBuilder
from zenlake.columns.table_builders cimport RowPosition, TableBuilder
from zenlake.columns.row_staging cimport StagedRows, SpanStaging
from zenlake.columns.text_encoders cimport EncodingText, ZenohIdText, EnumText
from zenlake.session.key_table cimport KeyTable
from zenlake.wire.cursor cimport Blob
from zenlake.wire.zenoh_body cimport Del, Put
from zenlake.wire.fields cimport Source, Stamp, WireExpr
from zenlake.wire.network cimport Push, Response

cdef enum:
    MAX_STAGED_BYTES = 131072

@cython.final
cdef class SamplesBuilder(TableBuilder):
    cdef TextBuilder kind
    cdef TextBuilder payload
    cdef Int64Builder payload_size
    cdef TextBuilder shm
    cdef EncodingText encoding
    cdef Int64Builder timestamp
    cdef Int64Builder ntp64
    cdef ZenohIdText timestamp_id
    cdef ZenohIdText source_zid
    cdef Int64Builder source_eid
    cdef Int64Builder source_sn
    cdef TextBuilder attachment
    cdef SmallIntBuilder priority
    cdef TextBuilder congestion
    cdef SmallIntBuilder express
    cdef SmallIntBuilder reliable
    cdef Int64Builder sn
    cdef Int32Builder fragments
    cdef Int64Builder request_id
    cdef ZenohIdText responder_zid
    cdef Int64Builder responder_eid
    cdef TextBuilder timestamp_stack
    cdef EnumText kinds
    cdef EnumText congestions
    cdef Py_ssize_t max_staged
    cdef Py_ssize_t first_staged
    cdef Py_ssize_t bytes
    cdef const unsigned char* data
    cdef StagedRows staged
    cdef SpanStaging suffixes
    cdef SpanStaging payloads
    cdef SpanStaging slices
    cdef SpanStaging schemas
    cdef SpanStaging stamps
    cdef SpanStaging sources
    cdef SpanStaging attachments
    cdef SpanStaging responders
    cdef SpanStaging stacks
    cdef int add_push(self, RowPosition p, Push push, bint accepted, const unsigned char* data) except -1 nogil
    cdef int add_reply(self, RowPosition p, Response response, bint accepted, const unsigned char* data) except -1 nogil
    cdef void stage_no_key(self) noexcept nogil
    cdef int stage_push(self, RowPosition p, Push push, const unsigned char* data) except -1 nogil
    cdef int stage_reply(self, RowPosition p, Response response, const unsigned char* data) except -1 nogil
    cdef void stage_key(self, WireExpr expr, bint accepted) noexcept nogil
    cdef void stage_put(self, Put put) noexcept nogil
    cdef void stage_del(self, Del delete) noexcept nogil
    cdef void stage_origin(self, Py_ssize_t i, Stamp stamp, Source source, Blob attachment) noexcept nogil
    cdef int end_row(self, RowPosition p, int qos_and_kind, const unsigned char* data) except -1 nogil
    cdef void clear(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil
    cdef void shift(self, Py_ssize_t by, const unsigned char* data) noexcept nogil
    cdef inline bint must_gather(self) noexcept nogil:
        return self.row - self.first_staged >= self.max_staged or self.bytes >= MAX_STAGED_BYTES
    cdef inline Py_ssize_t used_bytes(self) noexcept nogil:
        return self.payload.used + self.attachment.used + self.key.used
    cdef int fill_shared(self, RowPosition p) except -1 nogil
    cdef int gather(self, KeyTable opener, KeyTable acceptor) except -1 nogil
    cdef int gather_columns(self, Py_ssize_t first, Py_ssize_t count, KeyTable opener, KeyTable acceptor) except -1 nogil
    cdef int gather_keys(self, Py_ssize_t first, Py_ssize_t count, KeyTable opener, KeyTable acceptor) except -1 nogil
    cdef bint are_complete(self, Py_ssize_t count) noexcept nogil
    cdef int gather_times(self, Py_ssize_t first, Py_ssize_t count) except -1 nogil
    cdef int gather_qos(self, Py_ssize_t first, Py_ssize_t count) except -1 nogil
    cdef int fill_qos(self, Py_ssize_t first, Py_ssize_t last, int qos_and_kind) except -1 nogil

cdef inline long long microseconds(unsigned long long ntp64) noexcept nogil:
    return (ntp64 >> 32) * 1000000 + ((ntp64 & 0xFFFFFFFFULL) * 1000000 >> 32)
cdef inline long long as_signed(unsigned long long value) noexcept nogil:
    return value
