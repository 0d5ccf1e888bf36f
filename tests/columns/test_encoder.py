# SPDX-License-Identifier: Apache-2.0
"""Tables to batches: encoded batches decode to the same table, within the batch size, on the correct lanes."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.columns.traffic import Traffic, as_rows
from zenlake.columns import Decoder, Encoder
from zenlake.errors import EncodeError, InvalidValue
from zenlake.wire.batch_reader import messages
from zenlake.wire.transport import Fragment, Frame

CARRIED = [
    "key", "kind", "payload", "encoding", "schema", "ntp64", "timestamp_id", "source_zid", "source_eid", "source_sn",
    "attachment", "priority", "congestion", "express", "reliable",
]  # fmt: skip


def batches_of(data: bytes, ends: list[int], prefix: int = 2) -> list[bytes]:
    found, start = [], 0
    for end in ends:
        batch = data[start + prefix : end]
        assert prefix == 0 or int.from_bytes(data[start : start + 2], "little") == len(batch)
        found.append(batch)
        start = end
    assert start == len(data)
    return found


def read_back(batches: list[bytes], columns: list[str] = CARRIED) -> tuple[pa.Table, int]:
    decoder = Decoder({"samples": columns, "events": None, "errors": None})
    decoder.files = ["-"]
    decoder.decode(as_rows([(0, batch) for batch in batches]))
    done = decoder.finish()
    return pa.Table.from_batches(done["samples"]), sum(b.num_rows for b in done["events"] + done["errors"])


def random_samples(seed: int) -> pa.RecordBatch:
    """Return the samples of a capture with known keys."""
    decoder = Decoder({"samples": CARRIED})
    decoder.files = ["-"]
    decoder.decode(as_rows(Traffic(seed).batches))
    table = pa.Table.from_batches(decoder.finish()["samples"])
    return table.filter(pc.is_valid(table["key"])).combine_chunks().to_batches()[0]


@given(st.integers(0, 1 << 32), st.sampled_from([48, 100, 300, 2000, 65535]))
@settings(max_examples=60, deadline=None)
def test_encoded_rows_decode_to_equal_values(seed, batch_size):
    samples = random_samples(seed)
    encoder = Encoder(batch_size=batch_size)
    encoder.encode(samples)
    data, ends = encoder.take()
    batches = batches_of(data, ends)
    assert max(map(len, batches)) + 2 <= batch_size
    again, odd = read_back(batches)
    assert odd == 0
    assert again == pa.Table.from_batches([samples])


def test_messages_of_one_lane_share_a_frame_and_another_lane_opens_another():
    samples = pa.record_batch({"key": ["a", "b", "c"], "priority": [5, 5, 1]})
    encoder = Encoder(first_sn=7)
    encoder.encode(samples)
    [batch] = batches_of(*encoder.take())
    names = [(m.NAME, m.sn, m.priority) if isinstance(m, Frame) else m.key.suffix.text for m in messages(batch)]
    assert names == [("FRAME", 7, 5), "a", "b", ("FRAME", 7, 1), "c"]


def test_sequence_numbers_go_on_and_wrap():
    encoder = Encoder(mask=0x7F, first_sn=126, prefix=0)
    seen = []
    for _ in range(4):
        encoder.encode(pa.record_batch({"key": ["k"]}))
        [batch] = batches_of(*encoder.take(), prefix=0)
        seen.append(messages(batch)[0].sn)
    assert seen == [126, 127, 0, 1]


def test_a_large_payload_is_fragmented_with_first_on_the_first_and_consecutive_numbers():
    payload = bytes(range(256)) * 40
    encoder = Encoder(batch_size=1000)
    encoder.encode(pa.record_batch({"key": ["small", "big", "small"], "payload": [b"x", payload, b"y"]}))
    batches = batches_of(*encoder.take())
    parts = [m for batch in batches for m in messages(batch) if isinstance(m, Fragment)]
    assert [bool(p.first) for p in parts] == [True] + [False] * (len(parts) - 1)
    assert [bool(p.more) for p in parts] == [True] * (len(parts) - 1) + [False]
    assert [p.sn for p in parts] == list(range(parts[0].sn, parts[0].sn + len(parts)))
    table, odd = read_back(batches, ["key", "payload"])
    assert odd == 0
    assert table.column("payload").to_pylist() == [b"x", payload, b"y"]


def test_declared_keys_travel_as_their_id():
    encoder = Encoder(keys={"fleet/pose": 12})
    encoder.encode(pa.record_batch({"key": ["fleet/pose", "other"]}))
    [batch] = batches_of(*encoder.take())
    assert [m.key.value for m in messages(batch)[1:]] == [(12, True, None), (0, True, "other")]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"payload": [b"x"]}, "missing column 'key'"),
        ({"key": ["a"], "value": [1]}, "unknown column 'value'; expected one of .*payload"),
        ({"key": [None]}, "1 samples have no key"),
        ({"key": ["a"], "kind": ["post"]}, "invalid kind 'post'"),
        ({"key": ["a"], "congestion": ["wait"]}, "invalid congestion 'wait'"),
        ({"key": ["a"], "payload": [3]}, "invalid column type int64"),
        ({"key": ["a"], "priority": ["high"]}, "invalid column type string"),
    ],
)
def test_a_table_that_no_message_can_express_is_refused_with_the_reason(columns, why):
    with pytest.raises((InvalidValue, EncodeError), match=why):
        Encoder().encode(
            pa.record_batch({**columns, "key": pa.array(columns["key"], pa.string())} if "key" in columns else columns)
        )
