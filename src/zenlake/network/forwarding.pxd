cimport cython
from zenlake.core.hlc cimport HybridClock
from zenlake.transport.queue_handle cimport QueueHandle
from zenlake.transport.rx cimport Sink
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
    cdef public bint accepts_runs
    cdef public bint takes_buffers
    cdef public object mode
    cpdef int take(self, bytes key, BatchReader reader) except -1
    cdef Py_ssize_t take_run(self, RxDispatcher dispatcher, BatchReader reader) except -1

@cython.final
cdef class CallbackListener(PushListener):
    cdef object deliver

@cython.final
cdef class Target:
    cdef readonly object face
    cdef readonly QueueHandle queue_handle
    cdef object backlog
    cdef readonly int flags
    cdef readonly Blob key
    cdef readonly Blob key_before_exts

@cython.final
cdef class Route:
    cdef readonly unsigned long long epoch
    cdef readonly bytes key
    cdef readonly bytes app_key
    cdef readonly tuple receivers
    cdef readonly tuple targets
    cdef readonly Target full_key
    cdef readonly Route delete_route
    cdef readonly str denial_counter
    cdef bint follows_tree
    cdef PushListener single_receiver

@cython.final
cdef class RxDispatcher(Sink):
    cdef object node
    cdef object on_first_message
    cdef readonly object face
    cdef dict routes
    cdef dict tree_routes
    cdef bint is_tree
    cdef RouteVersion epoch
    cdef CurrentMessage current_message
    cdef HybridClock clock
    cdef public bint adds_timestamps
    cdef Blob own_id
    cdef object locked_handles
    cdef Route last
    cdef bytes last_suffix
    cdef Py_ssize_t last_size
    cdef unsigned long long last_scope
    cdef int last_node_id
    cdef unsigned long long now
    cdef double start_time
    cdef WireWriter prefix
    cdef bint has_exts
    cdef Blob tail
    cdef Py_ssize_t tail_at
    cdef Py_ssize_t tail_end
    cdef object reply_path
    cdef unsigned int reply_path_id
    cdef object remote_keys
    cdef object local_keys
    cpdef attach(self, face)
    cdef int check_time(self) except -1
    cdef bint take_reply(self, BatchReader reader) except -1
    cpdef int push(self, BatchReader reader) except -1
    cdef int deliver(self, Route route, BatchReader reader) except -1
    cdef int deliver_to(self, PushListener listener, bytes key, BatchReader reader) except -1
    cdef int stamp(self, WireWriter w, Push push) except -1
    cdef Route find_cached(self, unsigned long long scope)
    cdef bytes app_key_for(self, PushListener listener, long long scope)
    cdef Route find(self, WireExpr wire, int node_id)
    cdef int header(self, Target target) noexcept
    cdef Blob key(self, Target target)
    cdef bytes encode_for(self, Target target)
    cdef int send(self, Target target, Push push, bint reliable) except -1
    cdef int rewrite_timestamp(self, BatchReader reader, Route route) except -1
