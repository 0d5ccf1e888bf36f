# SPDX-License-Identifier: Apache-2.0
"""Counter of the allocations of Python, including short-lived objects: C code that wraps the allocators."""

import ctypes
import shlex
import shutil
import subprocess
import sysconfig

COUNTER = r"""
#include <Python.h>
#define DOMAINS 2
static PyMemAllocatorDomain domains[DOMAINS] = {PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ};
static PyMemAllocatorEx before[DOMAINS];
static long long count;
static void *some(void *c, size_t n) { PyMemAllocatorEx *a = c; count++; return a->malloc(a->ctx, n); }
static void *zeros(void *c, size_t n, size_t m) { PyMemAllocatorEx *a = c; count++; return a->calloc(a->ctx, n, m); }
static void *more(void *c, void *p, size_t n) { PyMemAllocatorEx *a = c; count += p == NULL; return a->realloc(a->ctx, p, n); }
static void none(void *c, void *p) { PyMemAllocatorEx *a = c; a->free(a->ctx, p); }
void begin(void) {
    for (int i = 0; i < DOMAINS; i++) {
        PyMem_GetAllocator(domains[i], &before[i]);
        PyMemAllocatorEx counting = {&before[i], some, zeros, more, none};
        PyMem_SetAllocator(domains[i], &counting);
    }
}
void end(void) { for (int i = 0; i < DOMAINS; i++) PyMem_SetAllocator(domains[i], &before[i]); }
long long counted(void) { return count; }
"""


def compiler():
    """The one that Python was built with, if it is here."""
    command = shlex.split(sysconfig.get_config_var("CC") or "")
    return command if command and shutil.which(command[0]) else None


class Counter:
    """Count allocations between `begin` and `end`. `counted` returns the number so far."""

    def __init__(self, folder):
        (folder / "counter.c").write_text(COUNTER)
        headers = sysconfig.get_path("include")
        subprocess.run(
            [*compiler(), "-O1", "-shared", "-fPIC", "-I", headers, "-o", folder / "counter.so", folder / "counter.c"],
            check=True,
        )
        library = ctypes.PyDLL(str(folder / "counter.so"))  # with the GIL held
        library.counted.restype = ctypes.c_longlong
        self.begin, self.end, self.counted = library.begin, library.end, library.counted
