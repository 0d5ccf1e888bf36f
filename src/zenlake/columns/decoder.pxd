cimport cython
from zenlake.columns.table_builders cimport Messages, Place, Rare
from zenlake.columns.samples_builder cimport Samples
from zenlake.session.key_table cimport KeyMemory
from zenlake.session.state cimport Session
from zenlake.wire.cursor cimport Blob
from zenlake.wire.fields cimport WireExpr
from zenlake.wire.batch_reader cimport Reader

@cython.final
cdef class Decoder:
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t rows
    cdef Reader reader
    cdef Reader rejoined
    cdef Place place
    cdef Session now
    cdef readonly list sessions
    cdef readonly KeyMemory memory
    cdef dict names
    cdef public list files
    cdef int file
    cdef Py_ssize_t current
    cdef Py_ssize_t origin
    cdef Samples samples
    cdef Messages messages
    cdef Rare declarations
    cdef Rare events
    cdef Rare errors
    cdef readonly dict tables
    cdef public bint takes_usual
    cdef list wanted
    cdef dict done
    cdef const int[::1] offsets
    cdef const long long[::1] received
    cdef const int[::1] faces
    cdef const signed char[::1] directions
    cdef const long long[::1] packets

    cpdef Session session(self, Py_ssize_t face)
    cdef Blob name(self, int face, Session session)
    cdef int flush_full(self) except -1 with gil
    cdef int decode_run(self, Session session, Py_ssize_t first, Py_ssize_t last) except -1
    cdef int settle(self) except -1 nogil
    cdef int complete(self) except -1 nogil
    cdef int begin(self, Py_ssize_t row) except -1 nogil
    cdef int walk_rows(self, Session session, Py_ssize_t first, Py_ssize_t last) except -1 nogil
    cdef bint walk(self, Session session) except -1 nogil
    cdef Py_ssize_t take_usual(self, Session session) except -1 nogil
    cdef int lane(self, Session session, int priority, bint reliable, unsigned long long sn) except -1 nogil
    cdef int gap(self, Session session, long long gap) except -1 with gil
    cdef int frame(self, Session session) except -1 nogil
    cdef int fragment(self, Session session) except -1 with gil
    cdef int network(self, Session session, Reader reader, int kind) except -1 nogil
    cdef int push(self, Session session, Reader reader) except -1 nogil
    cdef int response(self, Session session, Reader reader) except -1 nogil
    cdef int request(self, Session session, Reader reader) except -1 nogil
    cdef bint is_acceptors(self, WireExpr expr) noexcept nogil
    cdef int put_key(self, Session session, WireExpr expr, const unsigned char* data) except -1 nogil
    cdef int transport(self, Session session, int kind) except -1 with gil
    cdef int declaration(self, Session session, Reader reader, int kind) except -1 with gil
