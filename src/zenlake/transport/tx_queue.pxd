cimport cython
from zenlake.transport.memory_budget cimport MemoryBudget
from zenlake.transport.tx_stage cimport Batch, FragmentedMessage, TxStage
from zenlake.wire.cursor cimport Blob
from zenlake.wire.message_base cimport Message
from zenlake.wire.transport cimport Fragment, Frame
from zenlake.wire.writer cimport WireWriter

cdef bytes join_buffers(int header, Blob key, WireWriter before, Blob rest, Py_ssize_t at, Py_ssize_t end)

@cython.final
cdef class TxQueue:
    cdef readonly int prefix
    cdef Batch current
    cdef list control_batches
    cdef list spare_batches
    cdef list stages
    cdef public object tee
    cdef Frame frame
    cdef Fragment fragment
    cdef readonly bint is_open
    cdef readonly bint ended
    cdef readonly int complete
    cdef readonly int begun
    cdef readonly unsigned long long messages
    cdef readonly unsigned long long dropped
    cdef bint compression
    cdef bint qos
    cdef Py_ssize_t head
    cdef readonly Py_ssize_t limit
    cdef unsigned long long mask
    cdef double max_wait
    cdef public MemoryBudget budget
    cdef readonly Py_ssize_t held
    cdef readonly bint is_over_budget
    cpdef start(self, Py_ssize_t batch_size, unsigned long long mask, unsigned long long initial_sn, bint qos,
                bint compression, Py_ssize_t size, double max_wait)
    cpdef bint send(self, message, int priority, bint reliable, int congestion, bint express) except -1
    cpdef end(self)
    cpdef bint push(self, Message message, int priority, bint reliable, bint express, bint droppable) except -1
    cpdef bint push_encoded(self, bytes data, int priority, bint reliable, bint express, bint droppable) except -1
    cdef int splice(self, int header, Blob key, WireWriter before, Blob rest, Py_ssize_t at, Py_ssize_t end, int qos,
                    bint reliable) except -1
    cdef Batch begin(self, TxStage stage, Py_ssize_t size, int qos, bint reliable)
    cdef int push_large(self, bytes data, TxStage stage, int qos, bint reliable) except -1
    cdef bint enqueue(self, bytes data, TxStage stage, bint reliable, bint express, bint droppable) except -1
    cdef int append(self, bytes data, Py_ssize_t size, TxStage stage, Batch batch, bint reliable,
                    bint express, bint is_new) except -1
    cdef int commit(self, TxStage stage, Batch batch, bint reliable, bint express, bint is_new) except -1
    cdef int close_batch(self, TxStage stage) except -1
    cdef int charge(self, Py_ssize_t size) except -1
    cdef bint exceeds_budget(self, Py_ssize_t size) except -1
    cdef TxStage stage(self, int priority)
    cdef Py_ssize_t frame_size(self, TxStage stage, bint reliable) noexcept
    cdef int write_frame(self, WireWriter w, TxStage stage, bint reliable) except -1
    cdef Py_ssize_t fragment_room(self, TxStage stage) noexcept
    cdef Py_ssize_t fragments(self, Py_ssize_t size, TxStage stage) noexcept
    cdef Batch next_fragment(self, TxStage stage, FragmentedMessage fragmented_message, double now)
    cdef Py_ssize_t write_fragment(self, WireWriter w, TxStage stage, FragmentedMessage fragmented_message, double now) except -1
    cpdef control(self, bytes message)
    cpdef data(self, double now)
    cpdef bint is_waiting(self) noexcept
    cpdef bint advance(self, Py_ssize_t size) except -1
    cdef Batch next_batch(self, double now)
    cdef Batch seal(self, Batch batch)
    cdef int write_length(self, WireWriter w, Py_ssize_t start) except -1
    cdef Batch frame_control(self, bytes data)
    cpdef discard(self)
    cdef Batch new_batch(self)
    cdef int recycle(self, Batch batch) except -1
    cpdef list next_sns(self)
    cpdef list backlog(self)
