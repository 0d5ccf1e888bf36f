# SPDX-License-Identifier: Apache-2.0
"""`explain` covers every byte, describes its meaning, and stops at the first invalid one."""

from itertools import islice

import pytest

from tests.vectors import batches
from zenlake.errors import DecodeError
from zenlake.wire.explain import explain
from zenlake.wire.framing import add_prefix, compress

REFUSED = {14, 26, 113, 126, 139, 157, 163}  # lines of `probe`: see test_vectors


def rows(explanation):
    return [(row.at, row.data.hex(" "), row.depth, row.name, row.words) for row in explanation.rows]


@pytest.mark.parametrize("file", sorted({batch.file for batch in batches()}))
def test_every_recorded_byte_is_in_exactly_one_row(file):
    for batch in batches(file):
        explanation = explain(batch.data, scouting=file == "scouting", low_latency=batch.low_latency)
        shown = b"".join(row.data for row in explanation.rows if row.kind != "error")
        if file == "probe" and batch.line in REFUSED:
            assert explanation.error is not None
            assert batch.data.startswith(shown)
        else:
            assert explanation.error is None, (batch.id, explanation.error)
            assert shown == batch.data
            assert all(row.words for row in explanation.rows if row.name.startswith(("key", "timestamp", "zid", "qos")))


def test_a_put_reads_like_its_diagram():
    explanation = explain(bytes.fromhex("25 ac02 fd00 03 612f62 21 15 61 8080808090808001 01 0a 0b 02 7173 02 6869"))
    assert str(explanation).splitlines() == [
        "  0000  25                       FRAME                       reliable",
        "  0001  ac 02                      sn                        300",
        "  0003  fd                         PUSH",
        "  0004  00                           key_scope               no prefix",
        "  0005  03                           key_suffix              3 bytes",
        "  0006  61 2f 62                     key_suffix              'a/b'",
        "  0009  21                           qos                     extension 0x1, a number, optional",
        "  000a  15                             qos                   Data, Drop, express",
        "  000b  61                           PUT",
        "  000c  80 80 80 80 90 80 80 01        timestamp.time        1970-01-02T12:24:33.000000000Z",
        "  0014  01                             timestamp.id_len      1 byte",
        "  0015  0a                             timestamp.id          a",
        "  0016  0b                             encoding.id           application/json, with a schema",
        "  0017  02                             encoding.schema       2 bytes",
        "  0018  71 73                          encoding.schema       'qs'",
        "  001a  02                             payload               2 bytes",
        "  001b  68 69                          payload               'hi'",
    ]


def words(wire, name, **how):
    return [row.words for row in explain(bytes.fromhex(wire.replace(" ", "")), **how).rows if row.name == name]


@pytest.mark.parametrize(
    ("wire", "name", "said"),
    [
        ("4109 12 0102 0a 0004", "INIT", "InitSyn"),
        ("4109 12 0102 0a 0004", "whatami", "client, zid of 2 bytes"),
        ("4109 12 0102 0a 0004", "zid", "201"),
        ("4109 12 0102 06 0004", "resolution", "sequence numbers 32 bit, request ids 16 bit"),
        ("8109 02 01 21 8e30", "qos_link", "priorities 1 to 3, best effort"),
        ("62 0a 00", "lease", "10 s"),
        ("22 0a 00", "lease", "10 ms"),
        ("23 07", "CLOSE", "the whole session"),
        ("03 07", "reason", "CONNECTION_TO_SELF"),
        ("03 63", "reason", "unknown reason 99"),
        ("85 00 31 01", "priority", "RealTime"),
        ("e6 01 02 7d00", "FRAGMENT", "reliable, not the last"),
        ("e6 01 02 7d00", "payload", "2 bytes of a fragmented network message"),
        ("84 2e 05", "unknown extension", "extension 0xe, a number, optional"),
        ("84 4e 02 6869", "exts", "'hi'"),
        ("25 00 f9 01 79 01 03 2f2a2a 21 08", "INTEREST", "current and future"),
        ("25 00 f9 01 79 01 03 2f2a2a 21 08", "options", "keys, tokens, restricted, suffix, sender's id"),
        ("25 00 f9 01 79 01 03 2f2a2a 21 08", "key_scope", "id 1 of the sender"),
        ("25 00 39 01 32 01 00", "key_scope", "id 1 of the receiver"),
        ("25 00 1d 05 02", "key_scope", "id 5 of the receiver"),
        ("25 00 fd 00 01 61 a1 2d 33 01 02", "qos", "Data, Block"),
        ("25 00 bc 01 00 01 61 b4 01 26 904e 23 03", "target", "ALL"),
        ("25 00 bc 01 00 01 61 b4 01 26 904e 23 03", "timeout", "10000 ms"),
        ("25 00 bc 01 00 01 61 b4 01 26 904e 23 03", "consolidation", "LATEST"),
        ("25 00 1e e4 02 01 01 61 21 8106", "info", "complete, distance 3"),
        ("25 00 7d 00 01 61 41 ffff07 01 78 00", "encoding.id", "custom encoding, with a schema"),
        ("25 00 7d 00 01 61 01 03 1b5b6d", "payload", ""),  # no control character for the terminal
    ],
)
def test_a_value_in_words(wire, name, said):
    assert words(wire, name)[-1] == said


def test_scouting_in_words():
    assert words("01 09 03", "what", scouting=True) == ["router|peer"]
    assert words("01 09 08 01", "what", scouting=True) == ["no role, zid of 1 byte"]
    assert words("22 09 01 07 01 05 7463702f78", "locators", scouting=True) == ["1 of them", "5 bytes", "'tcp/x'"]


