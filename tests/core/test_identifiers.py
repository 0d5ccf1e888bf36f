# SPDX-License-Identifier: Apache-2.0
import copy
import json
import pickle
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenlake.core import identifiers
from zenlake.core.encoding import Encoding
from zenlake.core.enums import (
    CongestionControl,
    ConsolidationMode,
    InterceptionPoint,
    Locality,
    Priority,
    QueryConsolidation,
    QueryTarget,
    Reliability,
    ReplyKeyExpr,
    SampleKind,
    SetIntersectionLevel,
    WhatAmI,
    WhatAmIMatcher,
)
from zenlake.core.identifiers import EntityGlobalId, SourceInfo, Timestamp, TimestampId, ZenohId
from zenlake.core.ntp64 import NTP64
from zenlake.errors import InvalidValue

MEASURED = json.loads((Path(__file__).parents[1] / "vectors/data/encodings.json").read_text())["encodings"]

ids = st.binary(min_size=1, max_size=16).filter(any)
u64s = st.integers(0, 2**64 - 1)

ZID = ZenohId.from_wire(b"\x01\x02\x03")
ONE_OF_EACH = [
    ZID,
    TimestampId(b"\x01\x02\x03"),
    EntityGlobalId(ZID, 7),
    SourceInfo(EntityGlobalId(ZID, 7), 2**32 - 1),
    NTP64(1, 500_000_000),
    Timestamp(NTP64(1, 0), b"\x01"),
    Encoding("text/plain;utf-8"),
    Encoding.TEXT_PLAIN,
    Encoding("my/own"),
    WhatAmIMatcher("router|client"),
    QueryConsolidation.AUTO,
    WhatAmI.PEER,
    Priority.DATA,
]


@pytest.mark.parametrize("value", ONE_OF_EACH, ids=lambda value: type(value).__name__)
def test_values_pickle_copy_hash_and_equal(value):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(value, protocol)) == value
    for other in (copy.copy(value), copy.deepcopy(value)):
        assert other == value
        assert hash(other) == hash(value)
        assert str(other) == str(value)
    assert value != object()


@pytest.mark.parametrize("value", ONE_OF_EACH[:10], ids=lambda value: type(value).__name__)
def test_values_take_no_new_attributes(value):
    with pytest.raises(AttributeError):
        value.surprise = 1


def test_every_public_name_is_exported():
    assert all(hasattr(identifiers, name) for name in identifiers.__all__)


class TestIds:
    def test_text_is_the_number_in_hex(self):
        assert str(ZID) == repr(ZID) == "30201"
        assert ZenohId.parse("30201") == ZID
        assert int(ZID) == 0x30201

    def test_wire_bytes_are_trimmed_and_bytes_are_padded(self):
        assert ZenohId.from_wire(b"\x01\x02\x03\x00\x00").to_wire() == b"\x01\x02\x03"
        assert bytes(ZID) == b"\x01\x02\x03" + bytes(13)
        assert bytes(TimestampId(b"\x01\x00")) == b"\x01"

    def test_a_memoryview_will_do(self):
        assert ZenohId.from_wire(memoryview(b"xx\x01\x02\x03")[2:]) == ZID

    @pytest.mark.parametrize("data", [b"", b"\0", bytes(16), bytes(17), b"1" * 17])
    def test_empty_zero_and_long_ones_are_refused(self, data):
        with pytest.raises(InvalidValue, match="1 to 16 bytes"):
            ZenohId.from_wire(data)

    @pytest.mark.parametrize("text", ["", "0", "01", "xyz", "1" * 33, "1_0", " 1", "-1", "0x1", "٣"])
    def test_odd_text_is_refused(self, text):
        with pytest.raises(InvalidValue, match="invalid ZenohId"):
            ZenohId.parse(text)

    def test_the_order_is_that_of_the_wire_bytes(self):
        # Asked of 1.10.2: TimestampId(01 02) is less than TimestampId(02 01), though 0x201 > 0x102.
        assert TimestampId(b"\x01\x02") < TimestampId(b"\x02\x01")
        assert int(TimestampId(b"\x01\x02")) > int(TimestampId(b"\x02\x01"))

    @given(ids, ids)
    def test_order_is_that_of_the_padded_bytes(self, a, b):
        assert (TimestampId(a) < TimestampId(b)) == (a.ljust(16, b"\0") < b.ljust(16, b"\0"))

    @given(ids)
    def test_wire_and_text_round_trip(self, data):
        zid = ZenohId.from_wire(data)
        assert ZenohId.from_wire(zid.to_wire()) == ZenohId.parse(str(zid)) == zid
        assert zid.to_wire() == data.rstrip(b"\0")

    def test_ids_of_two_kinds_differ(self):
        assert ZenohId.from_wire(b"1") != TimestampId.from_wire(b"1")

    @pytest.mark.parametrize("number", [-1, 2**32])
    def test_entity_ids_and_source_numbers_have_32_bits(self, number):
        with pytest.raises(InvalidValue, match="32-bit"):
            EntityGlobalId(ZID, number)
        with pytest.raises(InvalidValue, match="32-bit"):
            SourceInfo(EntityGlobalId(ZID, 1), number)


