cimport cython
from zenlake.session.state cimport Session
from zenlake.wire.batch_reader cimport Reader

@cython.final
cdef class Tracker:
    cdef readonly list sessions
    cdef readonly set declared
    cdef readonly dict begun
    cdef Reader reader
    cdef Reader rejoined
    cdef object watch
    cdef bint watched
    cdef Py_ssize_t face
    cdef Py_ssize_t row
    cdef int direction
    cdef int index
    cdef const int[::1] offsets
    cdef const int[::1] faces
    cdef const signed char[::1] directions

    cpdef Session session(self, Py_ssize_t face)
    cdef int walk(self, Session session, Py_ssize_t first, Py_ssize_t last, int skip) except -1 nogil
    cdef bint accept(self, Session session, int priority, bint reliable, unsigned long long sn) except -1 nogil
    cdef int fragment(self, Session session) except -1 with gil
    cdef int old_fragment(self, Session session) except -1 with gil
    cdef int value(self, Session session, int kind) except -1 with gil
    cdef int transport(self, Session session, int kind) except -1 with gil
    cdef int declaration(self, Session session, Reader reader) except -1 with gil
