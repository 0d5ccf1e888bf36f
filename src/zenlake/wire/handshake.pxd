cimport cython
from zenlake.wire.cursor cimport Blob, Cursor
from zenlake.wire.message_base cimport Message
from zenlake.wire.writer cimport WireWriter

cdef class NodeFields(Message):
    cdef public int version
    cdef public int whatami
    cdef readonly Blob zid
    cdef public bint sized
    cdef public int resolution
    cdef public int batch_size
    cdef int read_node(self, Cursor c, int h, int batch_size) except -1 nogil
    cdef int write_node(self, WireWriter w) except -1 nogil

@cython.final
cdef class Init(NodeFields):
    cdef public bint ack
    cdef readonly Blob cookie
    cdef public bint qos
    cdef public unsigned long long qos_link
    cdef readonly Blob shm
    cdef readonly Blob auth
    cdef readonly Blob multilink
    cdef public bint low_latency
    cdef public bint compression
    cdef public int patch
    cdef readonly Blob region

@cython.final
cdef class Open(Message):
    cdef public bint ack
    cdef public bint seconds
    cdef public unsigned long long lease
    cdef public unsigned long long initial_sn
    cdef readonly Blob cookie
    cdef public bint qos
    cdef readonly Blob shm
    cdef public long long shm_number
    cdef readonly Blob auth
    cdef readonly Blob multilink
    cdef public bint multilink_ack
    cdef public bint low_latency
    cdef public bint compression
    cdef public int remote_bound

@cython.final
cdef class Close(Message):
    cdef public bint session
    cdef public int reason

@cython.final
cdef class Join(NodeFields):
    cdef public bint seconds
    cdef public unsigned long long lease
    cdef public unsigned long long reliable_sn
    cdef public unsigned long long best_effort_sn
    cdef readonly bint has_lanes
    cdef unsigned long long lane_sns[16]
    cdef readonly Blob shm
    cdef public int patch
