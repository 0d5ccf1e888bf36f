cimport cython
from zenlake.columns.column_readers cimport EnumReader, IntReader, BytesReader
from zenlake.wire.fields cimport Source, Stamp
from zenlake.wire.network cimport Push
from zenlake.wire.transport cimport Fragment, Frame
from zenlake.wire.writer cimport WireWriter

cdef unsigned long long to_unsigned(long long value) noexcept nogil

@cython.final
cdef class Encoder:
    cdef readonly Py_ssize_t limit
    cdef readonly Py_ssize_t prefix
    cdef readonly long long mask
    cdef readonly bint qos
    cdef long long next_sn[16]
    cdef dict ids
    cdef WireWriter w
    cdef WireWriter spare
    cdef Push push
    cdef Frame frame
    cdef Fragment part
    cdef Py_ssize_t batch_at
    cdef Py_ssize_t frame_at
    cdef Py_ssize_t body_at
    cdef int lane
    cdef list ends
    cdef BytesReader keys
    cdef BytesReader payloads
    cdef BytesReader attachments
    cdef EnumReader scopes
    cdef EnumReader deletes
    cdef EnumReader congestion
    cdef IntReader priority
    cdef IntReader express
    cdef IntReader reliable
    cdef IntReader ntp64
    cdef IntReader eid
    cdef IntReader source_sn
    cdef EnumReader stamp_ids
    cdef EnumReader sources
    cdef EnumReader encodings
    cdef bytearray texts
    cdef list runs
    cdef long long[::1] run_at
    cdef long long[::1] run_size
    cdef long long[::1] run_id

    cdef int write_rows(self, Py_ssize_t rows) except -1 nogil
    cdef void bind_push(self, Py_ssize_t row) noexcept nogil
    cdef bint is_reliable(self, Py_ssize_t row) noexcept nogil
    cdef void set_origin(self, Py_ssize_t row, Stamp stamp, Source source) noexcept nogil
    cdef void set_encoding(self, Py_ssize_t row) noexcept nogil
    cdef int add(self, int priority, bint reliable) except -1 nogil
    cdef int open(self, int priority, bint reliable) except -1 nogil
    cdef int next_batch(self, int priority, bint reliable) except -1 nogil
    cdef int fragment(self, int priority, bint reliable, Py_ssize_t size) except -1 nogil
    cdef int end_batch(self) except -1 nogil
    cdef int mark_end(self) except -1 with gil