class TestEncoding:
    @pytest.mark.parametrize("entry", MEASURED, ids=lambda entry: entry["name"])
    def test_values_measured_on_the_wire(self, entry):
        name, wire = entry["name"], entry["wire"]
        if name.startswith("str:"):
            encoding = Encoding(name[4:])
        elif name.startswith("schema-"):
            encoding = Encoding.TEXT_PLAIN.with_schema(wire["schema"])
        else:
            encoding = getattr(Encoding, name)
        schema = wire.get("schema")
        assert (encoding.id, encoding.schema) == (wire["id"], None if schema is None else schema.encode())
        assert str(encoding).startswith(entry["str"].removesuffix("..."))

    def test_there_are_53_constants_and_from_wire_shares_them(self):
        constants = [value for value in vars(Encoding).values() if isinstance(value, Encoding)]
        assert [constant.id for constant in constants] == list(range(53))
        assert all(Encoding.from_wire(constant.id) is constant for constant in constants)

    @pytest.mark.parametrize(
        ("text", "id", "schema"),
        [  # companion encodings.md
            ("", 0, None),
            ("zenoh/bytes;x", 0, b"x"),
            ("text/plain;", 4, None),
            ("text/plain;utf-8", 4, b"utf-8"),
            ("text/plain;a;b", 4, b"a;b"),
            ("my/own;schema", 65535, b"my/own;schema"),
            (";onlyschema", 65535, b";onlyschema"),
            ("TEXT/PLAIN", 65535, b"TEXT/PLAIN"),
        ],
    )
    def test_from_text(self, text, id, schema):
        assert (Encoding(text).id, Encoding(text).schema) == (id, schema)
        assert Encoding(text) == text

    def test_no_text_is_zenoh_bytes(self):
        assert Encoding() == Encoding.ZENOH_BYTES

    @pytest.mark.parametrize(
        ("id", "schema", "text"),
        [
            (4, b"", "text/plain;"),
            (65535, b"a;b", "a;b"),
            (77, None, "unknown(77)"),
            (77, b"x", "unknown(77);x"),
            (65535, None, "unknown(65535)"),
            (4, b"\xff", "text/plain;\ufffd"),
        ],
    )
    def test_to_text(self, id, schema, text):
        encoding = Encoding.from_wire(id, schema)
        assert (encoding.id, encoding.schema, str(encoding)) == (id, schema, text)

    def test_an_empty_schema_is_not_no_schema(self):
        assert Encoding.TEXT_PLAIN.with_schema("") != Encoding.TEXT_PLAIN
        assert Encoding.TEXT_PLAIN.with_schema("") != "text/plain;"  # which, from text, has no schema

    def test_with_schema_replaces_the_schema(self):
        assert str(Encoding("text/plain;a").with_schema("b")) == "text/plain;b"
        assert str(Encoding("my/own").with_schema("b")) == "my/own;b"
        assert str(Encoding("my/own;a").with_schema("b")) == "my/own;b"
        assert str(Encoding("my/own;a").with_schema("")) == "my/own"
        assert str(Encoding(";a").with_schema("b")) == "b"

    def test_a_long_schema_is_refused_and_unequal(self):
        with pytest.raises(InvalidValue, match="255"):
            Encoding.TEXT_PLAIN.with_schema("x" * 256)
        assert Encoding.TEXT_PLAIN.with_schema("x" * 255).schema == b"x" * 255
        assert Encoding.TEXT_PLAIN != "text/plain;" + "x" * 256

    def test_it_hashes_like_its_text(self):
        assert {"text/plain;utf-8": 1}[Encoding("text/plain;utf-8")] == 1

    @given(st.integers(0, 65535), st.none() | st.text(max_size=60))
    def test_from_text_inverts_to_text_for_named_ones(self, id, schema):
        encoding = Encoding.from_wire(id, None if schema is None else schema.encode())
        if id < 53 and schema != "":
            assert Encoding(str(encoding)) == encoding


