# SPDX-License-Identifier: Apache-2.0
"""Live samples to columns: runs of common publications in one pass, other messages one by one.

The bytes of rows are copied to a buffer, because the receive buffer is reused after each message. Keys are numbered in
order of arrival, like declared keys in the decoder.
"""

from array import array

import cython
from cython.cimports.zenlake.columns.push_fast_path import decode_push
from cython.cimports.zenlake.columns.samples_builder import SamplesBuilder
from cython.cimports.zenlake.columns.table_builders import RowPosition
from cython.cimports.zenlake.session.key_table import KeyTable
from cython.cimports.zenlake.wire.push_scan import AHEAD
from cython.cimports.zenlake.wire.raw_memory import copy

__all__ = ["COLUMNS", "LiveSamples"]

COLUMNS = [
    "received", "key", "kind", "payload", "encoding", "schema", "timestamp", "ntp64", "timestamp_id", "source_zid",
    "source_eid", "source_sn", "attachment", "priority", "congestion", "express", "reliable",
]  # fmt: skip

BUFFER_SIZE = cython.declare(cython.Py_ssize_t, 65536)
MIN_IN_PLACE = cython.declare(
    cython.Py_ssize_t, 16384
)  # minimum bytes of a run that is gathered in place, without a copy
MAX_KEYS = cython.declare(cython.int, 16384)  # cached keys, and their bytes
MAX_KEY_BYTES = cython.declare(cython.Py_ssize_t, 1 << 20)
SLOTS = cython.declare(cython.Py_ssize_t, 1024)
NONE = cython.declare(cython.longlong, 1 << 30)  # not a valid id


