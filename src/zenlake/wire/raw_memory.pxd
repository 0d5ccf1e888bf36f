from libc.string cimport memcmp, memcpy

# Functions that run for every field are inlined, so their compiled form is here. raw_memory.py has the uncompiled form.

cdef inline void copy_ends(unsigned char* target, Py_ssize_t to, const unsigned char* source, Py_ssize_t at,
                           Py_ssize_t size, Py_ssize_t half) noexcept nogil:
    memcpy(target + to, source + at, half)  # two moves that may overlap
    memcpy(target + to + size - half, source + at + size - half, half)

cdef inline void copy(unsigned char* target, Py_ssize_t to, const unsigned char* source, Py_ssize_t at,
                      Py_ssize_t size) noexcept nogil:
    if 8 <= size <= 16:  # most keys and payloads have this size, and a call costs more
        copy_ends(target, to, source, at, size, 8)
    elif 16 < size <= 32:
        copy_ends(target, to, source, at, size, 16)
    elif 32 < size <= 64:
        copy_ends(target, to, source, at, size, 32)
    else:
        memcpy(target + to, source + at, size)

cdef enum:
    PADDING = 32

cdef inline void copy_padded(unsigned char* target, Py_ssize_t to, const unsigned char* source, Py_ssize_t at,
                             Py_ssize_t size) noexcept nogil:
    memcpy(target + to, source + at, PADDING)

cdef inline bint equal_bytes(const unsigned char* one, Py_ssize_t at, const unsigned char* other, Py_ssize_t to,
                      Py_ssize_t size) noexcept nogil:
    cdef unsigned long long[2] left
    cdef unsigned long long[2] right
    if size == 16:  # most node ids
        memcpy(left, one + at, 16)
        memcpy(right, other + to, 16)
        return (left[0] ^ right[0]) | (left[1] ^ right[1]) == 0
    return memcmp(one + at, other + to, size) == 0

cdef inline unsigned long long eight_bytes(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    cdef unsigned long long word
    memcpy(&word, data + at, 8)
    return word

cdef extern from *:
    """
    #ifdef __GNUC__
    #define zenlake_fetch(place) __builtin_prefetch(place)
    #else
    #define zenlake_fetch(place)
    #endif
    """
    void zenlake_fetch(const unsigned char* place) noexcept nogil

cdef enum:
    LINE = 64  # bytes that a cache fetches at once

cdef inline void fetch_ahead(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    zenlake_fetch(data + at)
    zenlake_fetch(data + at + LINE)

cdef inline unsigned long long join_sevens(unsigned long long word) noexcept nogil:
    # Join neighbours: groups of 7 bits become 14, 28 and then 56 bits.
    word = (word & 0x007F007F007F007FULL) | (word >> 1 & 0x3F803F803F803F80ULL)
    word = (word & 0x00003FFF00003FFFULL) | (word >> 2 & 0x0FFFC0000FFFC000ULL)
    return (word & 0x000000000FFFFFFFULL) | (word >> 4 & 0x00FFFFFFF0000000ULL)

cdef inline long long short_vle(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    cdef long long value = data[at]
    if value < 0x80:
        return value << 3 | 1
    value = value & 0x7F | <long long>data[at + 1] << 7
    if value < 1 << 14:
        return value << 3 | 2
    value = value & 0x3FFF | <long long>data[at + 2] << 14
    if value < 1 << 21:
        return value << 3 | 3
    value = value & 0x1FFFFF | <long long>data[at + 3] << 21
    return value << 3 | 4 if value < 1 << 28 else -1

cdef bytes take(const unsigned char* data, Py_ssize_t at, Py_ssize_t size)
cdef Py_ssize_t utf8_fault(const unsigned char* data, Py_ssize_t at, Py_ssize_t size) except -2 nogil
cdef Py_ssize_t decoder_fault(const unsigned char* data, Py_ssize_t at, Py_ssize_t size) except -2 with gil
cdef int eight_flags(const unsigned char* data, Py_ssize_t at) noexcept nogil
