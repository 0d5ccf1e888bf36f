# SPDX-License-Identifier: Apache-2.0
"""The fast path for common publications: the same rows and errors as decoding each message field by field."""

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.columns.traffic import OPENER, Traffic, as_rows
from zenlake.columns import TABLES, Decoder
from zenlake.core.encoding import Encoding
from zenlake.core.identifiers import EntityGlobalId, SourceInfo, Timestamp, ZenohId
from zenlake.wire.declare import Declare, DeclareKeyExpr
from zenlake.wire.network import Push
from zenlake.wire.transport import Frame
from zenlake.wire.zenoh_body import Put

EVERYTHING = dict.fromkeys(TABLES)
NOW = 1 << 62 | 12345
STAMP = Timestamp.from_wire(NOW, bytes(range(1, 17)))
SHORT = Timestamp.from_wire(NOW, b"\x05")  # of a node id with one byte
SOURCE = SourceInfo(EntityGlobalId(ZenohId.from_wire(b"\x05"), 6), 300)


def decoded(batches, usual=True, tables=EVERYTHING, **limits) -> dict[str, list[dict[str, object]]]:
    decoder = Decoder(tables, **limits)
    decoder.uses_fast_path = usual
    decoder.files = ["traffic"]
    decoder.decode(as_rows(batches))
    done, rest = decoder.take(), decoder.finish()
    found = {}
    for name in tables:
        made = done[name] + rest[name]
        for batch in made:
            batch.validate(full=True)
        found[name] = pa.Table.from_batches(made).to_pylist() if made else []
    return found


def publication(r: random.Random) -> bytes:
    """Draw common publications, and similar uncommon ones: a longer number, another order, an empty field."""
    values: dict[str, object] = {"payload": bytes(r.choice([0, 1, 8, 64, 127, 128, 300]))}
    zid = ZenohId.from_wire(bytes([r.choice([0, 1, 255])]) + r.randbytes(r.randrange(15)) + b"\x01")
    if r.random() < 0.8:
        values["timestamp"] = Timestamp.from_wire(r.choice([NOW, NOW, 7, (1 << 64) - 1]), zid.to_wire())
    if r.random() < 0.4:
        values["encoding"] = Encoding.from_wire(
            r.choice([0, 4, 63, 64, 65535]), r.choice([None, b"", b"utf-8", b"x" * 200])
        )
    if r.random() < 0.4:
        source = EntityGlobalId(zid, r.choice([0, 6, 300, 1 << 27, 1 << 28, (1 << 32) - 1]))
        values["source"] = SourceInfo(source, r.choice([0, 127, 128, (1 << 28) - 1, 1 << 28]))
    if r.random() < 0.4:
        values["attachment"] = bytes(r.choice([0, 1, 200]))
    if r.random() < 0.1:
        values["unknown_exts"] = b"\x2f\x07"
    key = r.choice(
        [(1, True, None), (2, True, None), (200, True, None), (40_000, False, None), (1, True, "/x"), (0, True, "a")]
    )
    return Push(key=key, qos=r.choice([5, 0x0D, 0x1D, 0]), node_id=r.choice([0, 0, 0, 9]), body=Put(**values)).encode()


def equal_sizes(r: random.Random) -> bytes:
    """Draw equal or similar publications: ids have one, two or three bytes, and some times are short."""
    ids = r.choice([(1, 2, 127), (200, 201, 16383), (40_000, 16384), (1, 200), (0, 1)])
    qos, sender = r.choice([5, 0x0D, 0x21, 0]), r.random() < 0.8
    sizes = r.choice([(8,), (0, 1, 127), (128, 300), (8, 16384)])
    times = r.choice([(NOW,), (NOW, (1 << 64) - 1), (NOW, 1 << 55)])
    nodes = [bytes([first]) * r.choice([1, 15, 16]) for first in (1, 1, 255)]
    made = []
    for i in range(r.randrange(1, 12)):
        stamp = Timestamp.from_wire(r.choice(times) - i, r.choice(nodes))
        body = Put(payload=bytes(r.choice(sizes)), timestamp=stamp if r.random() < 0.95 else None)
        other = qos if r.random() < 0.9 else 0x1D
        made.append(Push(key=(r.choice(ids), sender, None), qos=other, body=body).encode())
    return b"".join(made)


