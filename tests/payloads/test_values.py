# SPDX-License-Identifier: Apache-2.0
"""Payloads of the usual libraries decode to the encoded values. An invalid payload has an error and affects only its row."""

import datetime
import json
import math
import pickle
import time
from decimal import Decimal

import cbor2
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.payloads.fixtures import (
    LASER_SCAN,
    cdr,
    descriptors,
    laser_scan,
    message_class,
    ros,
    ros_key,
    samples,
)
from zenlake.columns.schemas import ERRORS
from zenlake.errors import InvalidValue
from zenlake.payloads import make_plan
from zenlake.tables import ros_keys, value_errors, values

ext = pytest.importorskip("zenoh.ext")

POSE = pa.struct([("x", pa.float64()), ("seq", pa.int64()), ("tags", pa.list_(pa.string()))])


def both(table):
    return table["value"].to_pylist(), table["value_error"].to_pylist()


def the_value(table):
    [value], [why] = both(table)
    assert why is None, why
    return value


def test_json_gets_the_schema_of_its_sample():
    documents = [
        {"robot": "r1", "pose": {"x": 1, "y": 2.5}, "path": [[1, 2], []], "ok": True, "odd name": None, "any": 1},
        {"robot": "r2", "pose": {"x": 0.5}, "any": {"deep": [1]}},
    ]
    found = values(samples([*(json.dumps(each).encode() for each in documents), None, b"null"]), "json")
    assert found.column_names == ["key", "payload", "value", "value_error"]
    assert found.schema.field("value").type == pa.struct([
        ("robot", pa.string()),
        ("pose", pa.struct([("x", pa.float64()), ("y", pa.float64())])),
        ("path", pa.list_(pa.list_(pa.int64()))),
        ("ok", pa.bool_()),
        ("odd name", pa.string()),
        ("any", pa.string()),  # the types differ: JSON text
    ])  # fmt: skip
    assert both(found) == (
        [
            {"robot": "r1", "pose": {"x": 1.0, "y": 2.5}, "path": [[1, 2], []], "ok": True, "odd name": None, "any": "1"},
            {"robot": "r2", "pose": {"x": 0.5, "y": None}, "path": None, "ok": None, "odd name": None, "any": '{"deep":[1]}'},
            None,
            None,
        ],
        [None] * 4,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b'{"seq": "5"}', "Expected `int | null`, got `str` - at `$.seq`"),
        (b'{"seq": 1.5}', "Expected `int | null`, got `float` - at `$.seq`"),
        (b'{"seq": 9223372036854775808}', "Expected `int` <= 9223372036854775807 - at `$.seq`"),
        (b'{"x": 1e999}', "Number out of range - at `$.x`"),
        (b'{"tags": "abc"}', "Expected `array | null`, got `str` - at `$.tags`"),
        (b'{"x": 1} {"x": 2}', "JSON is malformed: trailing characters (byte 10)"),
        (b"[1]", "Expected `object | null`, got `array`"),
        (b"", "Input data was truncated"),
        (b'{"x": NaN}', "JSON is malformed: invalid character (byte 6)"),
        (b'{"other": ' + b"[" * 1_000_000, "nested too deep"),
    ],
)
def test_json_that_does_not_match_is_null_with_a_reason(payload, why):
    good = b'{"x": 1, "seq": 2, "tags": ["a", null], "more": [[]]}'
    found, whys = both(values(samples([good, payload, good]), "json", schema=POSE))
    assert found == [{"x": 1.0, "seq": 2, "tags": ["a", None]}, None, {"x": 1.0, "seq": 2, "tags": ["a", None]}]
    assert whys == [None, why, None]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@settings(deadline=None)  # the first one imports the libraries
