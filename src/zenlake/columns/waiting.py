# SPDX-License-Identifier: Apache-2.0
"""Rows that were read and not yet written: where their bytes lie, and their numbers.

Written row by row, each column would be visited for every row. So what a row consists of is only noted, and up to a thousand rows
later each column takes what it needs of all of them in one tight loop (`gather`).
"""

from types import SimpleNamespace

import cython

MOST_WAITING = 1024  # what they note stays in the processor's nearer caches

if not cython.compiled:  # compiled: constants and structs of C, in the .pxd, which says what they hold
    NONE = 0
    SOME = 1
    ALL = 2

    def runs():
        return SimpleNamespace(at=[0] * MOST_WAITING, size=[0] * MOST_WAITING)

    def notes():
        made = SimpleNamespace()
        for name in ("message", "scope", "manner", "encoding", "ntp64", "time", "eid", "sn"):
            setattr(made, name, [0] * MOST_WAITING)
        for name in ("suffix", "payload", "slices", "schema", "stamp", "source", "attachment", "responder"):
            setattr(made, name, runs())
        return made


class Spans:
    """A run of bytes for each row that waits: where it begins and its size, which is -1 if there is none.

    None of them has one until it is noted, so that a row need not say what it lacks; `noted` tells whether there may be one.
    """

    def over(self, at, size):
        """These two parts of somebody's notes."""
        self.at = at
        self.size = size
        self.noted = True
        self.forget(0, MOST_WAITING)
        self.noted = False
        return self

    def forget(self, first, last):
        """These rows have none."""
        i: cython.Py_ssize_t
        if self.noted:
            for i in range(first, last):
                self.size[i] = -1

    def look(self, count):
        """Learn which of the first rows have one (`presence`): ALL, and then they take `total` bytes, NONE or SOME; and whether
        all have the same size (`alike`)."""
        i: cython.Py_ssize_t
        self.presence = NONE
        self.alike = False
        if not self.noted:
            return
        either: cython.longlong = 0
        each: cython.longlong = -1
        total: cython.longlong = 0
        for i in range(count):  # by their signs, several at once
            either |= self.size[i]
            each &= self.size[i]
            total += self.size[i]
        self.total = total
        self.presence = ALL if either >= 0 else NONE if each < 0 else SOME
        self.alike = either == each
        self.noted = self.presence != NONE

    if not cython.compiled:  # compiled: inline, in the .pxd

        def note(self, row, run):
            self.at[row] = run.at
            self.size[row] = run.size
            if run.size >= 0:
                self.noted = True

        def skip(self, row):
            """This row has none."""
            self.size[row] = -1

        def move(self, row, by):
            self.at[row] += by
