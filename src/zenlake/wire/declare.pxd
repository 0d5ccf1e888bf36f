cimport cython
from zenlake.wire.fields cimport WireExpr
from zenlake.wire.message_base cimport Message
from zenlake.wire.network cimport NetworkMessage

@cython.final
cdef class DeclareKeyExpr(Message):
    cdef public int id
    cdef readonly WireExpr key

@cython.final
cdef class UndeclareKeyExpr(Message):
    cdef public int id

@cython.final
cdef class DeclareEntity(Message):
    cdef public int kind
    cdef public unsigned int id
    cdef readonly WireExpr key
    cdef public unsigned long long info

@cython.final
cdef class UndeclareEntity(Message):
    cdef public int kind
    cdef public unsigned int id
    cdef readonly bint has_key
    cdef readonly WireExpr wire_expr

@cython.final
cdef class DeclareFinal(Message):
    pass

@cython.final
cdef class Declare(NetworkMessage):
    cdef public bint answers
    cdef public unsigned int interest
    cdef public int node_id
    cdef readonly int body_id
    cdef readonly DeclareKeyExpr key_expr
    cdef readonly UndeclareKeyExpr no_key_expr
    cdef readonly DeclareEntity entity
    cdef readonly UndeclareEntity no_entity
    cdef readonly DeclareFinal final

@cython.final
cdef class Interest(NetworkMessage):
    cdef public int mode
    cdef public unsigned int id
    cdef public int options
    cdef readonly WireExpr wire_expr
    cdef public int node_id
