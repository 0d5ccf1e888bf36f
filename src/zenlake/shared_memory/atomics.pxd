# SPDX-License-Identifier: Apache-2.0
cimport cython
from cpython.object cimport PyObject
from cpython.pythread cimport PyThread_type_lock

cdef extern from *:
    """
    #include <stdint.h>
    #include <unistd.h>
    #define zenlake_load8(p) __atomic_load_n((const uint8_t *)(p), __ATOMIC_SEQ_CST)
    #define zenlake_load32(p) __atomic_load_n((const uint32_t *)(p), __ATOMIC_SEQ_CST)
    #define zenlake_load64(p) __atomic_load_n((const uint64_t *)(p), __ATOMIC_SEQ_CST)
    #define zenlake_store8(p, n) __atomic_store_n((uint8_t *)(p), (uint8_t)(n), __ATOMIC_SEQ_CST)
    #define zenlake_store32(p, n) __atomic_store_n((uint32_t *)(p), (uint32_t)(n), __ATOMIC_SEQ_CST)
    #define zenlake_store64(p, n) __atomic_store_n((uint64_t *)(p), (uint64_t)(n), __ATOMIC_SEQ_CST)
    #define zenlake_add32(p, n) __atomic_fetch_add((uint32_t *)(p), (uint32_t)(n), __ATOMIC_SEQ_CST)
    #define zenlake_or64(p, n) __atomic_fetch_or((uint64_t *)(p), (uint64_t)(n), __ATOMIC_SEQ_CST)
    #define zenlake_and64(p, n) __atomic_fetch_and((uint64_t *)(p), (uint64_t)(n), __ATOMIC_SEQ_CST)
    #ifdef Py_GIL_DISABLED
    #define zenlake_is_unused(data) 0
    #else
    #define zenlake_is_unused(data) (Py_REFCNT((PyObject *)(data)) == 1)
    #endif
    static inline void zenlake_renew_bytes(PyObject *data, Py_ssize_t size) {
        Py_SET_SIZE((PyVarObject *)data, size);
        ((PyBytesObject *)data)->ob_shash = -1;
        PyBytes_AS_STRING(data)[size] = 0;
    }
    """
    bint zenlake_is_unused(PyObject* data)
    void zenlake_renew_bytes(PyObject* data, Py_ssize_t size)
    int usleep(unsigned int) noexcept nogil
    unsigned int zenlake_load8(const void* place) noexcept nogil
    unsigned int zenlake_load32(const void* place) noexcept nogil
    unsigned long long zenlake_load64(const void* place) noexcept nogil
    void zenlake_store8(void* place, unsigned int value) noexcept nogil
    void zenlake_store32(void* place, unsigned int value) noexcept nogil
    void zenlake_store64(void* place, unsigned long long value) noexcept nogil
    unsigned int zenlake_add32(void* place, unsigned int value) noexcept nogil
    unsigned long long zenlake_or64(void* place, unsigned long long value) noexcept nogil
    unsigned long long zenlake_and64(void* place, unsigned long long value) noexcept nogil

cdef enum:
    SLOTS = 32768
    WORDS = 512
    SLOT_SIZE = 32
    BITMAP = 1048576
    METADATA_SIZE = 1310720

cdef struct WatchedBits:
    unsigned char* data
    unsigned long long[512] held
    unsigned long long[512] owned
    WatchedBits* next

@cython.final
cdef class CopyPool:
    cdef list recent
    cdef readonly Py_ssize_t total
    cdef double used

cdef class SharedWords:
    cdef unsigned char[::1] view
    cdef unsigned char* data
    cdef readonly Py_ssize_t size
    cdef unsigned char* place(self, Py_ssize_t at, int width) except NULL
    cpdef unsigned int load8(self, Py_ssize_t at) except? 0xFFFFFFFF
    cpdef unsigned int load32(self, Py_ssize_t at) except? 0xFFFFFFFF
    cpdef unsigned long long load64(self, Py_ssize_t at) except? 0xFFFFFFFFFFFFFFFF
    cpdef int store8(self, Py_ssize_t at, unsigned int value) except -1
    cpdef int store32(self, Py_ssize_t at, unsigned int value) except -1
    cpdef int store64(self, Py_ssize_t at, unsigned long long value) except -1
    cpdef unsigned int add32(self, Py_ssize_t at, unsigned int value) except? 0xFFFFFFFF
    cpdef close(self)

@cython.final
cdef class SlotTable(SharedWords):
    cdef WatchedBits* bits
    cdef unsigned int* counts
    cdef Watchdog watchdog
    cdef int check(self, Py_ssize_t index) except -1
    cpdef int hold(self, Py_ssize_t index) except -1
    cpdef int let_go(self, Py_ssize_t index) except -1
    cpdef int own(self, Py_ssize_t index) except -1
    cpdef int disown(self, Py_ssize_t index) except -1

@cython.final
cdef class Watchdog:
    cdef WatchedBits* first
    cdef PyThread_type_lock lock
    cdef unsigned int turns
    cdef int add(self, WatchedBits* bits) except -1
    cdef int remove(self, WatchedBits* bits) except -1
    cdef int confirm(self, bint validate) noexcept nogil
    cpdef int turn(self, bint validate) except -1
    cpdef int stop(self) except -1
