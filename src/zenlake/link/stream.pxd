# SPDX-License-Identifier: Apache-2.0
cdef Py_ssize_t read_into(int number, view) except -1
cdef Py_ssize_t write_from(int number, view) except -1
