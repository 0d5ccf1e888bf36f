from zenlake.columns.samples_builder cimport SamplesBuilder, as_signed
from zenlake.wire.raw_memory cimport join_sevens

cdef enum:
    MAX_TEMPLATE = 120  # bytes
    SCOPE = 1
    SOON = 2048  # bytes

# What it consists of is declared where it stands, so that it becomes one function of C.
cdef Py_ssize_t match_template(SamplesBuilder samples, Py_ssize_t first, Py_ssize_t last, const unsigned char* data, Py_ssize_t model,
                           Py_ssize_t lead, Py_ssize_t end, Py_ssize_t bound) noexcept nogil

cdef inline long long has_timestamp(unsigned long long first, unsigned long long last) noexcept nogil:
    return as_signed(join_sevens(first) | last & 0xFF00000000000000ULL)
