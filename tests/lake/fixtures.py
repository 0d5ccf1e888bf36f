# SPDX-License-Identifier: Apache-2.0
"""Logs that tests land: random traffic of several sessions before and after midnight."""

from datetime import UTC, datetime

import pyarrow as pa

from tests.columns.traffic import Traffic
from zenlake.lake import LandingBatch, write_rows
from zenlake.log.writer import Writer
from zenlake.tables.schemas import TABLES, decode

MIDNIGHT = int(datetime(2026, 2, 1, tzinfo=UTC).timestamp()) * 1_000_000_000


def recorded(path, seed=1, sessions=2, size=60, name="tap-1", block_size=2000, segment_size=20_000, since=MIDNIGHT):
    """Write a log of a few dozen small blocks in several segments, received around midnight. Return its batches."""
    with Writer(path, name, sync="sealed", block_size=block_size, segment_size=segment_size) as writer:
        return add(writer, seed, sessions, size, since)


def add(writer, seed=1, sessions=2, size=60, since=MIDNIGHT, has_stacks=True):
    faces = [writer.face("tcp", f"10.0.{seed % 256}.{i}:40000", "10.0.0.99:7447") for i in range(sessions)]
    said = [Traffic(1000 * seed + i, size, has_stacks).batches for i in range(sessions)]
    count = sum(map(len, said))
    at = 0
    for turn in range(max(map(len, said))):
        for face, batches in zip(faces, said, strict=True):
            if turn < len(batches):
                direction, data = batches[turn]
                writer.append(face, direction, data, received=since + (at - count // 2) * 1_000_000)
                at += 1
    for face in faces:
        writer.forget(face)
    writer.flush()
    return count


def decoded(log, names=TABLES):
    """Return its tables, decoded without Spark and without a lake."""
    found = {name: [] for name in names}
    for name, batch in decode([str(log)], dict.fromkeys(names)):
        found[name].append(batch)
    return {name: pa.Table.from_batches(parts, schema=TABLES[name]) for name, parts in found.items()}


def rows(table):
    return sorted(map(repr, table.to_pylist()))


def put_samples(lake, batches, number=0):
    """Land samples that were in no log, each a dict of its columns."""
    schema, batch = TABLES["samples"], LandingBatch("q", number)
    empty = dict.fromkeys(schema.names)

    def samples():
        for each in batches:
            yield "samples", pa.RecordBatch.from_pylist([{**empty, **row} for row in each], schema)

    source = {"log": "made", "pieces": [["tap-1", 0, number, 0, number + 1]]}
    lake.commit(write_rows(lake.location, samples(), {"samples": schema}, batch, "0", source), batch)
