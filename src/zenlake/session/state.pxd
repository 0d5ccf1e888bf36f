cimport cython
from zenlake.session.key_table cimport KeyMemory, KeyTable
from zenlake.session.lanes cimport Lanes
from zenlake.wire.fields cimport WireExpr
from zenlake.wire.handshake cimport Init, Join, Open

@cython.final
cdef class Side:
    cdef public object zid
    cdef public int whatami
    cdef public unsigned long long lease_ms
    cdef public long long initial_sn
    cdef public int remote_bound
    cdef public int traits
    cdef public KeyTable keys
    cdef readonly Lanes lanes

@cython.final
cdef class SessionState:
    cdef public str name
    cdef public int generation
    cdef readonly list sides
    cdef readonly Side opener
    cdef readonly Side acceptor
    cdef public int version
    cdef public int resolution
    cdef public int batch_size
    cdef public bint qos
    cdef public bint low_latency
    cdef public bint compression
    cdef public int patch
    cdef public bint is_open
    cdef public bint is_multicast
    cdef public bint is_scouting
    cdef public dict offer
    cdef readonly KeyMemory memory
    cdef public bint keys_dropped
    cpdef forget(self)
    cpdef init(self, int direction, Init init)
    cpdef apply_negotiation(self)
    cpdef bint on_open(self, int direction, Open open) except -1
    cpdef bint on_join(self, Join join) except -1
    cpdef on_close(self)
    cpdef KeyTable key_table(self, int direction, bint sender)
    cpdef str key(self, int direction, WireExpr expr)
    cpdef bint declare_key(self, int direction, int id, WireExpr expr) except -1
    cpdef forget_key(self, int direction, int id)
    cpdef set_key(self, int direction, int id, bytes key)
    cpdef Py_ssize_t key_cost(self)
    cpdef drop_keys(self)
    cpdef charge_to(self, KeyMemory memory)
