cimport cython
from zenlake.session.state cimport SessionState
from zenlake.wire.batch_reader cimport BatchReader

@cython.final
cdef class SessionTracker:
    cdef readonly list sessions
    cdef readonly set declared
    cdef readonly dict message_starts
    cdef BatchReader reader
    cdef BatchReader reassembly_reader
    cdef object watch
    cdef bint has_watch
    cdef Py_ssize_t face
    cdef Py_ssize_t row
    cdef int direction
    cdef int index
    cdef const int[::1] offsets
    cdef const int[::1] faces
    cdef const signed char[::1] directions

    cpdef SessionState session(self, Py_ssize_t face)
    cdef int walk(self, SessionState session, Py_ssize_t first, Py_ssize_t last, int skip) except -1 nogil
    cdef bint accept(self, SessionState session, int priority, bint reliable, unsigned long long sn) except -1 nogil
    cdef int fragment(self, SessionState session) except -1 with gil
    cdef int skip_old_fragment(self, SessionState session) except -1 with gil
    cdef int value(self, SessionState session, int kind) except -1 with gil
    cdef int transport(self, SessionState session, int kind) except -1 with gil
    cdef int declaration(self, SessionState session, BatchReader reader) except -1 with gil
