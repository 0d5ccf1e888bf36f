# SPDX-License-Identifier: Apache-2.0
cdef extern from *:
    """
    #include <signal.h>
    #include <stdint.h>
    #include <sys/mman.h>
    #include <unistd.h>

    #define ZENLAKE_MAX_GUARDS 1024

    static struct { uintptr_t begin, end; } zenlake_guards[ZENLAKE_MAX_GUARDS];
    static struct sigaction zenlake_previous;
    static uintptr_t zenlake_page;

    /* Runs in any thread. It only calls functions that POSIX or Linux allow in a handler. */
    static void zenlake_on_sigbus(int number, siginfo_t *info, void *context) {
        uintptr_t at = (uintptr_t)info->si_addr;
        (void)context;
        if (info->si_code == BUS_ADRERR)
            for (int i = 0; i < ZENLAKE_MAX_GUARDS; i++) {
                uintptr_t begin = __atomic_load_n(&zenlake_guards[i].begin, __ATOMIC_ACQUIRE);
                if (begin == 0 || at < begin || at >= __atomic_load_n(&zenlake_guards[i].end, __ATOMIC_ACQUIRE))
                    continue;
                void *page = mmap((void *)(at & ~(zenlake_page - 1)), zenlake_page, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
                if (page != MAP_FAILED)
                    return;
            }
        /* Not ours: the instruction runs again, and the fault reaches the previous handler. If that one returned, the process ends. */
        sigaction(number, &zenlake_previous, NULL);
        zenlake_previous.sa_flags = 0;
        zenlake_previous.sa_handler = SIG_DFL;
    }

    static int zenlake_guard(void *data, Py_ssize_t size) {
        struct sigaction action;
        zenlake_page = (uintptr_t)sysconf(_SC_PAGESIZE);
        if (sigaction(SIGBUS, NULL, &action) != 0)
            return -1;
        if (!(action.sa_flags & SA_SIGINFO) || action.sa_sigaction != zenlake_on_sigbus) {
            zenlake_previous = action;
            action.sa_sigaction = zenlake_on_sigbus;
            action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
            sigemptyset(&action.sa_mask);
            if (sigaction(SIGBUS, &action, NULL) != 0)
                return -1;
        }
        for (int i = 0; i < ZENLAKE_MAX_GUARDS; i++)
            if (zenlake_guards[i].begin == 0) {
                __atomic_store_n(&zenlake_guards[i].end, (uintptr_t)data + (uintptr_t)size, __ATOMIC_RELEASE);
                __atomic_store_n(&zenlake_guards[i].begin, (uintptr_t)data, __ATOMIC_RELEASE);
                return i;
            }
        return -1;
    }

    static void zenlake_unguard(int place) {
        __atomic_store_n(&zenlake_guards[place].begin, 0, __ATOMIC_RELEASE);
    }
    """
    int zenlake_guard(void* data, Py_ssize_t size) nogil
    void zenlake_unguard(int place) nogil

cpdef end_guard(int place)
cpdef copy_mapped(const unsigned char[::1] source, Py_ssize_t at, unsigned char[::1] target)