class TestTimestamp:
    def test_both_text_forms(self):
        stamp = Timestamp.parse_rfc3339("2026-01-01T00:00:00.000000000Z/1")
        assert str(stamp) == repr(stamp) == "7590176156653977600/1"
        assert stamp.to_string_rfc3339_lossy() == "2026-01-01T00:00:00.000000000Z/1"
        assert Timestamp.parse("7590176156653977600/1") == stamp

    def test_components(self):
        stamp = Timestamp(datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), b"\x01\x02")
        assert stamp.get_time() == datetime(2026, 1, 1, tzinfo=UTC)
        assert stamp.get_time_as_ntp64() == NTP64.from_wire(stamp.ntp64)
        assert stamp.get_id() == stamp.id == TimestampId(b"\x01\x02")

    def test_the_difference_has_a_sign(self):
        early, late = Timestamp(NTP64(1, 0), b"1"), Timestamp(NTP64(2, 500_000_000), b"1")
        assert late.get_diff_duration(early) == timedelta(seconds=1.5)
        assert early.get_diff_duration(late) == timedelta(seconds=-1.5)

    @pytest.mark.parametrize("text", ["", "1", "1/", "/1", "x/1", "1/0", "1/x", "-1/1", "1/1/1", f"{2**64}/1", "٣/1"])
    def test_odd_text_is_refused(self, text):
        with pytest.raises(InvalidValue):
            Timestamp.parse(text)

    def test_each_parser_refuses_the_other_form(self):
        with pytest.raises(InvalidValue, match="parse_rfc3339"):
            Timestamp.parse("2026-01-01T00:00:00Z/1")
        with pytest.raises(InvalidValue, match="invalid UTC time"):
            Timestamp.parse_rfc3339("7590176156653977600/1")

    @given(u64s, ids)
    def test_exact_text_round_trips(self, ntp64, id):
        stamp = Timestamp.from_wire(ntp64, id)
        assert Timestamp.parse(str(stamp)) == stamp

    @given(st.tuples(u64s, ids), st.tuples(u64s, ids))
    def test_order_is_by_time_then_by_id(self, a, b):
        expected = (a[0], a[1].ljust(16, b"\0")) < (b[0], b[1].ljust(16, b"\0"))
        assert (Timestamp.from_wire(*a) < Timestamp.from_wire(*b)) == expected


