# SPDX-License-Identifier: Apache-2.0
cimport cython

# Performance: `select.epoll.poll` creates a list, a tuple and two int objects for each event. This uses C integers only.
cdef extern from * nogil:
    """
    #define ZENLAKE_EVENTS 256
    #ifdef __linux__
    #include <sys/epoll.h>
    static inline int zenlake_wait_for_events(int epoll, int *numbers, int *masks, int timeout_ms) {
        struct epoll_event events[ZENLAKE_EVENTS];
        int i, count = epoll_wait(epoll, events, ZENLAKE_EVENTS, timeout_ms);
        if (count < 0)  // interrupted, for example by a stop of the process: serve ports before timers
            count = epoll_wait(epoll, events, ZENLAKE_EVENTS, 0);
        for (i = 0; i < count; i++) {
            numbers[i] = events[i].data.fd;
            masks[i] = (int)events[i].events;
        }
        return count;
    }
    #else
    static inline int zenlake_wait_for_events(int epoll, int *numbers, int *masks, int timeout_ms) { return 0; }
    #endif
    """
    int wait_for_events "zenlake_wait_for_events"(int epoll, int *numbers, int *masks, int timeout_ms)

cpdef unsigned long long wall() noexcept

cdef class PolledConnection:
    cdef bint ending
    cdef PolledConnection behind
    cdef int read(self, double now) except -1
    cdef int end_turn(self) except -1

@cython.final
cdef class Timer:
    cdef readonly double when
    cdef readonly object _call
    cpdef cancel(self)
    cpdef fire(self)

@cython.final
cdef class EventLoop:
    cdef object _poller
    cdef int _epoll
    cdef int _wake_read
    cdef int _wake_write
    cdef readonly object _calls
    cdef bint _awake
    cdef object _waking
    cdef readonly list _timers
    cdef unsigned long long _count
    cdef dict _ports
    cdef dict _by_number
    cdef dict _port_timers
    cdef dict _readers
    cdef PolledConnection _ending
    cdef bint _stopping
    cdef readonly object peer_errors
    cdef readonly object _thread
    cdef readonly unsigned long ident
    cpdef bint is_inside(self) noexcept
    cpdef call_soon(self, call)
    cpdef Timer call_at(self, double when, call)
    cdef _update(self, port)
    cdef _forget(self, int number)
    cpdef add_reader(self, int number, PolledConnection reader)
    cpdef run_at_turn_end(self, PolledConnection served)
    cdef double _turn(self, int timeout_ms) except -1
    cdef list _poll(self, int timeout_ms)
    cdef _serve(self, port, int mask, double now)
    cdef _end_turn(self)
    cdef double _next_delay(self) except? -2
    cdef _guard(self, call)
