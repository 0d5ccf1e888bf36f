cimport cython
from zenlake.wire.cursor cimport Blob

cdef enum:
    NONE = 0
    SOME = 1
    ALL = 2

# One number for each staged row: MAX_STAGED_ROWS of them. The eight more place the numbers of one row on different cache lines.
ctypedef long long[1032] RowNumbers

cdef struct Spans:
    RowNumbers at
    RowNumbers size

# One struct, embedded in the table: offsets are known at compile time.
cdef struct StagedRows:
    RowNumbers message  # its size, if it was staged by the fast path
    RowNumbers scope  # of the key; negative if the acceptor of the session declared the id
    RowNumbers qos_and_kind  # QoS, and whether it is a DEL
    RowNumbers encoding  # negative if absent
    RowNumbers ntp64
    RowNumbers time
    RowNumbers eid
    RowNumbers sn
    Spans suffix
    Spans payload
    Spans slices
    Spans schema
    Spans stamp  # the node of the timestamp
    Spans source
    Spans attachment
    Spans responder
    Spans stack

@cython.final
cdef class SpanStaging:
    cdef long long* at
    cdef long long* size
    cdef int presence
    cdef bint equal_sizes
    cdef Py_ssize_t total
    cdef bint maybe_present
    cdef SpanStaging bind(self, long long* at, long long* size)
    cdef void clear(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil
    cdef void scan(self, Py_ssize_t count) noexcept nogil
    cdef inline void stage(self, Py_ssize_t row, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
        if size >= 0:
            self.at[row] = at
            self.size[row] = size
            self.maybe_present = True
    cdef inline void set(self, Py_ssize_t row, Blob run) noexcept nogil:
        self.at[row] = run.at
        self.size[row] = run.size
        if run.size >= 0:
            self.maybe_present = True
    cdef inline void skip(self, Py_ssize_t row) noexcept nogil:
        self.size[row] = -1
    cdef inline void shift(self, Py_ssize_t row, Py_ssize_t by) noexcept nogil:
        self.at[row] += by
