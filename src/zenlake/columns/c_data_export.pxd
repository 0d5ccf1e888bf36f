cimport cython
from cpython.ref cimport PyObject
from zenlake.columns.buffer_pool cimport Block

cdef extern from "Python.h":
    int Py_IsInitialized() nogil

# The struct of the Arrow C Data Interface.
cdef struct ArrowArray:
    long long length
    long long null_count
    long long offset
    long long n_buffers
    long long n_children
    const void** buffers
    ArrowArray** children
    ArrowArray* dictionary
    void (*release)(ArrowArray*) noexcept nogil
    void* private_data

# A record batch with its arrays of pointers, in one allocation. The structs of its columns follow in the same memory.
cdef struct ExportedBuffers:
    ArrowArray batch
    PyObject* owners
    const void* no_buffer
    ArrowArray* columns
    ArrowArray** children
    const void** buffers

cdef void release_batch(ArrowArray* batch) noexcept nogil
cdef void release_column(ArrowArray* each) noexcept nogil

@cython.final
cdef class RecordBatchExport:
    cdef Py_ssize_t rows
    cdef Py_ssize_t count
    cdef list owners
    cdef list types
    cdef list parts
    cdef ExportedBuffers* exported
    cdef int allocate(self, Py_ssize_t columns) except -1
    cdef int column(self, type_, Py_ssize_t nulls) except -1
    cdef int buffer(self, owner, Py_ssize_t size) except -1
    cdef object record_batch(self, schema)
