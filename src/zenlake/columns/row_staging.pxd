cimport cython
from zenlake.wire.cursor cimport Blob

cdef enum:
    NONE = 0
    SOME = 1
    ALL = 2

# A number of each row that waits: MOST_WAITING, and eight more, so that what one row notes lies in different lines of the cache.
ctypedef long long[1032] Each

cdef struct Runs:
    Each at
    Each size

# One struct, embedded in the table: offsets are known at compile time.
cdef struct StagedRows:
    Each message  # its size, if it was staged by the fast path
    Each scope  # of the key; below zero if the side that accepted the session declared the id
    Each manner  # QoS, and whether it is a DEL
    Each encoding  # below zero: none
    Each ntp64
    Each time
    Each eid
    Each sn
    Runs suffix
    Runs payload
    Runs slices
    Runs schema
    Runs stamp  # the timestamp's node
    Runs source
    Runs attachment
    Runs responder
    Runs stack

@cython.final
cdef class SpanStaging:
    cdef long long* at
    cdef long long* size
    cdef int presence
    cdef bint alike
    cdef Py_ssize_t total
    cdef bint noted
    cdef SpanStaging over(self, long long* at, long long* size)
    cdef void forget(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil
    cdef void look(self, Py_ssize_t count) noexcept nogil
    cdef inline void stage(self, Py_ssize_t row, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
        if size >= 0:
            self.at[row] = at
            self.size[row] = size
            self.noted = True
    cdef inline void note(self, Py_ssize_t row, Blob run) noexcept nogil:
        self.at[row] = run.at
        self.size[row] = run.size
        if run.size >= 0:
            self.noted = True
    cdef inline void skip(self, Py_ssize_t row) noexcept nogil:
        self.size[row] = -1
    cdef inline void move(self, Py_ssize_t row, Py_ssize_t by) noexcept nogil:
        self.at[row] += by
