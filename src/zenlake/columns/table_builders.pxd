cimport cython
from zenlake.columns.array_builders cimport SmallIntBuilder, ArrayBuilder, Int32Builder, Int64Builder, TextBuilder
from zenlake.columns.text_encoders cimport EnumText
from zenlake.session.key_table cimport KeyTable
from zenlake.wire.cursor cimport Blob
from zenlake.wire.zenoh_body cimport Err
from zenlake.wire.fields cimport WireExpr
from zenlake.wire.network cimport Push, Request, Response

@cython.final
cdef class RowPosition:
    cdef public long long received_ns
    cdef public int direction
    cdef public long long segment
    cdef public int block
    cdef public long long first_batch
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

cdef class TableBuilder:
    cdef readonly object schema
    cdef public bint on
    cdef readonly Py_ssize_t room
    cdef readonly Py_ssize_t row
    cdef readonly Py_ssize_t filled_rows
    cdef readonly dict columns
    cdef list selected
    cdef list fields
    cdef list separate_schemas
    cdef list stack_columns
    cdef object export_schema
    cdef Int64Builder received
    cdef Int64Builder received_ns
    cdef TextBuilder session
    cdef Int32Builder generation
    cdef SmallIntBuilder direction
    cdef TextBuilder file
    cdef Int64Builder segment
    cdef Int32Builder block
    cdef Int32Builder row_in_block
    cdef Int64Builder packet
    cdef Int32Builder index
    cdef TextBuilder key
    cdef TextBuilder unresolved_key
    cdef object export_separately(self, Py_ssize_t i, ArrayBuilder each, Py_ssize_t count)
    @cython.final
    cdef int fill_position(self, RowPosition p) except -1 nogil
    @cython.final
    cdef int put_key(self, Py_ssize_t row, KeyTable keys, int scope, const unsigned char* data, Py_ssize_t at,
                     Py_ssize_t size) except -1 nogil
    @cython.final
    cdef int put_unresolved(self, Py_ssize_t row, int scope, const unsigned char* data, Py_ssize_t at,
                            Py_ssize_t size) except -1 with gil

@cython.final
cdef class MessagesBuilder(TableBuilder):
    cdef EnumText types
    cdef EnumText bodies
    cdef EnumText targets
    cdef EnumText consolidations
    cdef TextBuilder type
    cdef TextBuilder body
    cdef Int64Builder size_column
    cdef Int32Builder fragments
    cdef SmallIntBuilder priority
    cdef SmallIntBuilder reliable
    cdef Int64Builder sn
    cdef SmallIntBuilder accepted
    cdef SmallIntBuilder qos
    cdef Int64Builder id
    cdef Int64Builder payload_size
    cdef Int32Builder unknown_exts
    cdef TextBuilder target
    cdef TextBuilder consolidation
    cdef Int64Builder timeout_ms
    cdef TextBuilder detail
    cdef int begin(self, RowPosition p, int kind, Py_ssize_t size, int unknown) except -1 nogil
    cdef void end(self) noexcept nogil
    cdef int fill_shared(self, RowPosition p) except -1 nogil
    cdef int put_expr(self, WireExpr expr, KeyTable keys, const unsigned char* data) except -1 nogil
    cdef int put_push(self, Push push) except -1 nogil
    cdef int put_common(self, long long id, int qos, int body) except -1 nogil
    cdef int put_request(self, Request request, const unsigned char* data) except -1 nogil
    cdef int put_err(self, Err err, const unsigned char* data) except -1 nogil
    cdef int put_texts(self, body, detail) except -1
    cpdef add_scouting(self, message, Py_ssize_t size, detail)

@cython.final
cdef class ControlTableBuilder(TableBuilder):
    cpdef add(self, RowPosition p, dict values)
