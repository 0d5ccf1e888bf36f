from zenlake.columns.table_builders cimport MessagesBuilder
from zenlake.columns.samples_builder cimport SamplesBuilder
from zenlake.session.key_table cimport KeyTable
from zenlake.wire.push_scan cimport PushFields

cdef Py_ssize_t decode_push(SamplesBuilder samples, const unsigned char* data, Py_ssize_t at, Py_ssize_t end, bint direction,
                           Py_ssize_t max_count) noexcept nogil
cdef void stage_push(SamplesBuilder samples, Py_ssize_t i, Py_ssize_t at, PushFields* push, bint direction) noexcept nogil
cdef int decode_push_messages(MessagesBuilder messages, SamplesBuilder samples, Py_ssize_t count, int index, KeyTable opener,
                    KeyTable acceptor) except -1 nogil
