from zenlake.columns.table_builders cimport MessagesBuilder
from zenlake.columns.samples_builder cimport SamplesBuilder
from zenlake.session.key_table cimport KeyTable


cdef enum:
    AHEAD = 48  # bytes
    TAIL = 192  # bytes
    OTHER = -1  # instead of a place: not the usual message
    # Extensions, without their Z
    QOS = 0x21
    SOURCE = 0x41
    ATTACHMENT = 0x43
    DEFAULT_QOS = 0x05

# What it consists of is declared where it stands, so that it becomes one function of C.
cdef Py_ssize_t decode_push(SamplesBuilder samples, const unsigned char* data, Py_ssize_t at, Py_ssize_t end, bint direction,
                           Py_ssize_t most) noexcept nogil
cdef int decode_push_messages(MessagesBuilder messages, SamplesBuilder samples, Py_ssize_t count, int index, KeyTable opener,
                    KeyTable acceptor) except -1 nogil
