cimport cython
from zenlake.wire.cursor cimport Cursor
from zenlake.wire.declare cimport Declare, Interest
from zenlake.wire.handshake cimport Close, Init, Join, Open
from zenlake.wire.network cimport Oam, Push, Request, Response, ResponseFinal
from zenlake.wire.transport cimport Fragment, Frame, KeepAlive, TransportOam

@cython.final
cdef class BatchReader:
    cdef Cursor c
    cdef readonly Py_ssize_t start
    cdef readonly bint in_frame
    cdef bint bare
    cdef public bint low_latency
    cdef public object shared
    cdef readonly TransportOam transport_oam
    cdef readonly Init init
    cdef readonly Open open
    cdef readonly Close close
    cdef readonly KeepAlive keep_alive
    cdef readonly Frame frame
    cdef readonly Fragment fragment
    cdef readonly Join join
    cdef readonly Interest interest
    cdef readonly ResponseFinal final
    cdef readonly Response response
    cdef readonly Request request
    cdef readonly Push push
    cdef readonly Declare declare
    cdef readonly Oam oam
    cdef tuple records

    cpdef int bind(self, const unsigned char[::1] buf) except -1
    cpdef int begin(self, Py_ssize_t at, Py_ssize_t end) except -1 nogil
    cpdef int begin_network(self, Py_ssize_t at, Py_ssize_t end) except -1 nogil
    cpdef int next(self) except -1 nogil
    cdef int read_transport(self, int kind, int h) except -1 nogil
    cdef int read_network(self, int kind, int h) except -1 nogil
