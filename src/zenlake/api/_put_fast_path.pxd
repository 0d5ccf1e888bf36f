# SPDX-License-Identifier: Apache-2.0
cimport cython
from zenlake.network.prepared_put cimport Post

@cython.final
cdef class Life:
    cdef public str over

cdef class SessionPut:
    cdef readonly Life _life
    cdef dict _posts

cdef class PublisherPut:
    cdef public Life _life
    cdef public Post _post
