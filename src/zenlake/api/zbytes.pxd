# SPDX-License-Identifier: Apache-2.0
from cpython.buffer cimport Py_buffer

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(object made)

cdef class ZBytes:
    cdef object _data

# Inline, since every sample whose payload is read has one; zbytes.py has the other form.

cdef inline void unwatched(object made):
    PyObject_GC_UnTrack(made)

cdef inline ZBytes zbytes_of(bytes data):
    cdef ZBytes made = ZBytes.__new__(ZBytes)
    made._data = data
    unwatched(made)
    return made
