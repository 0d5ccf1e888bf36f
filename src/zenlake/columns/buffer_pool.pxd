cimport cython

@cython.final
@cython.no_gc
cdef class Block:
    cdef Pool pool
    cdef object memory
    cdef object address
    cdef readonly Py_ssize_t size
    cdef unsigned char* data
    cdef object trim(self, Py_ssize_t size)

@cython.final
cdef class Pool:
    cdef dict free
    cdef Py_ssize_t free_bytes
    cdef bytes zero_bytes
    cdef bytes zeros(self, Py_ssize_t size)
    cdef Block block(self, Py_ssize_t size)
    cdef recycle(self, memory, Py_ssize_t size)