@given(st.lists(JSON, min_size=1, max_size=5))
def test_whatever_schema_is_inferred_the_sample_fits_it(documents):
    for format, dumps in (("json", lambda each: json.dumps(each).encode()), ("cbor", cbor2.dumps)):
        found, whys = both(values(samples([dumps(each) for each in documents]), format))
        assert whys == [None] * len(documents)
        assert all(same(*pair) for pair in zip(found, documents, strict=True))


def same(found, document):
    """Return the decoded value: fields of other documents are null, and JSON text replaces fields with different types."""
    if isinstance(found, dict):
        assert isinstance(document, dict)
        return all(same(value, document.get(name)) for name, value in found.items())
    if isinstance(found, list):
        return all(same(*pair) for pair in zip(found, document, strict=True))
    if isinstance(found, str) and not isinstance(document, str):
        return json.loads(found) == document
    return found == document


@settings(deadline=None)  # the first one imports the libraries
@given(st.binary(max_size=64))
def test_no_bytes_harm_more_than_their_own_row(payload):
    boxes = pa.struct(
        [("s", pa.string()), ("l", pa.list_(pa.struct([("n", pa.uint16()), ("m", pa.map_(pa.string(), pa.int8()))])))]
    )
    for format, options in {
        "json": {"schema": POSE}, "cbor": {"schema": POSE}, "text": {}, "serialized": {"schema": boxes},
        "protobuf": {"type": "fleet.State", "descriptors": DESCRIPTORS}, "cdr": {"type": "sensor_msgs/msg/LaserScan"},
    }.items():  # fmt: skip
        found, whys = both(values(samples([payload]), format, **options))
        assert whys == [None] or found == [None]


def test_schemas_have_times_bytes_decimals_and_maps():
    schema = pa.schema({
        "t": pa.timestamp("us", tz="UTC"), "d": pa.date32(), "b": pa.binary(), "n": pa.decimal128(20, 2),
        "m": pa.map_(pa.string(), pa.int8()), "f": pa.float32(),
    })  # fmt: skip
    document = b'{"t": "2026-01-02T03:04:05+01:00", "d": "2026-01-02", "b": "aGk=", "n": "12.50", "m": {"a":1,"b":null}, "f": 0.5}'
    expected = {
        "t": datetime.datetime(2026, 1, 2, 2, 4, 5, tzinfo=datetime.UTC), "d": datetime.date(2026, 1, 2), "b": b"hi",
        "n": Decimal("12.50"), "m": [("a", 1), ("b", None)], "f": 0.5,
    }  # fmt: skip
    assert the_value(values(samples([document]), "json", schema=schema)) == expected
    packed = cbor2.dumps({**expected, "m": {"a": 1, "b": None}})
    assert the_value(values(samples([packed]), "cbor", schema=schema)) == expected
    [_], [why] = both(values(samples([b'{"n": "1e40"}']), "json", schema=schema))
    assert "precision" in why or "decimal" in why.lower()


def test_cbor_gets_the_schema_of_its_sample():
    document = {
        "x": 1.5,
        "n": 7,
        "raw": b"\xff\x00",
        "t": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        "l": [1, None],
    }
    found = values(samples([cbor2.dumps(document)]), "cbor")
    assert the_value(found) == document
    assert found.schema.field("value").type.field("raw").type == pa.binary()


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ("9b7fffffffffffffff", "premature end of stream"),  # an array of 2**63 - 1
        ("5b7fffffffffffffff", "premature end of stream"),  # bytes of that length
        ("81" * 100_000, "nesting depth"),
        ("d81c81d81d00", "shared value is refused"),  # an array that contains itself
        ("d8238122282f", "regular expression is refused"),
        ("bb0000000100000000", "premature end of stream"),
    ],
)
def test_hostile_cbor_is_bounded(payload, why):
    started = time.monotonic()
    [_, found], [_, message] = both(values(samples([cbor2.dumps([1]), bytes.fromhex(payload)]), "cbor"))
    assert found is None
    assert why in message
    assert time.monotonic() - started < 1


