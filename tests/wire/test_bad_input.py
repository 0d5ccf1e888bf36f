# SPDX-License-Identifier: Apache-2.0
"""Invalid bytes: each is refused at the correct byte of the correct field, without allocations."""

import tracemalloc

import pytest

from zenlake.errors import DecodeError
from zenlake.wire.batch_reader import BatchReader, is_plausible, messages, read_network
from zenlake.wire.cursor import Blob, Cursor
from zenlake.wire.network import Push, Request, Response
from zenlake.wire.scouting import read_scouting
from zenlake.wire.writer import WireWriter

HUGE = "ff" * 9  # 2**64 - 1
PUSH = "7d00 01 61"  # PUSH of the key `a`, up to its body
REQUEST = "fc 01 00 01 61"  # REQUEST 1 on `a`, up to its extensions
DECLARE = "1e"

BATCHES = [
    # truncated
    ("e1", "INIT.version", 1, "1 byte needed, 0 left"),
    ("0109f2 01", "INIT.zid", 3, "16 bytes declared, 1 left"),
    ("4109 02 01 0a 00", "INIT.batch_size", 5, "2 bytes needed, 1 left"),
    ("02 8080", "OPEN.lease", 3, "1 byte needed, 0 left"),
    (f"25 00 {PUSH} 01 05 68", "PUT.payload", 7, "5 bytes declared, 1 left"),
    (f"25 00 {PUSH}", "PUSH.body", 6, "1 byte needed, 0 left"),
    # oversized: beyond what the field's type holds
    ("25 00 7d 808004", "PUSH.key_scope", 3, "65536 exceeds the maximum of 65535"),
    (f"25 00 3c 8080808010 {PUSH}", "REQUEST.id", 3, "4294967296 exceeds the maximum of 4294967295"),
    (f"25 00 {PUSH} 41 01 8002 {'00' * 256} 00", "PUT.encoding.schema", 8, "256 exceeds the maximum of 255"),
    ("a5 00 31 08", "FRAME.exts.priority", 3, "8 exceeds the maximum of 7"),
    # impossible counts and lengths
    (f"25 00 {PUSH} 01 {HUGE}", "PUT.payload", 7, "18446744073709551615 bytes declared, 0 left"),
    (f"25 00 7d 00 {HUGE}", "PUSH.key_suffix", 4, "bytes declared, 0 left"),
    (f"25 00 {PUSH} 81 12 {HUGE}", "PUT.payload.kind", 17, "1 byte needed, 0 left"),
    (f"25 00 {PUSH} 81 12 02 00 00", "PUT.payload.kind", 11, "1 byte needed, 0 left"),
    (f"a5 00 4e {HUGE}", "FRAME.exts", 3, "exceeds the maximum of 4294967295"),
    ("a5 00 4e ff7f", "FRAME.exts", 3, "16383 bytes declared, 0 left"),
    # not UTF-8
    ("25 00 7d 00 03 61c328 01 00", "PUSH.key_suffix", 6, "not valid UTF-8"),
    ("25 00 7d 00 09 6161616161616161ff 01 00", "PUSH.key_suffix", 13, "not valid UTF-8"),
    (f"25 00 {REQUEST} 26 01 43 02 ff61", "QUERY.parameters", 11, "not valid UTF-8"),
    (f"25 00 {DECLARE} 83 01 5f 03 01 00 ff", "U_ENTITY.exts.key.suffix", 9, "not valid UTF-8"),
    # the reserved encoding of an extension, and of an OAM
    ("84 60", "KEEP_ALIVE.exts", 1, "reserved"),
    ("60 01", "TRANSPORT_OAM.header", 0, "reserved"),
    ("25 00 7f 01", "OAM.header", 2, "reserved"),
    # ids of no length, too long, or of nothing but zeros
    (f"25 00 {PUSH} 21 00 00 00", "PUT.timestamp.id", 9, "1 to 16 bytes"),
    (f"25 00 {PUSH} 21 00 11 {'01' * 17} 00", "PUT.timestamp.id", 9, "1 to 16 bytes"),
    (f"25 00 {PUSH} 21 00 02 0000 00", "PUT.timestamp.id", 9, "must not be zero"),
    ("0109 12 0000", "INIT.zid", 3, "must not be zero"),
    (f"25 00 {PUSH} 81 41 04 00 00 00 00 00", "PUT.exts.entity.zid", 10, "must not be zero"),
    # undefined ids
    ("08", "batch.header", 0, "no transport message has this id"),
    ("1d 00", "batch.header", 0, "a network message outside a FRAME"),
    ("25 00 04 7d 00", "batch.header", 3, "a network message outside a FRAME"),
    ("25 00 18", "batch.header", 2, "no transport message has this id"),
    (f"25 00 {PUSH} 03", "PUSH.body", 6, "a push is a PUT"),
    (f"25 00 {REQUEST} 26 01 01", "REQUEST.body", 9, "a request is a QUERY"),
    ("25 00 1b 01 00 01", "RESPONSE.body", 5, "a response is a REPLY"),
    ("25 00 1b 01 00 04 03", "REPLY.body", 6, "a reply is a PUT"),
    ("25 00 1b 01 00" + "04" * 9000, "REPLY.body", 6, "a reply is a PUT"),  # nothing nests deeper than the pages say
    (f"25 00 {DECLARE} 08", "DECLARE.body", 3, "no declaration has this id"),
    (f"25 00 {DECLARE} 00 00", "D_KEYEXPR.id", 4, "cannot be declared"),
    ("0109 03 01", "INIT.whatami", 2, "reserved"),
    (f"25 00 {REQUEST} 34 03 03", "REQUEST.exts.target", 8, "3 exceeds the maximum of 2"),
    (f"25 00 {REQUEST} 25 00 03", "REQUEST.exts.budget", 8, "not allowed"),
    # extensions that do not end, that must be known, or that end elsewhere than their content
    ("84 " + "80" * 5000, "KEEP_ALIVE.exts", 5001, "1 byte needed, 0 left"),
    ("84 10", "KEEP_ALIVE.exts", 1, "unknown mandatory extension"),
    (f"25 00 {REQUEST[:-2]}61 42 05 00 01 01 00 00 03", "REQUEST.exts.timestamp", 12, "bytes after its content"),
    (f"25 00 {PUSH} 81 41 03 00 01 00 00", "PUT.exts.source.sn", 12, "1 byte needed, 0 left"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("wire", "field", "at", "why"), BATCHES, ids=[f"{field}-{why}" for _, field, _, why in BATCHES]
)
def test_a_bad_batch_is_refused_at_the_right_byte(wire, field, at, why):
    wire = bytes.fromhex(wire.replace(" ", ""))
    with pytest.raises(DecodeError) as caught:
        messages(wire)
    assert (caught.value.field, caught.value.at) == (field, at)
    assert why in caught.value.why
    assert not is_plausible(wire)


SCOUTING = [
    ("", "scouting.header", 0, "1 byte needed, 0 left"),
    ("03", "scouting.header", 0, "unknown scouting message id 0x03"),
    ("0109", "SCOUT.what", 2, "1 byte needed, 0 left"),
    ("010900 00", "SCOUT.end", 3, "1 bytes left over"),
    ("0209 03 01", "HELLO.whatami", 2, "reserved"),
    ("0109 08 00", "SCOUT.zid", 3, "must not be zero"),
    (f"2209 00 01 {HUGE}", "HELLO.locators", 13, "1 byte needed, 0 left"),
    (f"2209 00 01 01 8002 {'61' * 256}", "HELLO.locators", 5, "256 exceeds the maximum of 255"),
    ("2209 00 01 01 01 ff", "HELLO.locators", 6, "not valid UTF-8"),
]  # fmt: skip


@pytest.mark.parametrize(("wire", "field", "at", "why"), SCOUTING, ids=[row[1] + row[3] for row in SCOUTING])
def test_a_bad_datagram_is_refused_at_the_right_byte(wire, field, at, why):
    with pytest.raises(DecodeError) as caught:
        read_scouting(bytes.fromhex(wire.replace(" ", "")))
    assert (caught.value.field, caught.value.at) == (field, at)
    assert why in caught.value.why


@pytest.mark.parametrize(
    ("wire", "at", "why"),
    [
        ("1d00 0100 04", 4, "bytes left over"),
        ("05 00", 0, "low latency mode allows only network messages"),
        ("04 04", 1, "bytes left over"),
    ],
)
def test_in_low_latency_a_batch_is_one_bare_message(wire, at, why):
    with pytest.raises(DecodeError, match=why) as caught:
        messages(bytes.fromhex(wire.replace(" ", "")), low_latency=True)
    assert caught.value.at == at


def test_fragments_join_to_exactly_one_network_message():
    with pytest.raises(DecodeError, match="bytes left over"):
        read_network(bytes.fromhex("1d000100 1d000100"))
    with pytest.raises(DecodeError, match="no network message has this id"):
        read_network(b"\x04")
    with pytest.raises(DecodeError, match="no bytes"):
        read_network(b"")


def test_an_impossible_length_allocates_no_memory():
    wires = [bytes.fromhex(wire.replace(" ", "")) for wire, *_ in BATCHES if HUGE in wire]
    assert len(wires) == 4
    tracemalloc.start()
    try:
        for wire in wires:
            with pytest.raises(DecodeError):
                messages(wire)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


# Python code that could make compiled code read outside a buffer


def test_a_cursor_stays_in_its_buffer():
    c = Cursor(b"abc")
    for outside in ((-1, None), (0, 4), (2, 1), (4, None)):
        with pytest.raises(ValueError, match="invalid range"):
            Cursor(b"abc", *outside)
    with pytest.raises(DecodeError):
        c.run("x", Blob(), -1)
    with pytest.raises(DecodeError):
        c.run("x", Blob(), 1 << 40)
    with pytest.raises(DecodeError):
        c.zid("x", Blob(), -5)
    with pytest.raises(DecodeError):
        Cursor(b"").close("x", 1000)
    with pytest.raises(TypeError):
        c.run("x", None, 1)
    with pytest.raises(TypeError):
        Cursor(None)
    assert (c.at, c.end) == (0, 3)


def test_a_run_that_was_moved_outside_its_buffer_is_not_read():
    for at, size in ((2, 2), (-1, 1), (1 << 62, 1), (1, (1 << 63) - 1), ((1 << 63) - 1, 1)):
        blob = Blob(b"abc")
        blob.at, blob.size = at, size
        for look in (lambda b: b.value, lambda b: b.view, bytes):
            with pytest.raises(ValueError, match="another buffer"):
                look(blob)
        with pytest.raises(ValueError, match="another buffer"):
            WireWriter().run("x", blob)
    push = read_network(bytes.fromhex("fd00 01 61 4e 01 7a 01 00"))  # with an unknown extension
    push.exts.at = 1 << 40
    with pytest.raises(ValueError, match="another buffer"):
        push.encode()


def emptied(message):
    message.body = None
    return message


def test_nothing_is_read_from_or_written_to_none():
    with pytest.raises(TypeError):
        BatchReader().bind(None)
    with pytest.raises(TypeError):
        Push().decode(None)
    for message in (Push(), Request(), Response()):
        with pytest.raises(TypeError):
            message.write_head(None)
        with pytest.raises((TypeError, ValueError)):
            emptied(message).encode()
    with pytest.raises(ValueError, match="missing"):
        WireWriter().run("x", None)


def test_a_batch_outside_the_buffer_is_not_begun():
    reader = BatchReader()
    reader.bind(b"\x04")
    for at, end in ((0, 2), (-1, 1), (1, 0), (2, 2)):
        with pytest.raises(DecodeError, match="does not lie in the buffer"):
            reader.begin(at, end)


@pytest.mark.parametrize("kind", [-2, -1, 8, 0x18, 0x20, 1 << 20])
def test_there_is_one_record_for_each_message(kind):
    with pytest.raises(ValueError, match="no message has the id"):
        BatchReader().record(kind)


def test_a_writer_is_taken_back_only_to_where_it_was():
    w = WireWriter()
    w.u8("x", 1)
    w.u8("x", 2)
    w.rewind(1)
    assert w.to_bytes() == b"\x01"
    for at in (-1, 2):
        with pytest.raises(ValueError, match="cannot go"):
            w.rewind(at)
