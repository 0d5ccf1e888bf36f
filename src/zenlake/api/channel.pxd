# SPDX-License-Identifier: Apache-2.0

cdef class LazyItems:
    cdef Py_ssize_t left
    cdef object next(self)

cdef class Channel:
    cdef object items
    cdef LazyItems several
    cdef Py_ssize_t count
    cdef Py_ssize_t capacity
    cdef bint ring
    cdef bint refuses
    cdef bint holds
    cdef bint jammed
    cdef object lock
    cdef object waiting
    cdef object held
    cdef bint closed
    cdef bint orphaned
    cdef bint paused
    cdef public object source
    cdef public object wake
    cdef public unsigned long long dropped
    cdef int push(self, item) except -1
    cdef int push_several(self, LazyItems several) except -1
    cdef int add(self, item, Py_ssize_t many) except -1
    cdef bint has_room_for(self, bint block) except -1
    cdef bint hold(self, bint block) except -1
    cdef int full(self) except -1
    cdef int forget(self) except -1
    cdef object take(self, timeout)
    cdef object pop(self)
    cdef object wait(self, timeout)
    cdef object closed_error(self)
    cdef int notify(self) except -1
    cdef int unblock_writer(self) except -1
    cdef int release_held(self) except -1
    cdef int discard(self) except -1

cdef int wake_first(object wakeups) except -1
