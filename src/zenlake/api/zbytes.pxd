# SPDX-License-Identifier: Apache-2.0
cimport cython
from cpython.buffer cimport Py_buffer

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(object)

@cython.final
cdef class ZBytes:
    cdef object _data
    cdef object _shared
    cdef bytes whole(self)
    cdef object buffer(self)
    cdef int detach(self) except -1

# Inline, because every sample whose payload is read has one. The uncompiled form is in zbytes.py.

cdef inline ZBytes make_zbytes(bytes data):
    cdef ZBytes made = ZBytes.__new__(ZBytes)
    made._data = data
    return made
