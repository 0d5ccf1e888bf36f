from zenlake.wire.cursor cimport Blob, Cursor, Field
from zenlake.wire.writer cimport WireWriter

cdef class Message(Field):
    cdef readonly Blob exts
    cdef readonly int unknown
    cdef tuple parts

    cdef int read(self, Cursor c, int h) except -1 nogil
    cdef int write(self, WireWriter w) except -1 nogil
    cdef int fail_no_writer(self) except -1 with gil
    cdef int read_ext(self, Cursor c, int kind) except -1 nogil
    cdef int read_exts(self, Cursor c, int h) except -1 nogil
    cdef inline int next_exts(self, Cursor c, int h) except -1 nogil:
        if h & 0x80:
            return self.read_exts(c, h)
        self.unknown = 0
        self.exts.clear()
        return 0
    cdef int write_unknown(self, WireWriter w) except -1 nogil
    cdef int copy_unknown(self, WireWriter w) except -1 with gil
    cdef dict known_exts(self)
