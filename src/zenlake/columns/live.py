# SPDX-License-Identifier: Apache-2.0
"""Samples as they arrive, one call each, straight from the reader's record into columns."""

import cython

if cython.compiled:
    from cython.cimports.zenlake.columns.rows import Place, Samples
    from cython.cimports.zenlake.wire.network import Push, Response
    from cython.cimports.zenlake.wire.reader import Reader
else:
    from zenlake.columns.rows import Place, Samples
    from zenlake.wire.network import Push, Response
    from zenlake.wire.reader import Reader

__all__ = ["COLUMNS", "LiveSamples"]

COLUMNS = [
    "received", "key", "kind", "payload", "encoding", "schema", "timestamp", "ntp64", "timestamp_id", "source_zid",
    "source_eid", "source_sn", "attachment", "priority", "congestion", "express", "reliable",
]  # fmt: skip

DEL = cython.declare(cython.int, 0x100)  # beside the bits of the QoS, as in `rows`


class LiveSamples:
    """A table of samples while it grows. `add_...` tell whether it is full: then `finish` it before the next."""

    def __init__(self, columns=None, rows=16384, size=32 << 20):
        if rows < 1 or size < 1:
            raise ValueError("a record batch holds at least one row and one byte")
        self.samples = Samples(COLUMNS if columns is None else columns, rows)
        self.place = Place()
        self.rows = rows
        self.size = size

    def __len__(self):
        return self.samples.row

    def add_push(self, key, reader, received_ns):
        """A publication: the record is `reader.push`, its whole key is told."""
        samples: Samples = self.samples
        push: Push = reader.push
        samples.key.put(samples.row, key, 0, len(key))
        if push.is_put:
            samples.put_put(push.put, reader.c.data)
        else:
            samples.put_del(push.delete, reader.c.data)
        return self.end(reader, push.qos if push.is_put else DEL | push.qos, received_ns)

    def add_reply(self, key: bytes, reader: Reader, received_ns: cython.longlong):
        """An answer that is a sample: the record is `reader.response`."""
        samples: Samples = self.samples
        response: Response = reader.response
        samples.key.put(samples.row, key, 0, len(key))
        if response.reply.is_put:
            samples.put_put(response.reply.put, reader.c.data)
        else:
            samples.put_del(response.reply.delete, reader.c.data)
        return self.end(reader, response.qos if response.reply.is_put else DEL | response.qos, received_ns)

    def end(self, reader, qos, received_ns):
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
        self.samples.put_rest(place, qos)
        return self.samples.row >= self.rows or self.samples.held() >= self.size

    def finish(self):
        """What has gathered, as a RecordBatch; then it is empty again."""
        self.samples.settle(self.place)
        return self.samples.finish()
