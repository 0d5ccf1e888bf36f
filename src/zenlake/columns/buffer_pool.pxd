cimport cython

@cython.final
@cython.no_gc
cdef class Block:
    cdef Pool pool
    cdef object memory
    cdef object address
    cdef readonly Py_ssize_t size
    cdef unsigned char* data
    cdef object part(self, Py_ssize_t size)

@cython.final
cdef class Pool:
    cdef dict free
    cdef Py_ssize_t kept
    cdef bytes nothing
    cdef bytes zeros(self, Py_ssize_t size)
    cdef Block block(self, Py_ssize_t size)
    cdef keep(self, memory, Py_ssize_t size)
