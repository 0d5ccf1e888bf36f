cimport cython
cimport zenlake.wire.message_ids as message_ids
from zenlake.wire.cursor cimport Blob, Cursor, Field
from zenlake.wire.writer cimport WireWriter

@cython.final
cdef class WireExpr(Field):
    cdef public int scope
    cdef public bint sender
    cdef readonly Blob suffix
    cdef int flags(self) noexcept nogil
    cdef int write(self, WireWriter w) except -1 nogil
    cdef inline int read(self, Cursor c, int h) except -1 nogil:
        self.sender = h & message_ids.SENDERS != 0
        self.scope = c.next_z("key_scope", 0xFFFF)
        if h & message_ids.SUFFIX:
            return c.text("key_suffix", self.suffix, 0xFFFF)
        self.suffix.clear()
        return 0
    cdef inline void clear(self) noexcept nogil:
        self.scope = 0
        self.sender = False
        self.suffix.clear()

@cython.final
cdef class Stamp(Field):
    cdef public unsigned long long ntp64
    cdef readonly Blob id
    cdef int read_ext(self, Cursor c) except -1 nogil
    cdef int write(self, WireWriter w) except -1 nogil
    cdef int write_ext(self, WireWriter w, int header) except -1 nogil
    cdef inline int read(self, Cursor c) except -1 nogil:
        self.ntp64 = c.next_time("timestamp.time")
        return c.next_zid("timestamp.id", self.id, c.next_z64("timestamp.id_len"))
    cdef inline void clear(self) noexcept nogil:
        self.ntp64 = 0
        self.id.clear()

@cython.final
cdef class EncodingField(Field):
    cdef public unsigned int id
    cdef readonly Blob schema
    cdef int read(self, Cursor c, const char* id, const char* schema) except -1 nogil
    cdef bint is_explicit(self) noexcept nogil
    cdef Py_ssize_t size(self) noexcept nogil
    cdef int write(self, WireWriter w) except -1 nogil
    cdef inline void clear(self) noexcept nogil:
        self.id = 0
        self.schema.clear()

@cython.final
cdef class Entity(Field):
    cdef readonly Blob zid
    cdef public unsigned int eid
    cdef int read(self, Cursor c) except -1 nogil
    cdef int read_ext(self, Cursor c) except -1 nogil
    cdef Py_ssize_t size(self) noexcept nogil
    cdef int write(self, WireWriter w) except -1 nogil
    cdef int write_ext(self, WireWriter w, int header) except -1 nogil
    cdef inline void clear(self) noexcept nogil:
        self.zid.clear()
        self.eid = 0

@cython.final
cdef class Source(Field):
    cdef readonly Entity entity
    cdef public unsigned int sn
    cdef int read_ext(self, Cursor c) except -1 nogil
    cdef int write_ext(self, WireWriter w, int header) except -1 nogil
    cdef inline void clear(self) noexcept nogil:
        self.entity.clear()
        self.sn = 0

@cython.final
cdef class OamBody(Field):
    cdef readonly int enc
    cdef readonly unsigned long long number
    cdef readonly Blob data
    cdef int begin(self, Cursor c, int h) except -1 nogil
    cdef int read(self, Cursor c) except -1 nogil
    cdef int write(self, WireWriter w) except -1 nogil
