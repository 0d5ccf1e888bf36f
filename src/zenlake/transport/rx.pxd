cimport cython
from zenlake.session.lanes cimport Lanes
from zenlake.transport.memory_budget cimport MemoryBudget
from zenlake.wire.batch_reader cimport BatchReader

cdef class Sink:
    cdef public bint accepts_runs
    cdef public bint takes_references
    cdef public int suspended
    cpdef int begin(self) except -1
    cpdef int finish(self) except -1
    cpdef int on_message(self, int kind, BatchReader reader) except -1
    cpdef Py_ssize_t on_run(self, BatchReader reader) except -1

cdef bint has_references(int kind, BatchReader reader) except -1

@cython.final
cdef class RxArena:
    cdef unsigned char[::1] buf
    cdef unsigned char* data
    cdef object whole
    cdef BatchReader reader
    cdef BatchReader reassembly_reader
    cdef BatchReader decompressed_reader

@cython.final
cdef class RxPath:
    cdef RxArena arena
    cdef object owner
    cdef public Sink sink
    cdef readonly int prefix
    cdef Py_ssize_t limit
    cdef Py_ssize_t batch_size
    cdef bytes incomplete
    cdef bytes rest
    cdef bint rest_in_frame
    cdef object retry_message
    cdef int priority
    cdef bint reliable
    cdef object waiting
    cdef Py_ssize_t waiting_size
    cdef Py_ssize_t stored
    cdef Lanes lanes
    cdef public object tee
    cdef readonly bint is_open
    cdef readonly bint stopped
    cdef bint qos
    cdef bint compression
    cdef bint low_latency
    cdef readonly unsigned long long batches
    cdef readonly unsigned long long bytes_in
    cdef readonly unsigned long long messages
    cdef readonly unsigned long long missing
    cdef readonly unsigned long long old
    cdef readonly unsigned long long lost
    cdef public object shared
    cdef object mounted
    cdef readonly unsigned long long refused
    cdef public MemoryBudget budget
    cdef public object account
    cdef readonly Py_ssize_t held
    cdef Py_ssize_t max_message_size
    cpdef start(self, Lanes lanes, Py_ssize_t batch_size, bint qos, bint compression, bint low_latency)
    cpdef stop(self)
    cpdef get_buffer(self)
    cpdef int receive_buffered(self, Py_ssize_t size) except -1
    cdef int process_batches(self, Py_ssize_t size) except -1
    cpdef int receive(self, data) except -1
    cdef int feed(self, view) except -1
    cdef int store(self, data, bint first) except -1
    cpdef int resume(self) except -1
    cdef int process_stored(self) except -1
    cdef int suspend(self, BatchReader reader) except -1
    cdef int charge(self) except -1
    cdef int batch(self, Py_ssize_t at, Py_ssize_t end) except -1
    cdef int walk(self, BatchReader reader, Py_ssize_t at, Py_ssize_t end) except -1
    cdef int deliver_messages(self, BatchReader reader) except -1
    cdef bint accept(self, int priority, bint reliable, unsigned long long sn) except -1
    cdef int update_held(self, Py_ssize_t size) except -1
    cdef int join(self, BatchReader reader) except -1
    cdef int deliver(self, message, int priority, bint reliable) except -1
    cdef object mount(self, int kind, BatchReader reader)
    cdef int take_references(self, int kind, BatchReader reader) except -1
    cdef object copy_references(self, int kind, BatchReader whole)
    cdef bytes copy_batch(self, const unsigned char[::1] buf, Py_ssize_t at, Py_ssize_t end)
    cdef int walk_copy(self, bytes data, Py_ssize_t wire_size, bint compressed) except -1
