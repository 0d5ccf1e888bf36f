cimport cython
from zenlake.columns.table_builders cimport MessagesBuilder, RowPosition, ControlTableBuilder
from zenlake.columns.samples_builder cimport SamplesBuilder
from zenlake.session.key_table cimport KeyMemory
from zenlake.session.state cimport SessionState
from zenlake.wire.cursor cimport Blob
from zenlake.wire.fields cimport WireExpr
from zenlake.wire.batch_reader cimport BatchReader

@cython.final
cdef class Decoder:
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t rows
    cdef BatchReader reader
    cdef BatchReader reassembly_reader
    cdef readonly RowPosition position
    cdef SessionState current_session
    cdef readonly list sessions
    cdef readonly KeyMemory memory
    cdef dict names
    cdef public list files
    cdef int file
    cdef Py_ssize_t current_row
    cdef Py_ssize_t origin
    cdef SamplesBuilder samples
    cdef MessagesBuilder messages
    cdef ControlTableBuilder declarations
    cdef ControlTableBuilder events
    cdef ControlTableBuilder errors
    cdef readonly dict tables
    cdef public bint uses_fast_path
    cdef list wanted
    cdef dict done
    cdef const int[::1] offsets
    cdef const long long[::1] received
    cdef const int[::1] faces
    cdef const signed char[::1] directions
    cdef const long long[::1] packets

    cpdef SessionState session(self, Py_ssize_t face)
    cdef Blob name(self, int face, SessionState session)
    cdef int flush_full(self) except -1 with gil
    cdef int decode_run(self, SessionState session, Py_ssize_t first, Py_ssize_t last) except -1
    cdef int fill_shared(self) except -1 nogil
    cdef int gather_staged(self) except -1 nogil
    cdef int begin(self, Py_ssize_t row) except -1 nogil
    cdef int walk_rows(self, SessionState session, Py_ssize_t first, Py_ssize_t last) except -1 nogil
    cdef bint walk(self, SessionState session) except -1 nogil
    cdef Py_ssize_t decode_fast_path(self, SessionState session) except -1 nogil
    cdef int lane(self, SessionState session, int priority, bint reliable, unsigned long long sn) except -1 nogil
    cdef int gap(self, SessionState session, long long gap) except -1 with gil
    cdef int frame(self, SessionState session) except -1 nogil
    cdef int fragment(self, SessionState session) except -1 with gil
    cdef int network(self, SessionState session, BatchReader reader, int kind) except -1 nogil
    cdef int push(self, SessionState session, BatchReader reader) except -1 nogil
    cdef int response(self, SessionState session, BatchReader reader) except -1 nogil
    cdef int request(self, SessionState session, BatchReader reader) except -1 nogil
    cdef bint is_acceptor_key(self, WireExpr expr) noexcept nogil
    cdef int put_key(self, SessionState session, WireExpr expr, const unsigned char* data) except -1 nogil
    cdef int transport(self, SessionState session, int kind) except -1 with gil
    cdef int declaration(self, SessionState session, BatchReader reader, int kind) except -1 with gil
