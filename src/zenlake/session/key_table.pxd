cimport cython

@cython.final
cdef class KeyMemory:
    cdef readonly Py_ssize_t limit
    cdef readonly Py_ssize_t table_limit
    cdef public Py_ssize_t used
    cdef public Py_ssize_t refused

@cython.final
cdef class KeyTable:
    cdef readonly int room
    cdef readonly int count
    cdef Py_ssize_t used
    cdef Py_ssize_t wasted
    cdef unsigned char[::1] text
    cdef unsigned char* data
    cdef long long[::1] at
    cdef int[::1] size
    cdef keep(self, text)
    cdef grow_ids(self, int room)
    cpdef bint declare(self, int id, bytes key) except -1
    cpdef Py_ssize_t cost(self)
    cpdef forget(self, int id)
    cdef make_room(self, Py_ssize_t size)
    cpdef bint contains(self, int id) noexcept nogil
    cpdef bytes get(self, int id)
    cdef inline Py_ssize_t size_of(self, int id) noexcept nogil:
        return self.size[id] if 0 < id < self.room else -1
