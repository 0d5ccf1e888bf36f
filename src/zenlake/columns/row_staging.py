# SPDX-License-Identifier: Apache-2.0
"""Staging area of rows: offsets of their bytes, and their numbers.

Writing row by row would visit every column for every row. A row is only staged, and up to a thousand rows later each
column gathers its values in one tight loop.
"""

from types import SimpleNamespace

import cython

MAX_STAGED_ROWS = 1024  # the staging area stays in the nearer caches

if not cython.compiled:  # compiled: C constants and structs, documented in the .pxd
    NONE = 0
    SOME = 1
    ALL = 2

    def make_spans():
        return SimpleNamespace(at=[0] * MAX_STAGED_ROWS, size=[0] * MAX_STAGED_ROWS)

    def make_staging():
        made = SimpleNamespace()
        for name in ("message", "scope", "qos_and_kind", "encoding", "ntp64", "time", "eid", "sn"):
            setattr(made, name, [0] * MAX_STAGED_ROWS)
        for name in ("suffix", "payload", "slices", "schema", "stamp", "source", "attachment", "responder", "stack"):
            setattr(made, name, make_spans())
        return made


class SpanStaging:
    """Byte ranges of staged rows: offset and size, -1 if absent.

    Ranges are absent by default, so a row need not mark missing fields. `maybe_present` states whether any may be present.
    """

    def bind(self, at, size):
        """Bind to two arrays of the staging area."""
        self.at = at
        self.size = size
        self.maybe_present = True
        self.clear(0, MAX_STAGED_ROWS)
        self.maybe_present = False
        return self

    def clear(self, first, last):
        """Mark rows as absent."""
        i: cython.Py_ssize_t
        if self.maybe_present:
            for i in range(first, last):
                self.size[i] = -1

    def scan(self, count):
        """Determine which rows are present (`presence`): ALL, NONE or SOME, their total bytes, and whether sizes are equal."""
        i: cython.Py_ssize_t
        self.presence = NONE
        self.equal_sizes = False
        if not self.maybe_present:
            return
        either: cython.longlong = 0
        each: cython.longlong = -1
        total: cython.longlong = 0
        for i in range(count):  # by their signs, several at a time
            either |= self.size[i]
            each &= self.size[i]
            total += self.size[i]
        self.total = total
        self.presence = ALL if either >= 0 else NONE if each < 0 else SOME
        self.equal_sizes = either == each
        self.maybe_present = self.presence != NONE

    if not cython.compiled:  # compiled: inline, in the .pxd

        def stage(self, row, at, size):
            """Stage the range of a row, whose size is -1 before."""
            if size >= 0:
                self.at[row] = at
                self.size[row] = size
                self.maybe_present = True

        def set(self, row, run):
            self.at[row] = run.at
            self.size[row] = run.size
            if run.size >= 0:
                self.maybe_present = True

        def skip(self, row):
            """Mark this row as absent."""
            self.size[row] = -1

        def shift(self, row, by):
            self.at[row] += by