SERIALIZED = [
    (pa.int32(), 5),
    (pa.int8(), ext.Int8(-1)), (pa.int16(), ext.Int16(-300)), (pa.int64(), ext.Int64(-(2**40))),
    (pa.uint8(), ext.UInt8(255)), (pa.uint16(), ext.UInt16(65535)), (pa.uint32(), ext.UInt32(2**32 - 1)),
    (pa.uint64(), ext.UInt64(2**64 - 1)), (pa.float32(), ext.Float32(1.5)), (pa.float64(), 2.25), (pa.bool_(), True),
    (pa.string(), "héllo" * 50), (pa.binary(), b"\x00\xff"), (pa.list_(pa.int32()), [1, 2, 3]), (pa.list_(pa.string()), ["a", ""]),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "value"), SERIALIZED, ids=lambda each: str(each)[:20])
def test_zenoh_serialized_values_are_decoded(type_, value):
    found = the_value(values(samples([bytes(ext.z_serialize(value))]), "serialized", schema=type_))
    assert found == value or math.isclose(found, value)


def test_tuples_and_dicts_of_the_serializer_are_structs_and_maps():
    schema = pa.struct([
        ("n", pa.uint32()), ("name", pa.string()), ("path", pa.list_(pa.struct([("x", pa.float64()), ("y", pa.float32())]))),
        ("tags", pa.map_(pa.string(), pa.int8())),
    ])  # fmt: skip
    value = (ext.UInt32(7), "r1", [(1.5, ext.Float32(0.5)), (2.5, ext.Float32(1))], {"a": ext.Int8(-1)})
    found = values(samples([bytes(ext.z_serialize(value))]), "serialized", schema=schema)
    assert the_value(found) == {
        "n": 7, "name": "r1", "path": [{"x": 1.5, "y": 0.5}, {"x": 2.5, "y": 1.0}], "tags": [("a", -1)],
    }  # fmt: skip
    assert found.schema.field("value").type.field("n").type == pa.int64()


@pytest.mark.parametrize(
    ("type_", "payload", "why"),
    [
        (pa.list_(pa.int64()), "ffffffffffffffff7f", "items declared, 0 bytes left"),
        (pa.list_(pa.list_(pa.string())), "ff" * 20, "it does not fit 64 bits"),
        (pa.string(), "05616263", "5 bytes expected, 3 left"),
        (pa.string(), "01ff", "not UTF-8"),
        (pa.bool_(), "02", "neither true (1) nor false (0)"),
        (pa.int32(), "0000000000", "1 bytes left over"),
        (pa.map_(pa.string(), pa.int8()), "ff01", "255 items declared"),
    ],
    ids=str,
)
def test_hostile_serialized_bytes_are_bounded(type_, payload, why):
    [found], [message] = both(values(samples([bytes.fromhex(payload)]), "serialized", schema=type_))
    assert found is None
    assert why in message


DESCRIPTORS = descriptors()


def test_protobuf_by_descriptors():
    State, Point = message_class("fleet.State"), message_class("fleet.Point")
    message = State(robot="r1", seq=2**64 - 1, count=2**32 - 1, mode=1, raw=b"\xff", tags={"a": 1}, speed=0.5)
    message.at.x = 1.5
    message.path.add(x=1, y=2)
    message.time.FromNanoseconds(1_700_000_000_123_456_789)
    message.parent.robot = "r0"
    found = values(
        samples([message.SerializeToString(), b"", None]), "protobuf", type="fleet.State", descriptors=DESCRIPTORS
    )
    [whole, empty, none], whys = both(found)
    assert whys == [None, None, None]
    assert none is None
    assert whole == {
        "robot": "r1", "seq": Decimal(2**64 - 1), "count": 2**32 - 1, "at": {"x": 1.5, "y": 0.0}, "path": [{"x": 1.0, "y": 2.0}],
        "mode": "MOVING", "time": datetime.datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=datetime.UTC), "raw": b"\xff",
        "parent": '{"robot": "r0"}', "tags": [("a", 1)], "speed": 0.5,
    }  # fmt: skip
    assert empty == {
        "robot": "", "seq": Decimal(0), "count": 0, "at": None, "path": [], "mode": "IDLE", "time": None, "raw": b"",
        "parent": None, "tags": [], "speed": None,
    }  # fmt: skip
    assert Point is not None


