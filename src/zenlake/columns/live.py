# SPDX-License-Identifier: Apache-2.0
"""Samples as they arrive, straight from the bytes into columns: a run of usual publications at one go, anything else one by one.

What a row consists of is kept on a stage, since the reader's memory is written again as soon as a message was shown; keys are
numbered as they come, so that they are written as the decoder writes those that were declared.
"""

from array import array

import cython

if cython.compiled:
    from cython.cimports.zenlake.columns.rows import Place
    from cython.cimports.zenlake.columns.samples import Samples
    from cython.cimports.zenlake.columns.usual import AHEAD, note_usual
    from cython.cimports.zenlake.session.keys import KeyTable
    from cython.cimports.zenlake.wire.memory import copy
else:
    from zenlake.columns.rows import Place
    from zenlake.columns.samples import Samples
    from zenlake.columns.usual import AHEAD, note_usual
    from zenlake.session.keys import KeyTable
    from zenlake.wire.memory import copy

__all__ = ["COLUMNS", "LiveSamples"]

COLUMNS = [
    "received", "key", "kind", "payload", "encoding", "schema", "timestamp", "ntp64", "timestamp_id", "source_zid",
    "source_eid", "source_sn", "attachment", "priority", "congestion", "express", "reliable",
]  # fmt: skip

STAGE = cython.declare(cython.Py_ssize_t, 65536)
LONG = cython.declare(cython.Py_ssize_t, 16384)  # bytes of a run that is gathered at once, which spares the copy
MOST_KEYS = cython.declare(cython.int, 16384)  # that are remembered, and how many bytes of them
MOST_SPELLED = cython.declare(cython.Py_ssize_t, 1 << 20)
SLOTS = cython.declare(cython.Py_ssize_t, 1024)
NONE = cython.declare(cython.longlong, 1 << 30)  # no id is that large


