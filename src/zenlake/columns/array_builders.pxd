cimport cython
from zenlake.columns.c_data_export cimport RecordBatchExport
from zenlake.columns.buffer_pool cimport Block, Pool
from zenlake.columns.row_staging cimport SpanStaging
from zenlake.session.key_table cimport KeyTable
from zenlake.wire.raw_memory cimport copy

cdef bytearray pack(const unsigned char* flags, Py_ssize_t count)
cdef bytearray widen(const unsigned char* values, Py_ssize_t count)

cdef class ArrayBuilder:
    cdef object type
    cdef Pool pool
    cdef Block block
    cdef readonly bint on
    cdef Py_ssize_t width
    cdef Py_ssize_t rows
    cdef Py_ssize_t dense
    cdef Py_ssize_t marks
    cdef unsigned char[::1] marked
    cdef unsigned char* valid
    cdef int reset(self) except -1
    cdef object validity(self, Py_ssize_t count)
    cdef bint is_written(self)
    cdef int export(self, RecordBatchExport export, Py_ssize_t count) except -1
    cdef int export_nulls(self, RecordBatchExport export, Py_ssize_t count) except -1
    cdef int export_values(self, RecordBatchExport export, Py_ssize_t count) except -1
    cdef void clear_nulls(self, Py_ssize_t count) noexcept nogil
    @cython.final
    cdef int values(self, Py_ssize_t width) except -1
    @cython.final
    cdef void mark_rows(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil
    cdef inline void mark(self, Py_ssize_t row) noexcept nogil:
        if self.dense == row:
            self.dense = row + 1
        else:
            self.valid[row] = 1
            self.marks += 1

@cython.final
cdef class Int64Builder(ArrayBuilder):
    cdef long long* data
    cdef void fill(self, Py_ssize_t first, Py_ssize_t last, long long value) noexcept nogil
    cdef long long* next_rows(self, Py_ssize_t first, Py_ssize_t count) noexcept nogil
    cdef int gather(self, Py_ssize_t first, const long long* values, SpanStaging owners, Py_ssize_t count) except -1 nogil
    cdef inline void put(self, Py_ssize_t row, long long value) noexcept nogil:
        if self.on:
            self.data[row] = value
            self.mark(row)

@cython.final
cdef class Int32Builder(ArrayBuilder):
    cdef int* data
    cdef void fill(self, Py_ssize_t first, Py_ssize_t last, int value) noexcept nogil
    cdef void count(self, Py_ssize_t first, Py_ssize_t last, int value) noexcept nogil
    cdef inline void put(self, Py_ssize_t row, int value) noexcept nogil:
        if self.on:
            self.data[row] = value
            self.mark(row)

@cython.final
cdef class SmallIntBuilder(ArrayBuilder):
    cdef unsigned char* data
    cdef void fill(self, Py_ssize_t first, Py_ssize_t last, int value) noexcept nogil
    cdef inline void put(self, Py_ssize_t row, int value) noexcept nogil:
        if self.on:
            self.data[row] = value
            self.mark(row)

@cython.final
cdef class TextBuilder(ArrayBuilder):
    cdef Block offsets_block
    cdef int* offsets
    cdef unsigned char* data
    cdef Py_ssize_t capacity
    cdef readonly Py_ssize_t used
    cdef Py_ssize_t offset_rows
    cdef int use_block(self, Block block) except -1
    cdef int grow(self, Py_ssize_t room) except -1 with gil
    cdef void begin(self, Py_ssize_t row) noexcept nogil
    cdef int add(self, const unsigned char* source, Py_ssize_t at, Py_ssize_t size) except -1 nogil
    cdef void end(self, Py_ssize_t row) noexcept nogil
    cdef int put_after_nulls(self, Py_ssize_t row, const unsigned char* source, Py_ssize_t at,
                             Py_ssize_t size) except -1 nogil
    cdef inline int put(self, Py_ssize_t row, const unsigned char* source, Py_ssize_t at, Py_ssize_t size) except -1 nogil:
        if not self.on:
            return 0
        if self.offset_rows != row or self.capacity - self.used < size:
            return self.put_after_nulls(row, source, at, size)
        copy(self.data, self.used, source, at, size)
        self.used += size
        self.offset_rows = row + 1
        self.offsets[row + 1] = self.used
        self.mark(row)
        return 0
    cdef int fill(self, Py_ssize_t first, Py_ssize_t last, const unsigned char* source, Py_ssize_t at,
                  Py_ssize_t size) except -1 nogil
    cdef int gather(self, Py_ssize_t first, SpanStaging spans, Py_ssize_t count, const unsigned char* source) except -1 nogil
    cdef int gather_equal(self, Py_ssize_t first, const long long* places, Py_ssize_t size, Py_ssize_t count,
                          const unsigned char* source) except -1 nogil
    cdef Py_ssize_t gather_declared(self, Py_ssize_t first, const long long* numbers, int sign, KeyTable keys,
                                    Py_ssize_t count) except -1 nogil
    cdef int make_room(self, Py_ssize_t size) except -1 nogil
    cdef int end_rows(self, Py_ssize_t first, Py_ssize_t last, Py_ssize_t used) except -1 nogil
    cpdef put_value(self, Py_ssize_t row, value)
