cimport cython

@cython.final
cdef class MemoryBudget:
    cdef readonly Py_ssize_t limit
    cdef readonly Py_ssize_t held
    cdef Py_ssize_t partial_bytes
    cdef public unsigned long long refused
    cdef object lock
    cdef int add(self, Py_ssize_t size, Py_ssize_t partial_bytes) except -1
    cdef Py_ssize_t room_for_partial(self) noexcept
