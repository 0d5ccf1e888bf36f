# SPDX-License-Identifier: Apache-2.0
"""Samples as they arrive, one call each, straight from the reader's record into columns."""

import cython

if cython.compiled:
    from cython.cimports.zenlake.columns.rows import Place
    from cython.cimports.zenlake.columns.samples import Samples
    from cython.cimports.zenlake.session.keys import KeyTable
    from cython.cimports.zenlake.wire.memory import copy
else:
    from zenlake.columns.rows import Place
    from zenlake.columns.samples import Samples
    from zenlake.session.keys import KeyTable
    from zenlake.wire.memory import copy

__all__ = ["COLUMNS", "LiveSamples"]

COLUMNS = [
    "received", "key", "kind", "payload", "encoding", "schema", "timestamp", "ntp64", "timestamp_id", "source_zid",
    "source_eid", "source_sn", "attachment", "priority", "congestion", "express", "reliable",
]  # fmt: skip

STAGE = cython.declare(cython.Py_ssize_t, 65536)


class LiveSamples:
    """A table of samples while it grows. `add_...` tell whether it is full: then `finish` it before the next.

    What a row consists of is kept on a stage, since the reader's memory is written again as soon as a sample was shown.
    """

    def __init__(self, columns=None, rows=16384, size=32 << 20):
        if rows < 1 or size < 1:
            raise ValueError("a record batch holds at least one row and one byte")
        self.samples = Samples(COLUMNS if columns is None else columns, rows)
        self.place = Place()
        self.keys = KeyTable()  # nobody's: keys come whole
        self.rows = rows
        self.size = size
        self.stage = bytearray(STAGE)
        self.data = cython.address(self.stage[0]) if cython.compiled else self.stage
        self.used = 0

    def __len__(self):
        return self.samples.row

    def add_push(self, key, reader, received_ns):
        """A publication: the record is `reader.push`, its whole key is told."""
        self.begin(key, reader, received_ns)
        self.samples.note_push(self.place, reader.push, reader.c.data)
        return self.end(reader)

    def add_reply(self, key, reader, received_ns):
        """An answer that is a sample: the record is `reader.response`."""
        self.begin(key, reader, received_ns)
        self.samples.note_reply(self.place, reader.response, reader.c.data)
        return self.end(reader)

    def begin(self, key, reader, received_ns):
        samples: Samples = self.samples
        place: Place = self.place
        if (
            received_ns != place.received_ns
            or reader.frame.sn != place.sn
            or reader.frame.reliable != place.reliable
            or reader.in_frame != place.in_lane
        ):
            samples.settle(place)  # the rows before
            place.received_ns = received_ns
            place.in_lane = reader.in_frame
            place.reliable = reader.frame.reliable
            place.sn = reader.frame.sn
        if samples.is_crowded() or STAGE - self.used < reader.c.at - reader.start:
            self.gather()
        samples.key.put(samples.row, key, 0, len(key))
        samples.note_no_key()
        return 0

    def end(self, reader):
        size: cython.Py_ssize_t = reader.c.at - reader.start
        if size > STAGE:
            self.gather()  # from where it lies
        else:
            copy(self.data, self.used, reader.c.data, reader.start, size)
            self.samples.move(self.used - reader.start, self.data)
            self.used += size
        return self.samples.row >= self.rows or self.samples.held() + self.used >= self.size

    def gather(self):
        self.samples.gather(self.keys, self.keys)
        self.used = 0
        return 0

    def finish(self):
        """What has gathered, as a RecordBatch; then it is empty again."""
        self.gather()
        self.samples.settle(self.place)
        return self.samples.finish()
