cimport zenlake.wire.message_ids as message_ids
from zenlake.wire.raw_memory cimport short_vle

cdef enum:
    OTHER = -1  # instead of an offset: another message, or not in a common layout
    AHEAD = 48  # bytes
    TAIL = 192  # bytes: a longer rest of a batch is not copied

# The fields of a publication. Offsets count from the start of the message. A size of -1 is an absent field.
cdef struct PushFields:
    int scope  # key id
    bint sender  # whether the sender declared it
    bint is_put
    int qos
    bint has_more  # whether it has extensions that are not in this struct
    unsigned long long ntp64
    int encoding
    int eid  # of the source
    int sn
    int suffix_at
    int suffix_size
    int clock_at
    int clock_size
    int schema_at
    int schema_size
    int source_at
    int source_size
    int attachment_at
    int attachment_size
    int payload_at
    int payload_size

cdef Py_ssize_t scan_end(const unsigned char* data, Py_ssize_t at, Py_ssize_t end, PushFields* push) noexcept nogil
cdef Py_ssize_t scan_fields(const unsigned char* data, Py_ssize_t at, Py_ssize_t end, Py_ssize_t safe, PushFields* push) noexcept nogil
cdef Py_ssize_t skip_ascii(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t scan_push_exts(const unsigned char* data, Py_ssize_t at, Py_ssize_t end, Py_ssize_t safe, PushFields* push) noexcept nogil
cdef Py_ssize_t skip_ext(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t scan_body(const unsigned char* data, Py_ssize_t at, Py_ssize_t end, Py_ssize_t safe, PushFields* push, Py_ssize_t start,
                          int header) noexcept nogil
cdef Py_ssize_t scan_source(const unsigned char* data, Py_ssize_t at, PushFields* push, Py_ssize_t start) noexcept nogil

cdef inline long long scan_key_id(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    cdef long long number
    if end - at < 5 or data[at] & (message_ids.KIND | message_ids.SUFFIX) != message_ids.PUSH:
        return OTHER
    number = short_vle(data, at + 1)
    return OTHER if number < 0 else (number >> 3) * 2 + (data[at] & message_ids.SENDERS != 0)

cdef inline Py_ssize_t scan_push(const unsigned char* data, Py_ssize_t at, Py_ssize_t end, PushFields* push) noexcept nogil:
    cdef Py_ssize_t beyond = OTHER
    if at >= end or data[at] & message_ids.KIND != message_ids.PUSH:
        return OTHER
    if at + AHEAD <= end:
        beyond = scan_fields(data, at, end, end - AHEAD, push)
    return scan_end(data, at, end, push) if beyond == OTHER else beyond
