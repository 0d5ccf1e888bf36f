cimport cython
from zenlake.core.hlc cimport HybridClock
from zenlake.transport.rx cimport Sink
from zenlake.transport.tx_queue cimport TxQueue
from zenlake.wire.cursor cimport Blob
from zenlake.wire.fields cimport WireExpr
from zenlake.wire.network cimport Push
from zenlake.wire.batch_reader cimport BatchReader
from zenlake.wire.writer cimport WireWriter

@cython.final
cdef class RouteVersion:
    cdef public unsigned long long number

@cython.final
cdef class CurrentMessage:
    cdef public object face

cdef class RxDispatcher(Sink)

cdef class PushListener:
    cdef public bint runs
    cdef public object mode
    cpdef int take(self, bytes key, BatchReader reader) except -1
    cdef Py_ssize_t take_run(self, RxDispatcher dispatcher, BatchReader reader) except -1

@cython.final
cdef class CallbackListener(PushListener):
    cdef object deliver

@cython.final
cdef class QueueHandle:
    cdef TxQueue queue
    cdef object acquire
    cdef object release
    cdef object arm
    cdef public Py_ssize_t limit
    cdef public bint armed
    cdef bint held
    cdef int hold(self) except -1
    cdef int release_held(self) except -1

@cython.final
cdef class Target:
    cdef readonly object face
    cdef QueueHandle lane
    cdef readonly object way
    cdef object backlog
    cdef readonly int flags
    cdef readonly Blob key
    cdef readonly Blob more

@cython.final
cdef class Route:
    cdef readonly unsigned long long epoch
    cdef readonly bytes key
    cdef readonly bytes shown
    cdef readonly tuple receivers
    cdef readonly tuple targets
    cdef readonly Target whole
    cdef readonly Route deleting
    cdef readonly str denied
    cdef bint along_tree
    cdef PushListener only

@cython.final
cdef class RxDispatcher(Sink):
    cdef object node
    cdef object join
    cdef readonly object face
    cdef dict routes
    cdef dict tree_routes
    cdef bint is_tree
    cdef RouteVersion epoch
    cdef CurrentMessage reading
    cdef HybridClock clock
    cdef public bint stamps
    cdef Blob own_id
    cdef object held
    cdef Route last
    cdef bytes last_suffix
    cdef Py_ssize_t last_size
    cdef unsigned long long last_scope
    cdef int last_node_id
    cdef unsigned long long now
    cdef double began
    cdef WireWriter before
    cdef bint has_exts
    cdef Blob rest
    cdef Py_ssize_t rest_at
    cdef Py_ssize_t rest_end
    cdef object asked
    cdef unsigned int asked_id
    cdef object theirs
    cdef object mine
    cpdef enter(self, face)
    cdef int check_time(self) except -1
    cdef bint answer(self, BatchReader reader) except -1
    cpdef int push(self, BatchReader reader) except -1
    cdef int show(self, Route route, BatchReader reader) except -1
    cdef int show_one(self, PushListener listener, bytes key, BatchReader reader) except -1
    cdef int stamp(self, WireWriter w, Push push) except -1
    cdef Route known(self, unsigned long long scope)
    cdef bytes key_for(self, PushListener listener, long long scope)
    cdef Route find(self, WireExpr wire, int node_id)
    cdef int header(self, Target target) noexcept
    cdef Blob key(self, Target target)
    cdef bytes written(self, Target target)
    cdef int send(self, Target target, Push push, bint reliable) except -1
    cdef int rewritten(self, BatchReader reader, Route route) except -1
