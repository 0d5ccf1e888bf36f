# SPDX-License-Identifier: Apache-2.0
"""Redacted values: the tables equal those of the original traffic, except for the values."""

import hashlib
import tempfile

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.log.fixtures import directly, interleaved, tables, written
from zenlake.core.keyexpr import KeyExpr
from zenlake.errors import KeyExprError
from zenlake.log import Writer, decode_ranges, writer
from zenlake.log.verify_repair import verify
from zenlake.wire.network import Push
from zenlake.wire.transport import Fragment, Frame
from zenlake.wire.zenoh_body import Put

EVEN_SO = ("size", "payload_size")  # of a FRAGMENT: the size of its stored part


@pytest.fixture(autouse=True, scope="module")
def small_segments():
    before, writer.LARGE_HEAD = writer.LARGE_HEAD, 0
    yield
    writer.LARGE_HEAD = before


def sha256(value):
    return hashlib.sha256(value).hexdigest()


def intersects(pattern, key):
    """Return whether a recorded key matches. Random traffic has invalid keys, which match nothing."""
    try:
        return KeyExpr(pattern).intersects(KeyExpr(key))
    except KeyExprError:
        return False


def withheld(row, keys):
    """A sample as the log should return it."""
    key = row["key"]
    if key is None or not row["payload"] or not any(intersects(each, key) for each in keys):
        return row
    return row | {"payload": None, "payload_sha256": sha256(row["payload"])}


@given(st.integers(0, 1 << 32), st.sampled_from([["**"], ["fleet/**", "k/*/pose"]]), st.sampled_from([100, 3000]))
@settings(max_examples=8, deadline=None)
def test_the_tables_are_those_of_the_whole_traffic(seed, keys, block_size):
    batches = interleaved(seed, size=12)
    with tempfile.TemporaryDirectory() as folder:
        log = written(folder, batches, block_size=block_size, segment_size=9000, metadata_only=keys)
        names = [face.name for part in log.plan() for face in log.segment(part).state(part.last).faces]
        whole = directly(batches, list(dict.fromkeys(names)), log)
        found = tables(log, log.plan())
        alone = [tables(log, [part]) for part in log.plan(size=6000)]
        assert not any(one.wrong for one in verify(log))
    for name in found:
        assert pa.concat_tables(part[name] for part in alone) == found[name]
    for row, full in zip(found["samples"].to_pylist(), whole["samples"].to_pylist(), strict=True):
        kept = full["fragments"] is not None and row["payload"] is not None  # the value did not begin in the first one
        assert row == (full if kept else withheld(full, keys))
    for row, full in zip(found["messages"].to_pylist(), whole["messages"].to_pylist(), strict=True):
        assert row == (full | {name: row[name] for name in EVEN_SO} if row["type"] == "FRAGMENT" else full)
    assert found["declarations"] == whole["declarations"]
    assert found["events"] == whole["events"]
    error_rows = [(row["packet"], row["index"], row["field"]) for row in found["errors"].to_pylist()]
    assert error_rows == [(row["packet"], row["index"], row["field"]) for row in whole["errors"].to_pylist()]


def test_a_value_in_fragments_leaves_its_hash_and_no_byte(tmp_path):
    value = bytes(range(256)) * 300
    message = Push(key=(0, True, "fleet/1/camera"), body=Put(payload=value, attachment=b"seen")).encode()
    pieces = [message[at : at + 20_000] for at in range(0, len(message), 20_000)]
    batches = [
        (0, 0, Fragment(sn=sn, first=sn == 0, more=sn + 1 < len(pieces), payload=piece).encode())
        for sn, piece in enumerate(pieces)
    ]
    small = Push(key=(0, True, "fleet/1/pose"), body=Put(payload=b"kept")).encode()
    batches.append((0, 0, Frame(sn=len(pieces)).encode() + small))
    log = written(tmp_path, batches, block_size=1, metadata_only=["fleet/*/camera/**"])
    [camera, pose] = tables(log, log.plan())["samples"].to_pylist()
    assert (camera["payload"], camera["payload_size"], camera["payload_sha256"]) == (None, len(value), sha256(value))
    assert (camera["fragments"], camera["attachment"]) == (len(pieces), b"seen")
    assert (pose["payload"], pose["payload_size"], pose["payload_sha256"]) == (b"kept", 4, None)
    [segment] = (tmp_path / "w").glob("*.arrow")
    assert segment.stat().st_size < 8000 < len(value)
    assert value[:32] not in segment.read_bytes()


def test_a_length_in_more_bytes_than_it_needs_is_withheld_too(tmp_path):
    value = b"secret " * 3
    short = Push(key=(0, True, "a"), body=Put(payload=value)).encode()
    assert short.endswith(bytes([len(value)]) + value)
    long = short[: -len(value) - 1] + bytes([len(value) | 0x80, 0x80, 0x00]) + value
    log = written(tmp_path, [(0, 0, Frame(sn=1).encode() + long + short)], metadata_only=["a"])
    for row in tables(log, log.plan())["samples"].to_pylist():
        assert (row["payload_size"], row["payload_sha256"]) == (len(value), sha256(value))
    assert value not in next((tmp_path / "w").glob("*.arrow")).read_bytes()


def test_chosen_columns_need_no_others(tmp_path):
    batches = [
        (0, 0, Frame(sn=sn).encode() + Push(key=(0, True, "a"), body=Put(payload=b"x" * sn)).encode())
        for sn in range(9)
    ]
    log = written(tmp_path, batches, block_size=1, metadata_only=["a"])
    for table, columns in (("samples", ["payload_size"]), ("messages", ["payload_size", "size"])):
        whole = tables(log, log.plan())[table]
        found = [batch for _, batch in decode_ranges(log, log.plan(), {table: columns}, rows=2)]
        assert pa.Table.from_batches(found) == whole.select(columns)
    sizes = tables(log, log.plan())["samples"]["payload_size"].to_pylist()
    assert sizes == list(range(9))


def test_two_writers_of_a_log_count_their_own_batches(tmp_path):
    """Batches of several writers have the same number. Some values are redacted, another is not."""
    batch = Frame(sn=1).encode() + Push(key=(0, True, "a"), body=Put(payload=b"value")).encode()
    written(tmp_path, [(0, 0, batch)], "one", metadata_only=["a"])
    log = written(tmp_path, [(0, 0, batch)], "two")
    written(tmp_path, [(0, 0, batch)], "zwo", metadata_only=["a"])
    samples = tables(log, log.plan())["samples"]
    assert samples["payload"].to_pylist() == [None, b"value", None]
    assert samples["payload_sha256"].to_pylist() == [sha256(b"value"), None, sha256(b"value")]


def test_a_redaction_marker_counts_only_if_the_block_lists_it(tmp_path):
    forged = hashlib.sha256(b"x").digest()
    batch = Frame(sn=1).encode() + Push(key=(0, True, "b"), body=Put(payload=forged)).encode()
    log = written(tmp_path, [(0, 0, batch)], metadata_only=["a"])
    [row] = tables(log, log.plan())["samples"].to_pylist()
    assert (row["payload"], row["payload_sha256"]) == (forged, None)


def test_an_invalid_key_is_refused(tmp_path):
    with pytest.raises(KeyExprError):
        Writer(tmp_path, "w", metadata_only=["a//b"])
