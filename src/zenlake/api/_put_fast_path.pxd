# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake.network.prepared_put cimport PreparedPut

@cython.final
cdef class SessionLifetime:
    cdef public str over

cdef class SessionPut:
    cdef readonly SessionLifetime _life
    cdef dict _posts

cdef class PublisherPut:
    cdef public SessionLifetime _life
    cdef public PreparedPut _get_prepared_put
