# SPDX-License-Identifier: Apache-2.0
from cpython.buffer cimport Py_buffer

cdef class ZBytes:
    cdef object _data