class TestChoices:
    @pytest.mark.parametrize(
        ("choice", "members"),
        [  # read from the running 1.10.2 module
            (CongestionControl, {"DROP": 0, "BLOCK": 1, "BLOCK_FIRST": 2, "DEFAULT": 0}),
            (ConsolidationMode, {"AUTO": 0, "NONE": 1, "MONOTONIC": 2, "LATEST": 3, "DEFAULT": 0}),
            (
                Priority,
                {
                    "REAL_TIME": 1,
                    "INTERACTIVE_HIGH": 2,
                    "INTERACTIVE_LOW": 3,
                    "DATA_HIGH": 4,
                    "DATA": 5,
                    "DATA_LOW": 6,
                    "BACKGROUND": 7,
                    "DEFAULT": 5,
                    "MIN": 7,
                    "MAX": 1,
                },
            ),
            (QueryTarget, {"BEST_MATCHING": 0, "ALL": 1, "ALL_COMPLETE": 2, "DEFAULT": 0}),
            (ReplyKeyExpr, {"ANY": 0, "MATCHING_QUERY": 1, "DEFAULT": 1}),
            (Reliability, {"BEST_EFFORT": 0, "RELIABLE": 1, "DEFAULT": 1}),
            (Locality, {"SESSION_LOCAL": 0, "REMOTE": 1, "ANY": 2, "DEFAULT": 2}),
            (SampleKind, {"PUT": 0, "DELETE": 1}),
            (SetIntersectionLevel, {"DISJOINT": 0, "INTERSECTS": 1, "INCLUDES": 2, "EQUALS": 3}),
            (InterceptionPoint, {"SEND": 0, "ROUTE": 1, "RECEIVE": 2}),
            (WhatAmI, {"ROUTER": 1, "PEER": 2, "CLIENT": 4}),
        ],
        ids=lambda value: value.__name__ if isinstance(value, type) else "",
    )
    def test_names_and_numbers(self, choice, members):
        assert {name: int(member) for name, member in choice.__members__.items()} == members

    def test_they_print_their_name_everywhere(self):
        assert str(Priority.DEFAULT) == repr(Priority.DATA) == f"{Priority.DATA}" == "Priority.DATA"
        assert str(SampleKind.PUT) == "SampleKind.PUT"

    def test_there_are_seven_priorities(self):
        assert Priority.NUM == 7 == len(Priority)

    def test_roles_as_text_and_on_the_wire(self):
        assert WhatAmI("peer") is WhatAmI.PEER
        assert f"{WhatAmI.PEER}" == "peer"
        assert [role.to_wire() for role in WhatAmI] == [0, 1, 2]
        assert all(WhatAmI.from_wire(role.to_wire()) is role for role in WhatAmI)

    @pytest.mark.parametrize("odd", ["PEER", "", 3, 0, None])
    def test_an_unknown_role_is_refused_by_name(self, odd):
        with pytest.raises(InvalidValue, match="router, peer or client"):
            WhatAmI(odd)
        with pytest.raises(InvalidValue, match="role code 3"):
            WhatAmI.from_wire(3)

    def test_matchers(self):
        assert str(WhatAmI.PEER | WhatAmI.ROUTER) == "router|peer"
        assert WhatAmIMatcher("peer| router") == WhatAmI.ROUTER | WhatAmI.PEER == WhatAmIMatcher.empty().router().peer()
        assert WhatAmIMatcher("router|peer|client").to_wire() == 7
        assert WhatAmIMatcher("").is_empty()
        assert WhatAmIMatcher().is_empty()
        assert WhatAmI.PEER in WhatAmIMatcher("peer")
        assert not WhatAmIMatcher("peer").matches(WhatAmI.CLIENT)
        assert list(WhatAmIMatcher("client|router")) == [WhatAmI.ROUTER, WhatAmI.CLIENT]
        with pytest.raises(InvalidValue, match=r"invalid role .foo."):
            WhatAmIMatcher("foo")
        with pytest.raises(InvalidValue, match="expected the bits"):
            WhatAmIMatcher.from_wire(8)