def test_hostile_protobuf_is_bounded():
    nested = b""
    for _ in range(2000):  # field 9, a message, in itself
        length = bytearray()
        size = len(nested)
        while size > 0x7F:
            length.append(size & 0x7F | 0x80)
            size >>= 7
        nested = b"\x4a" + bytes(length) + bytes([size]) + nested
    far = b"\x0a\xff\xff\xff\xff\x0f"  # a text of 4 GiB
    found, whys = both(values(samples([nested, far]), "protobuf", type="fleet.State", descriptors=DESCRIPTORS))
    assert found == [None, None]
    assert None not in whys


def test_ros_messages_by_the_type_that_their_keys_name():
    name = "sensor_msgs/msg/LaserScan"
    payload, key = cdr(laser_scan(), name), ros_key("/robot1/scan", name)
    other = ros_key("/robot1/name", "std_msgs/msg/String")
    elsewhere = ros_key("/robot2/scan", name, "RIHS01_" + "0" * 64)
    table = samples([payload, payload, payload, payload, None], [key, other, elsewhere, "not/ros", key])
    found, whys = both(values(table, "cdr", type=name))
    assert found == [LASER_SCAN, None, None, LASER_SCAN, None]
    assert whys[1] == "the key has type std_msgs/msg/String, not sensor_msgs/msg/LaserScan"
    assert whys[2].startswith(
        "the hash of the key belongs to another definition of sensor_msgs/msg/LaserScan: RIHS01_000"
    )
    assert [whys[row] for row in (0, 3, 4)] == [None] * 3
    assert both(values(samples([payload], [key]), "cdr"))[0] == [LASER_SCAN]
    assert ros_keys(table)["ros"].to_pylist()[0] == {
        "domain": 0,
        "topic": "/robot1/scan",
        "type": name,
        "hash": "RIHS01_64c191398013af96509d518dac71d5164f9382553fce5c1f8cca5be7924bd828",
    }
    assert ros_keys(table)["ros"].to_pylist()[3] is None


def test_ros_messages_of_ones_own_definition():
    own = {
        "fleet/msg/Leg": "uint8[] raw\nuint64 id\nstring[] names\ngeometry_msgs/Point[2] ends\nbool[] flags\nint64[3] n"
    }
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    store = get_typestore(Stores.ROS2_JAZZY)
    store.register(get_types_from_msg(own["fleet/msg/Leg"], "fleet/msg/Leg"))
    import numpy

    point = store.types["geometry_msgs/msg/Point"]
    leg = store.types["fleet/msg/Leg"](
        raw=numpy.array([1, 255], numpy.uint8), id=2**64 - 1, names=["a", "b"], ends=[point(x=1.0, y=2.0, z=3.0)] * 2,
        flags=numpy.array([True, False]), n=numpy.array([1, 2, 3], numpy.int64),
    )  # fmt: skip
    payload = bytes(store.serialize_cdr(leg, "fleet/msg/Leg"))
    assert the_value(values(samples([payload]), "cdr", type="fleet/msg/Leg", definitions=own)) == {
        "raw": b"\x01\xff", "id": Decimal(2**64 - 1), "names": ["a", "b"], "ends": [{"x": 1.0, "y": 2.0, "z": 3.0}] * 2,
        "flags": [True, False], "n": [1, 2, 3],
    }  # fmt: skip