class LiveSamples:
    """Builder of a table of live samples. `add_...` and `end_run` return whether it is full; then call `finish`.

    A run is staged (`stage_run`), its rows get the keys of their ids (`resolve_keys`, `set_key`), and it ends (`end_run`)
    after the last row with a key. The messages after it are left to the normal path.
    """

    def __init__(self, columns=None, rows=16384, size=32 << 20):
        if rows < 1 or size < 1:
            raise ValueError("a record batch needs at least one row and one byte")
        self.samples = SamplesBuilder(COLUMNS if columns is None else columns, rows)
        self.position = RowPosition()
        self.keys = KeyTable()  # the full keys of the rows, numbered here
        self.numbers = {}
        self.ids = array("q", bytes(8 * SLOTS))  # keys by id, of the sender of the last runs
        self.key_numbers = array("i", bytes(4 * SLOTS))
        self.forget_ids()
        self.rows = rows
        self.size = size
        self.buffer = bytearray(BUFFER_SIZE)
        self.data = cython.address(self.buffer[0]) if cython.compiled else self.buffer
        self.used = 0
        self.key_bytes = 0  # bytes of the keys of staged rows
        self.last = 0  # bytes of the last message
        self.first = 0  # first row of the run, among the staged rows
        self.in_place = False  # whether the run was staged in place instead of copied

    def __len__(self):
        return self.samples.row

    # One by one

    def add_push(self, key, reader, received_ns):
        """Add a publication: the record is `reader.push`, with its full key."""
        self.begin(key, reader, received_ns)
        self.samples.stage_push(self.position, reader.push, reader.c.data)
        return self.end(reader)

    def add_reply(self, key, reader, received_ns):
        """Add a reply with a sample: the record is `reader.response`."""
        self.begin(key, reader, received_ns)
        self.samples.stage_reply(self.position, reader.response, reader.c.data)
        return self.end(reader)

    def begin(self, key, reader, received_ns):
        samples: SamplesBuilder = self.samples
        self.fill_shared(reader, received_ns)
        if samples.must_gather() or BUFFER_SIZE - self.used < reader.c.at - reader.start:
            self.gather()
        number: cython.int = self.key_number(key)
        samples.stage_no_key()
        samples.staged.scope[samples.row - samples.first_staged] = number
        self.key_bytes += len(key)
        return 0

    def end(self, reader):
        size: cython.Py_ssize_t = reader.c.at - reader.start
        self.last = size
        if size > BUFFER_SIZE:
            self.gather()  # in place
        else:
            copy(self.data, self.used, reader.c.data, reader.start, size)
            self.samples.shift(self.used - reader.start, self.data)
            self.used += size
        return self.is_full()

    # Runs

    def stage_run(self, reader, size, received_ns):
        """Stage common publications with declared keys from a reader, at most `max_staged`. Return their number."""
        samples: SamplesBuilder = self.samples
        before: cython.Py_ssize_t = samples.row
        self.fill_shared(reader, received_ns)
        if samples.must_gather():
            self.gather()
        # At most as many as can be staged.
        size = min(
            size,
            reader.c.end - reader.c.at,
            (samples.max_staged + samples.first_staged - before) * self.last + AHEAD,
            BUFFER_SIZE,
        )
        self.in_place = size >= MIN_IN_PLACE
        if self.in_place or BUFFER_SIZE - self.used < size:
            self.gather()
        self.first = before - samples.first_staged
        if self.in_place:
            decode_push(samples, reader.c.data, reader.c.at, reader.c.at + size, False, self.rows - before)
        else:
            copy(self.data, self.used, reader.c.data, reader.c.at, size)
            decode_push(samples, self.data, self.used, self.used + size, False, self.rows - before)
        count: cython.Py_ssize_t = 0
        while before + count < samples.row and samples.staged.suffix.size[self.first + count] < 0:
            count += 1
        return count

    def id_at(self, i):
        """Return the key id of a row of the run: negative if the receiver declared it."""
        return self.samples.staged.scope[self.first + i]

    def resolve_keys(self, first, last):
        """Set the keys of rows of the run. Return the first row with an unknown id, or without room."""
        samples: SamplesBuilder = self.samples
        room: cython.Py_ssize_t = self.size - samples.used_bytes() - self.used - self.key_bytes
        left: cython.Py_ssize_t = room
        key_bytes: cython.Py_ssize_t = 0
        i: cython.Py_ssize_t = self.first + first
        id: cython.longlong
        number: cython.int
        last += self.first
        while i < last and left > 0:
            id = samples.staged.scope[i]
            if self.ids[id & (SLOTS - 1)] != id:
                break
            number = self.key_numbers[id & (SLOTS - 1)]
            samples.staged.scope[i] = number
            key_bytes += self.keys.size[number]
            left -= self.keys.size[number] + samples.staged.message[i]
            i += 1
        self.used += room - left - key_bytes
        self.key_bytes += key_bytes
        return i - self.first

    def set_key(self, id, key):
        """Set the key of an id, until ids are forgotten."""
        self.key_numbers[id & (SLOTS - 1)] = self.key_number(key)
        self.ids[id & (SLOTS - 1)] = id
        return 0

    def forget_ids(self):
        """Forget all ids: another sender, or changed declarations."""
        i: cython.Py_ssize_t
        for i in range(SLOTS):
            self.ids[i] = NONE

    def end_run(self, reader, count):
        """End a run of some rows. The reader continues after them."""
        samples: SamplesBuilder = self.samples
        before: cython.Py_ssize_t = samples.first_staged + self.first
        i: cython.Py_ssize_t
        samples.clear(self.first + count, samples.row - samples.first_staged)
        samples.row = before + count
        samples.index.fill(before, samples.row, self.position.index)
        for i in range(self.first, self.first + count):
            reader.c.at += samples.staged.message[i]
        if count:
            self.last = samples.staged.message[self.first + count - 1]
        if self.in_place:
            self.gather()  # in place
        return self.is_full()

    # Both

    def fill_shared(self, reader, received_ns):
        """Set the source of the next rows."""
        position: RowPosition = self.position
        if (
            received_ns != position.received_ns
            or reader.frame.sn != position.sn
            or reader.frame.reliable != position.reliable
            or reader.in_frame != position.in_lane
        ):
            self.samples.fill_shared(position)  # the rows before
            position.received_ns = received_ns
            position.in_lane = reader.in_frame
            position.reliable = reader.frame.reliable
            position.sn = reader.frame.sn
        return 0

    def key_number(self, key):
        found = self.numbers.get(key)
        if found is None:
            found = len(self.numbers) + 1
            self.keys.declare(found, key)
            self.numbers[key] = found
        return found

    def is_full(self):
        return self.samples.row >= self.rows or not self.has_room()

    def has_room(self):
        return self.samples.used_bytes() + self.used + self.key_bytes < self.size

    def gather(self):
        self.samples.gather(self.keys, self.keys)
        self.used = 0
        self.key_bytes = 0
        if len(self.numbers) > MAX_KEYS or self.keys.used > MAX_KEY_BYTES:
            self.keys = KeyTable()
            self.numbers = {}
            self.forget_ids()
        return 0

    def finish(self):
        """Return the rows as a RecordBatch. The builder is then empty."""
        self.gather()
        self.samples.fill_shared(self.position)
        return self.samples.finish()
