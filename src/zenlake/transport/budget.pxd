cimport cython

@cython.final
cdef class Budget:
    cdef readonly Py_ssize_t limit
    cdef readonly Py_ssize_t held
    cdef public unsigned long long refused
    cdef object lock
    cdef int add(self, Py_ssize_t size) except -1
