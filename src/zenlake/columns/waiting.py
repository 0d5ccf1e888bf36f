# SPDX-License-Identifier: Apache-2.0
"""Rows that were read and not yet written: where their bytes lie, and their numbers.

Written row by row, each column would be visited for every row. So what a row consists of is only noted, and some hundred rows
later each column takes what it needs of all of them in one tight loop (`gather`).
"""

from array import array

import cython

MOST_WAITING = 256  # what they note stays in the processor's nearest caches


class Numbers:
    """A number for each row that waits."""

    def __init__(self):
        self.view = array("q", bytes(8 * MOST_WAITING))
        self.data = cython.address(self.view[0]) if cython.compiled else self.view


class Spans:
    """A run of bytes for each row that waits: where it begins and its size, which is -1 if there is none."""

    def __init__(self):
        self.begins = Numbers()
        self.sizes = Numbers()
        self.at = self.begins.data
        self.size = self.sizes.data

    def present(self, count):
        """How many of the first rows have one."""
        i: cython.Py_ssize_t
        absent: cython.longlong = 0
        for i in range(count):
            absent += self.size[i] >> 63 & 1  # the sign: a comparison would not be done for several at once
        return count - absent

    if not cython.compiled:  # compiled: inline, in the .pxd

        def note(self, row, run):
            self.at[row] = run.at
            self.size[row] = run.size

        def skip(self, row):
            """This row has none."""
            self.size[row] = -1

        def move(self, row, by):
            self.at[row] += by
