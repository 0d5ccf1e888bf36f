from zenlake.columns.samples cimport MOST_BYTES, Samples, as_signed

cdef enum:
    AHEAD = 48  # bytes
    OTHER = -1  # instead of a place: not the usual message
    # PUSH is Z|M|N|id, PUT is Z|E|T|id
    SENDERS = 0x40
    SUFFIX = 0x20
    STAMPED = 0x20
    ENCODED = 0x40
    KIND = 0x1F
    # Extensions, without their Z
    QOS = 0x21
    SOURCE = 0x41
    ATTACHMENT = 0x43
    DEFAULT_QOS = 0x05

cdef Py_ssize_t note_usual(Samples samples, const unsigned char* data, Py_ssize_t at, Py_ssize_t end, bint direction) noexcept nogil
cdef Py_ssize_t note_push(Samples samples, Py_ssize_t i, const unsigned char* data, Py_ssize_t at, Py_ssize_t end,
                          bint direction) noexcept nogil
cdef Py_ssize_t note_put(Samples samples, Py_ssize_t i, const unsigned char* data, Py_ssize_t at, Py_ssize_t end,
                         int header) noexcept nogil
cdef Py_ssize_t note_stamp(Samples samples, Py_ssize_t i, const unsigned char* data, Py_ssize_t at) noexcept nogil
cdef Py_ssize_t note_encoding(Samples samples, Py_ssize_t i, const unsigned char* data, Py_ssize_t at) noexcept nogil
cdef Py_ssize_t note_exts(Samples samples, Py_ssize_t i, const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t note_source(Samples samples, Py_ssize_t i, const unsigned char* data, Py_ssize_t at) noexcept nogil