def test_the_content_of_a_field_is_decoded():
    # OAM 1 with a link state of one node: psid 0, version 1, a peer, one link to psid 3
    assert [row[2:] for row in rows(explain(bytes.fromhex("25005f01 07 01 02 00 01 02 01 03")))[3:]] == [
        (2, "id", "1"),
        (2, "body", "7 bytes"),
        (2, "count", "1 nodes"),
        (2, "options", "whatami"),
        (2, "psid", "0"),
        (2, "sn", "1"),
        (2, "whatami", "peer"),
        (2, "links", "1"),
        (2, "links", "3"),
    ]


@pytest.mark.parametrize(
    ("wire", "field", "at"),
    [
        ("", "batch.header", 0),
        ("25 00 7d 00 05 6162", "PUSH.key_suffix", 4),
        ("25 00 7d 00 02 61ff 01 00", "PUSH.key_suffix", 6),
        ("04 08", "batch.header", 1),
        ("04 84 1f", "KEEP_ALIVE.exts", 2),
        ("25 00 5f 01 02 01 63", "LINKSTATE.psid", 7),  # the OAM is valid; its content is not
        ("8109 02 01 43 01 82", "AUTH.exts", 7),
        ("8109 02 01 21 828001", "INIT.exts.qos_link", 5),  # priorities 0 to 8
        ("0109 03 01", "INIT.whatami", 2),
    ],
)
def test_it_ends_at_the_byte_of_the_error(wire, field, at):
    data = bytes.fromhex(wire.replace(" ", ""))
    explanation = explain(data)
    assert explanation.error is not None
    assert (explanation.error.field, explanation.error.at) == (field, at)
    last = explanation.rows[-1]
    assert (last.kind, last.at, last.data) == ("error", at, data[at : at + 8])
    assert all(row.at <= at for row in explanation.rows)


@pytest.mark.parametrize("file", sorted({batch.file for batch in batches()}))
def test_of_a_batch_that_was_cut_every_byte_before_the_error_is_in_a_row(file):
    for batch in islice(batches(file), 40):
        for size in range(1, min(len(batch.data), 60)):
            explanation = explain(batch.data[:size], scouting=file == "scouting", low_latency=batch.low_latency)
            shown = b"".join(row.data for row in explanation.rows if row.kind != "error")
            assert batch.data.startswith(shown), (batch.id, size)
            assert len(shown) >= (size if explanation.error is None else explanation.error.at), (batch.id, size)


def test_a_number_that_does_not_end_is_shown():
    for explanation, at in ((explain(b"\x25\xdf\xff"), 1), (explain(b"\0\x25\xdf\xff", compressed=True), 2)):
        assert rows(explanation)[-2:] == [
            (at, "df ff", 1, "sn", "incomplete field"),
            (at + 2, "", 0, "error", "FRAME.sn: 1 byte needed, 0 left"),
        ]


def test_a_stream_that_ends_in_a_length_shows_none_of_its_compressed_batches_twice():
    plain = b"\x25\x00" + b"\x04" * 200
    explanation = explain(add_prefix(compress(plain)) + b"\x01", stream=True, compressed=True)
    assert [row.name for row in explanation.rows[-2:]] == ["KEEP_ALIVE", "error"]


def test_a_stream_is_explained_batch_by_batch():
    explanation = explain(add_prefix(b"\x04") + add_prefix(b"\x03\x00"), stream=True)
    assert [row[0::3] for row in rows(explanation)] == [
        (0, "length"),
        (2, "KEEP_ALIVE"),
        (3, "length"),
        (5, "CLOSE"),
        (6, "reason"),
    ]
    cut = explain(add_prefix(b"\x04") + b"\x05\x00\x04", stream=True)
    assert (cut.error.at, cut.error.why) == (3, "5 bytes declared, 1 left")
    assert explain(b"\x05", stream=True).error.why == "2 bytes needed, 1 left"


def test_low_latency_has_longer_lengths_and_bare_messages():
    explanation = explain(add_prefix(b"\x1d\x05\x02", low_latency=True), stream=True, low_latency=True)
    assert [row.name for row in explanation.rows] == ["length", "PUSH", "key_scope", "DEL"]
    assert explain(b"\x05\x00", low_latency=True).error is not None


def test_a_compressed_batch_is_explained_by_its_content():
    plain = bytes.fromhex("25007d0001610140") + b"a" * 64
    explanation = explain(compress(plain), compressed=True)
    assert explanation.rows[0].words == "LZ4 block of 72 bytes; the rows below count from its first"
    assert b"".join(row.data for row in explanation.rows[1:]) == plain
    assert [row.name for row in explain(b"\x00\x04", compressed=True).rows] == ["compression", "KEEP_ALIVE"]
    bad = explain(add_prefix(b"\x00\x04") + add_prefix(b"\x01\xff"), stream=True, compressed=True)
    assert (bad.error.field, bad.error.at) == ("compression.block", 7)


def test_a_long_run_is_cut_short():
    (row,) = [row for row in explain(b"\x26\x00" + bytes(100)).rows if row.name == "payload"]
    lines = list(row.lines())
    assert len(lines) == 5
    assert lines[-1][1] == "... 68 more"


def test_the_error_is_the_readers_own():
    with pytest.raises(DecodeError) as caught:
        raise explain(b"\x01").error
    assert str(caught.value) == "INIT.version at byte 1: 1 byte needed, 0 left"