def test_hostile_cdr_is_bounded():
    text = cdr(ros("std_msgs/msg/String", data="hello"), "std_msgs/msg/String")
    started = time.monotonic()
    for payload in (text[:4] + b"\xff\xff\xff\xff", text[:-1], b"", text + b"\0" * 64):
        [found], [why] = both(values(samples([payload]), "cdr", type="std_msgs/msg/String"))
        assert found is None
        assert why
    scan = cdr(laser_scan(), "sensor_msgs/msg/LaserScan")
    at = scan.index(b"\x03\x00\x00\x00\x00\x00\x80\x3f")  # the count of ranges
    [found], [why] = both(
        values(samples([scan[:at] + b"\xff\xff\xff\xff" + scan[at + 4 :]]), "cdr", type="sensor_msgs/msg/LaserScan")
    )
    assert found is None
    assert "4294967295" in why
    assert time.monotonic() - started < 5


def test_text_is_utf8_or_null():
    found, whys = both(values(samples(["héllo".encode(), b"\xff", None]), "text"))
    assert found == ["héllo", None, None]
    assert whys == [None, "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte", None]


def test_values_that_do_not_match_are_rows_of_errors():
    table = samples([b"{}", b"nope" * 25_000]).append_column("packet", pa.array([1, 2], pa.int64()))
    errors = value_errors(values(table, "json", schema=POSE, into="pose"), into="pose")
    assert errors.schema == ERRORS
    [row] = errors.to_pylist()
    assert (row["packet"], row["field"], row["why"], len(row["bytes"])) == (
        2, "pose", "JSON is malformed: invalid character (byte 4)", 65536,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("format", "options", "line"),
    [
        ("jsn", {}, "unknown format 'jsn'; did you mean 'json'? expected one of json, cbor, text, serialized, protobuf, cdr"),
        ("json", {"type": "T"}, "type does not apply to format 'json'; expected schema"),
        ("text", {"schema": POSE}, "schema does not apply to format 'text'; expected no further argument"),
        ("json", {"schema": "x int"}, "invalid schema 'x int'; expected a pyarrow type or schema"),
        ("json", {"schema": pa.struct([("x", pa.uint8())])}, "schema: JSON and CBOR do not support the type uint8"),
        (
            "json", {},
            "the schema cannot be inferred: none of the first payloads is JSON "
            "(JSON is malformed: invalid character (byte 0)); pass schema=",
        ),
        ("serialized", {}, "schema: the z_serialize format stores no types; pass schema="),
        ("protobuf", {"type": "fleet.State"}, "protobuf needs type= (package.Message) and descriptors="),
        (
            "protobuf", {"type": "State", "descriptors": DESCRIPTORS},
            "type: unknown message 'State'; expected one of fleet.Point, fleet.State, google.protobuf.Timestamp",
        ),
        ("cdr", {}, "the type cannot be inferred: no key names one; pass type=, for example 'geometry_msgs/msg/Pose'"),
        ("cdr", {"type": "geometry_msgs/Pose"}, "type: ROS 2 jazzy has no 'geometry_msgs/Pose'; is it geometry_msgs/msg/Pose?"),
        ("cdr", {"type": "a/msg/B"}, "type: ROS 2 jazzy has no 'a/msg/B'; pass its text: definitions="),
        ("cdr", {"type": "a/msg/B", "distro": "noetic"}, "distro: unknown ROS 2 distribution 'noetic'; expected one of dashing, "),
        ("json", {"into": "key"}, "column 'key' exists already; select another name with into="),
        ("json", {"column": "body"}, "missing column 'body'; expected one of key, payload"),
    ],
    ids=lambda each: "",
)  # fmt: skip
def test_a_mistake_is_reported_in_one_line(format, options, line):
    with pytest.raises(InvalidValue) as caught:
        values(samples([b"oops"]), format, **options)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_a_plan_travels():
    plan = make_plan("protobuf", lambda rows: [], {"type": "fleet.State", "descriptors": DESCRIPTORS})
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan
    assert again.decode(pa.array([b""]))[0].to_pylist()[0]["mode"] == "IDLE"
