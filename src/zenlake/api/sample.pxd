# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake.api.zbytes cimport ZBytes
from zenlake.wire.cursor cimport Blob
from zenlake.wire.zenoh_body cimport Del, Put

@cython.final
cdef class Sample:
    cdef readonly object key_expr
    cdef object _payload
    cdef bint is_put
    cdef object _encoding
    cdef object _timestamp
    cdef unsigned long long ntp64
    cdef bytes clock
    cdef int qos
    cdef object _attachment
    cdef readonly object source_info
    cdef readonly object timestamp_stack

cdef bytes read_clock(const unsigned char* data, Py_ssize_t at, Py_ssize_t size)
cpdef ZBytes read_payload(Blob blob)
cpdef Sample make_sample(key_expr, Put put, Del delete, bint is_put, int qos, stack)

# Inline, because every sample is created here. The uncompiled form is in sample.py.

cdef inline Sample new_sample(key_expr, bint is_put, int qos):
    cdef Sample sample = Sample.__new__(Sample)
    sample.key_expr = key_expr
    sample.is_put = is_put
    sample.qos = qos
    return sample
