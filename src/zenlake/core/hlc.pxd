# SPDX-License-Identifier: Apache-2.0
cdef class HybridClock:
    cdef public unsigned long long last
    cdef public unsigned long long max_delta
    cpdef unsigned long long tick(self, unsigned long long now) noexcept
    cpdef bint merge(self, unsigned long long received, unsigned long long now) noexcept

cpdef unsigned long long ntp64_of(unsigned long long ns) noexcept
