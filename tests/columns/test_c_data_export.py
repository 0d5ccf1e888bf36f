# SPDX-License-Identifier: Apache-2.0
"""Record batches exported to Arrow are complete, and are freed with their last reference."""

import pyarrow as pa

from tests.columns.traffic import as_rows
from zenlake.columns import TABLES, Decoder, select_schema
from zenlake.wire.network import Push
from zenlake.wire.transport import Frame
from zenlake.wire.zenoh_body import Put


def decoded(decoder, sn, payload):
    """Return a record batch of twenty samples, about half of the capacity, and their `messages`."""
    pushes = b"".join(Push(key=f"key/{sn}/{i}", body=Put(payload=payload)).encode() for i in range(20))
    decoder.decode(as_rows([(0, Frame(sn=sn).encode() + pushes)]))
    done = decoder.finish()
    return done["samples"][0], done["messages"][0]


def test_every_column_is_whole_and_of_the_schemas_type():
    decoder = Decoder(dict.fromkeys(TABLES), rows=32)
    decoder.files = ["-"]
    for batch, name in zip(decoded(decoder, 0, b"x" * 100), ("samples", "messages"), strict=True):
        batch.validate(full=True)
        assert batch.schema.equals(select_schema(name), check_metadata=True)
        assert pa.ipc.read_record_batch(batch.serialize(), batch.schema) == batch
        for column in batch.columns:
            assert column.null_count == column.to_pylist().count(None)


def test_a_reference_to_keys_does_not_keep_the_payloads():
    decoder = Decoder({"samples": None, "messages": None}, rows=32)
    decoder.files = ["-"]
    places = set()
    kept = []
    for sn in range(12):
        samples, _ = decoded(decoder, sn, bytes([sn]) * 4000)
        assert samples["payload"].to_pylist() == [bytes([sn]) * 4000] * 20
        places.add(samples["payload"].buffers()[2].address)
        kept.append(samples["key"])
        del samples
    assert len(places) < 6  # the same memory is reused
    for sn, keys in enumerate(kept):
        assert keys.to_pylist() == [f"key/{sn}/{i}" for i in range(20)]


def test_a_batch_outlives_its_decoder_and_its_slices_outlive_it():
    decoder = Decoder({"samples": None, "messages": None}, rows=32)
    decoder.files = ["-"]
    samples, messages = decoded(decoder, 0, b"p")
    part, types = samples.slice(3, 2), messages["type"].slice(1, 2)
    del decoder, samples, messages
    assert part["key"].to_pylist() == ["key/0/3", "key/0/4"]
    assert part["payload"].to_pylist() == [b"p", b"p"]
    assert part["attachment"].to_pylist() == [None, None]
    assert types.to_pylist() == ["PUSH", "PUSH"]