class LiveSamples:
    """A table of samples while it grows. `add_...` and `end_run` tell whether it is full: then `finish` it before the next.

    A run is noted (`note_run`), its rows are given the keys that their ids stand for (`name_rows`, `learn`), and it ends
    (`end_run`) behind the last that has one: the rest is forgotten, and is still to be read.
    """

    def __init__(self, columns=None, rows=16384, size=32 << 20):
        if rows < 1 or size < 1:
            raise ValueError("a record batch holds at least one row and one byte")
        self.samples = Samples(COLUMNS if columns is None else columns, rows)
        self.place = Place()
        self.keys = KeyTable()  # nobody's: the whole keys of the rows, numbered here
        self.numbers = {}
        self.ids = array("q", bytes(8 * SLOTS))  # what ids stand for, of those who sent the last runs
        self.meant = array("i", bytes(4 * SLOTS))
        self.forget_ids()
        self.rows = rows
        self.size = size
        self.stage = bytearray(STAGE)
        self.data = cython.address(self.stage[0]) if cython.compiled else self.stage
        self.used = 0
        self.spelled = 0  # bytes that the keys of the rows on the stage take
        self.last = 0  # bytes of the last message
        self.first = 0  # of the run, among the rows that wait
        self.in_place = False  # whether it was noted where it lies, instead of on the stage

    def __len__(self):
        return self.samples.row

    # One by one

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
        self.settle(reader, received_ns)
        if samples.is_crowded() or STAGE - self.used < reader.c.at - reader.start:
            self.gather()
        number: cython.int = self.number(key)
        samples.note_no_key()
        samples.notes.scope[samples.row - samples.gathered] = number
        self.spelled += len(key)
        return 0

    def end(self, reader):
        size: cython.Py_ssize_t = reader.c.at - reader.start
        self.last = size
        if size > STAGE:
            self.gather()  # from where it lies
        else:
            copy(self.data, self.used, reader.c.data, reader.start, size)
            self.samples.move(self.used - reader.start, self.data)
            self.used += size
        return self.is_full()

    # Many at once

    def note_run(self, reader, size, received_ns):
        """Note the usual publications with declared keys in the next bytes of a reader, so many or fewer; returns how many."""
        samples: Samples = self.samples
        before: cython.Py_ssize_t = samples.row
        self.settle(reader, received_ns)
        if samples.is_crowded():
            self.gather()
        # No more than the rows that may wait can make use of.
        size = min(
            size, reader.c.end - reader.c.at, (samples.most + samples.gathered - before) * self.last + AHEAD, STAGE
        )
        self.in_place = size >= LONG
        if self.in_place or STAGE - self.used < size:
            self.gather()
        self.first = before - samples.gathered
        if self.in_place:
            note_usual(samples, reader.c.data, reader.c.at, reader.c.at + size, False, self.rows - before)
        else:
            copy(self.data, self.used, reader.c.data, reader.c.at, size)
            note_usual(samples, self.data, self.used, self.used + size, False, self.rows - before)
        count: cython.Py_ssize_t = 0
        while before + count < samples.row and samples.notes.suffix.size[self.first + count] < 0:
            count += 1
        return count

    def id_at(self, i):
        """The id that is the key of a row of the run: below zero if the receiver declared it, not the sender."""
        return self.samples.notes.scope[self.first + i]

    def name_rows(self, first, last):
        """Give rows of the run their keys; returns the first whose id was not learned, or for which there is no room."""
        samples: Samples = self.samples
        room: cython.Py_ssize_t = self.size - samples.held() - self.used - self.spelled
        left: cython.Py_ssize_t = room
        spelled: cython.Py_ssize_t = 0
        i: cython.Py_ssize_t = self.first + first
        id: cython.longlong
        number: cython.int
        last += self.first
        while i < last and left > 0:
            id = samples.notes.scope[i]
            if self.ids[id & (SLOTS - 1)] != id:
                break
            number = self.meant[id & (SLOTS - 1)]
            samples.notes.scope[i] = number
            spelled += self.keys.size[number]
            left -= self.keys.size[number] + samples.notes.message[i]
            i += 1
        self.used += room - left - spelled
        self.spelled += spelled
        return i - self.first

    def learn(self, id, key):
        """From now on an id stands for a key, until ids are forgotten."""
        self.meant[id & (SLOTS - 1)] = self.number(key)
        self.ids[id & (SLOTS - 1)] = id
        return 0

    def forget_ids(self):
        """They are of somebody else now, or may stand for something else."""
        i: cython.Py_ssize_t
        for i in range(SLOTS):
            self.ids[i] = NONE

    def end_run(self, reader, count):
        """It has so many rows; the reader goes on behind them."""
        samples: Samples = self.samples
        before: cython.Py_ssize_t = samples.gathered + self.first
        i: cython.Py_ssize_t
        samples.forget(self.first + count, samples.row - samples.gathered)
        samples.row = before + count
        samples.index.fill(before, samples.row, self.place.index)
        for i in range(self.first, self.first + count):
            reader.c.at += samples.notes.message[i]
        if count:
            self.last = samples.notes.message[self.first + count - 1]
        if self.in_place:
            self.gather()  # from where they lie
        return self.is_full()

    # Either way

    def settle(self, reader, received_ns):
        """The rows that follow come from there."""
        place: Place = self.place
        if (
            received_ns != place.received_ns
            or reader.frame.sn != place.sn
            or reader.frame.reliable != place.reliable
            or reader.in_frame != place.in_lane
        ):
            self.samples.settle(place)  # the rows before
            place.received_ns = received_ns
            place.in_lane = reader.in_frame
            place.reliable = reader.frame.reliable
            place.sn = reader.frame.sn
        return 0

    def number(self, key):
        found = self.numbers.get(key)
        if found is None:
            found = len(self.numbers) + 1
            self.keys.declare(found, key)
            self.numbers[key] = found
        return found

    def is_full(self):
        return self.samples.row >= self.rows or not self.has_room()

    def has_room(self):
        return self.samples.held() + self.used + self.spelled < self.size

    def gather(self):
        self.samples.gather(self.keys, self.keys)
        self.used = 0
        self.spelled = 0
        if len(self.numbers) > MOST_KEYS or self.keys.used > MOST_SPELLED:
            self.keys = KeyTable()
            self.numbers = {}
            self.forget_ids()
        return 0

    def finish(self):
        """What has gathered, as a RecordBatch; then it is empty again."""
        self.gather()
        self.samples.settle(self.place)
        return self.samples.finish()
