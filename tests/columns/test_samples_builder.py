# SPDX-License-Identifier: Apache-2.0
"""Staged rows: each row has its own values in the columns, whatever values it shares with others."""

import random

import pyarrow as pa
import pytest

from tests.columns.traffic import OPENER, as_rows
from zenlake.columns import Decoder
from zenlake.columns.live_samples import LiveSamples
from zenlake.core.identifiers import Timestamp, ZenohId
from zenlake.wire.batch_reader import BatchReader
from zenlake.wire.declare import Declare, DeclareKeyExpr, UndeclareKeyExpr
from zenlake.wire.network import Push
from zenlake.wire.transport import Frame
from zenlake.wire.zenoh_body import Del, Put


def decoded(*messages, **limits):
    """Return the samples of one frame."""
    decoder = Decoder({"samples": None}, **limits)
    decoder.files = ["a file"]
    decoder.decode(as_rows([(OPENER, Frame(sn=0).encode() + b"".join(message.encode() for message in messages))]))
    return pa.Table.from_batches(decoder.finish()["samples"]).to_pylist()


def stamped(node: bytes) -> Put:
    return Put(payload=b"x", timestamp=Timestamp.from_wire(1 << 63, node))


def test_nodes_that_share_a_slot_take_turns():
    one, other = b"\x01" + bytes(14) + b"\x02", b"\x01" + b"\xff" * 14 + b"\x02"  # a slot is chosen by the ends
    nodes = [one, one, other, one, other, other, one] * 50
    rows = decoded(*(Push(key="a", body=stamped(node)) for node in nodes))
    assert [row["timestamp_id"] for row in rows] == [str(ZenohId.from_wire(node)) for node in nodes]


def test_rows_with_and_without_a_value_alternate():
    bodies = [stamped(b"\x07") if i % 3 else Del() for i in range(700)]
    rows = decoded(*(Push(key=f"k/{i}", body=body) for i, body in enumerate(bodies)))
    assert [row["key"] for row in rows] == [f"k/{i}" for i in range(700)]
    assert [row["kind"] for row in rows] == ["put" if i % 3 else "del" for i in range(700)]
    assert [row["payload"] for row in rows] == [b"x" if i % 3 else None for i in range(700)]
    assert [row["ntp64"] for row in rows] == [-(1 << 63) if i % 3 else None for i in range(700)]
    assert [row["timestamp_id"] for row in rows] == ["7" if i % 3 else None for i in range(700)]


def test_a_key_id_is_resolved_at_the_time_of_its_sample():
    put = Put(payload=b"")
    sample = Push(key=(1, True, None), body=put)
    rows = decoded(
        Declare(body=DeclareKeyExpr(id=1, key="first")), sample, Push(key=(1, True, "/more"), body=put),
        Declare(body=UndeclareKeyExpr(id=1)), sample, Declare(body=DeclareKeyExpr(id=1, key="second")), sample,
        Push(key=(1, False, None), body=put),
    )  # fmt: skip
    assert [row["key"] for row in rows] == ["first", "first/more", None, "second", None]
    assert [row["unresolved_key"] for row in rows] == [None, None, "1:", None, "1:"]


@pytest.mark.parametrize("rows", [7, 16384])
def test_keys_of_any_length_take_turns(rows):
    keys = ["k" * size for size in (1, 31, 32, 33, 64, 65, 5_000)]
    turns = [random.Random(3).randrange(len(keys)) for _ in range(3_000)] + [0] * 2_000
    declared = [Declare(body=DeclareKeyExpr(id=i, key=key)) for i, key in enumerate(keys, 1)]
    found = decoded(*declared, *(Push(key=(i + 1, True, None), body=Put(payload=b"")) for i in turns), rows=rows)
    assert [row["key"] for row in found] == [keys[i] for i in turns]


def test_payloads_of_any_size_can_follow_each_other():
    payloads = [bytes([i & 0xFF]) * size for size in [*range(131), 200, 300] for i in range(5)]
    rows = decoded(*(Push(key="k", body=Put(payload=payload)) for payload in payloads))
    assert [row["payload"] for row in rows] == payloads
    for size in (0, 1, 7, 8, 9, 16, 17, 32, 33, 64, 65, 130):  # equal sizes have their own path
        equal_sizes = [bytes([i & 0xFF]) * size for i in range(1, 300)]
        rows = decoded(*(Push(key="k", body=Put(payload=payload)) for payload in equal_sizes))
        assert [row["payload"] for row in rows] == equal_sizes


def test_a_record_batch_is_hardly_larger_than_it_may_be():
    frames = [Frame(sn=sn).encode() + Push(key="k", body=Put(payload=bytes(30_000))).encode() for sn in range(40)]
    decoder = Decoder({"samples": None}, size=100_000)
    decoder.files = ["a file"]
    decoder.decode(as_rows([(OPENER, frame) for frame in frames]))
    made = decoder.finish()["samples"]
    assert sum(batch.num_rows for batch in made) == 40
    assert max(batch.num_rows for batch in made) <= 6  # 100 kB, and the maximum of staged bytes


def test_a_live_sample_outlives_the_memory_it_was_read_from():
    samples = LiveSamples()
    memory = bytearray(300_000)
    reader = BatchReader()
    sizes = [8, 200_000, 8, 3_000, *[100] * 700, 70_000, 1]
    for i, size in enumerate(sizes):
        message = Push(key="k", body=Put(payload=i.to_bytes(4, "big") + bytes(size), attachment=b"a%d" % i)).encode()
        memory[: len(message)] = message
        reader.bind(memory)
        reader.begin_network(0, len(message))
        reader.next()
        samples.add_push(b"robot/%d" % i, reader, i)
        memory[:] = b"\xee" * len(memory)
    rows = samples.finish().to_pylist()
    assert [row["key"] for row in rows] == [f"robot/{i}" for i in range(len(sizes))]
    assert [row["payload"] for row in rows] == [i.to_bytes(4, "big") + bytes(size) for i, size in enumerate(sizes)]
    assert [row["attachment"] for row in rows] == [b"a%d" % i for i in range(len(sizes))]
