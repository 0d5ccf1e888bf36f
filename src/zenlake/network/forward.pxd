cimport cython
from zenlake.hlc cimport HybridClock
from zenlake.transport.inbox cimport Sink
from zenlake.transport.queue cimport Queue
from zenlake.wire.cursor cimport Blob
from zenlake.wire.fields cimport WireExpr
from zenlake.wire.message cimport Message
from zenlake.wire.network cimport Push
from zenlake.wire.reader cimport Reader
from zenlake.wire.writer cimport Writer

@cython.final
cdef class Epoch:
    cdef public unsigned long long number

@cython.final
cdef class Lane:
    cdef Queue queue
    cdef object acquire
    cdef object release
    cdef object arm
    cdef public bint armed
    cdef bint push(self, Message message, int qos, bint reliable) except -1

@cython.final
cdef class Target:
    cdef readonly object face
    cdef Lane lane
    cdef readonly object way
    cdef object backlog
    cdef readonly int flags
    cdef readonly Blob key

@cython.final
cdef class Route:
    cdef readonly unsigned long long epoch
    cdef readonly bytes key
    cdef readonly tuple receivers
    cdef readonly tuple targets
    cdef readonly Target whole

@cython.final
cdef class Forwarded(Message):
    cdef int flags
    cdef Blob key
    cdef Blob source
    cdef Py_ssize_t at
    cdef Py_ssize_t body_at
    cdef Py_ssize_t end
    cdef unsigned long long ntp64
    cdef Blob clock_id
    cdef int copied(self, Writer w, Py_ssize_t at, Py_ssize_t end) noexcept nogil

@cython.final
cdef class Door(Sink):
    cdef object node
    cdef object join
    cdef readonly object face
    cdef dict routes
    cdef Epoch epoch
    cdef HybridClock clock
    cdef public bint stamps
    cdef Forwarded message
    cdef Py_ssize_t last_start
    cdef unsigned long long now
    cpdef enter(self, face)
    cpdef int push(self, Reader reader) except -1
    cdef Route find(self, WireExpr wire)
    cdef Forwarded prepared(self, Target target, Push push)
    cdef bytes written(self, Target target, Push push)
    cdef int send(self, Target target, Push push, bint reliable) except -1
    cdef int rewritten(self, Reader reader, Route route) except -1
