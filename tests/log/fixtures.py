# SPDX-License-Identifier: Apache-2.0
"""Logs with random traffic of several sessions, and the tables of a decoder without a log for the same batches."""

import random

import pyarrow as pa

from tests.columns.traffic import Traffic
from zenlake.columns import TABLES, Decoder, select_schema
from zenlake.core.batch_schema import BATCHES_SCHEMA
from zenlake.log import Log, Writer, decode_ranges
from zenlake.log.disk import Disk

EVERYTHING = dict.fromkeys(TABLES)


def interleaved(seed, faces=3, size=25, has_stacks=True):
    """Return (face, direction, batch) of several interleaved sessions. Some batches are damaged."""
    r = random.Random(seed)
    left = [list(Traffic(seed + i, size, has_stacks).batches) for i in range(faces)]
    found = []
    while any(left):
        i = r.choice([i for i in range(faces) if left[i]])
        for _ in range(r.randrange(1, 4)):
            if left[i]:
                direction, data = left[i].pop(0)
                if r.random() < 0.03:
                    at = r.randrange(len(data))
                    data = data[:at] + bytes([r.randrange(256)]) + data[at + 1 :]
                found.append((i, direction, data))
    return found


class Hasty(Disk):
    """A disk without syncs, for tests that do not simulate a power cut."""

    def sync(self, file):
        pass

    def sync_folder(self, folder):
        pass


class OneByOne(Hasty):
    """A disk for tests that inspect every write."""

    def write_together(self, file, pieces, at):
        self.write(file, b"".join(pieces), at)


def written(path, batches, name="w", **options):
    """Write a log of these batches, received a microsecond apart."""
    options = {"sync": "sealed", "disk": Hasty(), **options}
    last = {face: place for place, (face, _, _) in enumerate(batches)}
    with Writer(path, name, **options) as writer:
        faces = {}
        for place, (i, direction, data) in enumerate(batches):
            if i not in faces:
                faces[i] = writer.face("tcp", f"10.0.0.{i}:40000", "10.0.0.99:7447")
            writer.append(faces[i], direction, data, received=1_000_000 + 1000 * place)
            if last[i] == place:
                writer.forget(faces[i])
    return Log(path)


def tables(log, ranges, wanted=EVERYTHING):
    """Return the complete decoded tables of these ranges."""
    found = {name: [] for name in wanted}
    for name, batch in decode_ranges(log, ranges, wanted, rows=100):  # few: most ranges here have fewer
        found[name].append(batch)
    return {
        name: pa.Table.from_batches(parts, schema=select_schema(name, wanted[name])) for name, parts in found.items()
    }


def directly(batches, names, log):
    """Return the decoded tables of the same batches without a log, with their positions from the index of the log."""
    decoder = Decoder(EVERYTHING)
    for i, name in enumerate(names):
        decoder.session(i).name = name
    numbers = {face: i for i, face in enumerate(dict.fromkeys(face for face, _, _ in batches))}
    rows = len(batches)
    columns = [
        pa.array(range(1_000_000, 1_000_000 + 1000 * rows, 1000), pa.int64()).cast(BATCHES_SCHEMA.field(0).type),
        pa.array([numbers[face] for face, _, _ in batches], pa.int32()),
        pa.array([direction for _, direction, _ in batches], pa.int8()),
        pa.array([data for _, _, data in batches], pa.binary()),
        pa.array(range(1, rows + 1), pa.int64()),
    ]
    decoder.decode(pa.record_batch(columns, names=["received", "face", "direction", "batch", "packet"]))
    done, rest = decoder.take(), decoder.finish()
    places = dict(origins(log))
    return {
        name: with_origins(pa.Table.from_batches(done[name] + rest[name], schema=select_schema(name)), places)
        for name in TABLES
    }


def origins(log):
    """Return (number of a batch, its position) of a log with one writer."""
    for part in log.plan(size=1):
        segment = log.segment(part)
        for block in range(part.first, part.last):
            record = segment.index[block]
            for row in range(record.rows):
                place = {"log": log.id, "writer": part.writer, "segment": part.segment, "block": block, "row": row}
                yield segment.first_batch + record.row + row, place


def with_origins(table, places):
    for name in ("log", "writer", "segment", "block", "row"):
        i = table.schema.get_field_index(name)
        values = [places[packet][name] for packet in table["packet"].to_pylist()]
        table = table.set_column(i, table.schema.field(i), pa.array(values, table.schema.field(i).type))
    return table