def batches(seed: int) -> list[tuple[int, bytes]]:
    r = random.Random(seed)
    declared = [(1, "fleet/1"), (2, "fleet/2"), (200, "fleet/é")]
    data = [b"".join(Declare(qos=8, body=DeclareKeyExpr(id=id, key=key)).encode() for id, key in declared)]
    data += [b"".join(r.choice([publication, equal_sizes])(r) for _ in range(r.randrange(1, 20))) for _ in range(4)]
    return [(OPENER, Frame(sn=sn).encode() + each) for sn, each in enumerate(data)]


def usual(robot: int = 0) -> Push:
    stamp = Timestamp.from_wire(NOW + robot, bytes(range(1, 17)))
    return Push(key=(1, True, None), qos=0x0D, body=Put(payload=b"12345678", timestamp=stamp))


@given(st.integers(0, 1 << 32), st.integers(1, 300))
@settings(max_examples=40, deadline=None)
def test_publications_are_the_same_rows_either_way(seed, rows):
    traffic = batches(seed)
    assert decoded(traffic, rows=rows) == decoded(traffic, usual=False, rows=rows)


@given(st.integers(0, 1 << 32))
@settings(max_examples=20, deadline=None)
def test_so_is_other_traffic(seed):
    traffic = Traffic(seed).batches
    assert decoded(traffic) == decoded(traffic, usual=False)


@given(st.integers(0, 1 << 32))
@settings(max_examples=60, deadline=None)
def test_broken_bytes_are_the_same_rows_and_the_same_errors(seed):
    r = random.Random(seed)
    broken = []
    for direction, data in batches(seed):
        damaged = bytearray(data)
        for _ in range(r.randrange(4)):
            damaged[r.randrange(len(damaged))] = r.choice([0, 1, 0x7F, 0x80, 0xFF, r.randrange(256)])
        broken.append((direction, bytes(damaged[: r.choice([len(damaged), r.randrange(1, len(damaged) + 1)])])))
    assert decoded(broken) == decoded(broken, usual=False)


def test_a_batch_may_end_anywhere():
    whole = Frame(sn=0).encode() + usual().encode() + usual(1).encode() + usual(2).encode()
    for end in range(1, len(whole) + 1):
        cut = [(OPENER, whole[:end])]
        assert decoded(cut) == decoded(cut, usual=False), end


FULL = {"encoding": Encoding("text/plain;utf-8"), "attachment": b"12"}
FORMS = {
    "plain": Push(key=(1, True, None), qos=0x0D, body=Put(payload=b"12345678", timestamp=STAMP)),
    "of an id of two bytes": Push(key=(200, False, None), body=Put(payload=b"1", timestamp=SHORT)),
    "of an id of three bytes": Push(key=(40_000, True, None), body=Put(payload=b"1", timestamp=STAMP)),
    "with a whole key": Push(key=(0, True, "a/b"), qos=0x21, body=Put(payload=b"1", timestamp=STAMP)),
    "without a timestamp": Push(key=(1, True, None), body=Put(payload=b"12345678")),
    "full": Push(key=(2, True, "/x"), body=Put(payload=b"1", timestamp=STAMP, source=SOURCE, **FULL)),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_byte_that_differs_from_the_messages_before(form):
    one = FORMS[form].encode()
    runs = [one * 6]
    for at in range(len(one)):
        for value in {0, 1, 0x7F, 0x80, 0xFF, one[at] ^ 1, one[at] ^ 0x80}:
            runs.append(one * 3 + one[:at] + bytes([value]) + one[at + 1 :] + one * 2)
    traffic = [batches(0)[0], *((OPENER, Frame(sn=sn).encode() + run) for sn, run in enumerate(runs, 1))]
    found = decoded(traffic)
    assert found == decoded(traffic, usual=False)
    assert len(found["samples"]) > 3 * len(runs)
    assert found["errors"]


@pytest.mark.parametrize("limits", [{}, {"rows": 1}, {"rows": 255}, {"rows": 300}, {"size": 1000}])
def test_many_keys_are_counted_and_distinguished(limits):
    count = 2000
    frame = Frame(sn=0).encode() + b"".join(usual(i).encode() for i in range(count))
    rows = decoded([(OPENER, frame)], tables={"samples": None}, **limits)["samples"]
    assert [row["index"] for row in rows] == list(range(1, count + 1))
    assert [row["ntp64"] for row in rows] == list(range(NOW, NOW + count))
