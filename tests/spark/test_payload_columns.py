# SPDX-License-Identifier: Apache-2.0
"""Typed values through Spark equal those without Spark, and each payload is sent to Python once."""

import json

import cbor2
import pyarrow as pa
import pytest

import zenlake.spark
from tests.payloads.fixtures import cdr, descriptors, laser_scan, message_class, ros_key, samples
from zenlake.columns.schemas import ERRORS
from zenlake.errors import InvalidValue
from zenlake.tables import ros_keys, value_errors, values

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SCAN = "sensor_msgs/msg/LaserScan"
DOCUMENTS = [
    {"robot": "r1", "pose": {"x": 1.5, "y": [1, 2]}, "seq": 1},
    {"robot": None, "seq": 2},
    {"seq": 3, "more": True},
]
BAD = b"\xff\x00 oops"


def cases():
    state = message_class("fleet.State")
    message = state(robot="r1", seq=2**64 - 1, mode=1, tags={"a": 1}, path=[{"x": 1.0}])
    message.time.FromNanoseconds(1_700_000_000_123_456_789)
    packed = b"\x07\x00\x00\x00\x02r1\x01\x01a\xff"
    box = pa.struct([("n", pa.uint32()), ("name", pa.string()), ("tags", pa.map_(pa.string(), pa.int8()))])
    yield "json", [json.dumps(each).encode() for each in DOCUMENTS], None, {}
    yield "cbor", [cbor2.dumps(each) for each in DOCUMENTS], None, {}
    yield "text", [b"one", "zwölf".encode()], None, {}
    yield "serialized", [packed], None, {"schema": box}
    yield "protobuf", [message.SerializeToString(), b""], None, {"type": "fleet.State", "descriptors": descriptors()}
    yield (
        "cdr",
        [cdr(laser_scan(), SCAN)] * 2,
        [ros_key("/scan", SCAN), ros_key("/a/b", "std_msgs/msg/String")],
        {"type": SCAN},
    )


@pytest.mark.parametrize(("format", "payloads", "keys", "options"), list(cases()), ids=[case[0] for case in cases()])
def test_a_value_is_the_same_through_spark_as_without_it(spark, format, payloads, keys, options):
    table = samples([*payloads, BAD, None], [*(keys or ["k"] * len(payloads)), "k", "k"])
    expected = values(table, format, **options)
    df = zenlake.spark.values(spark.createDataFrame(table), format, **options)
    found = df.toArrow()
    assert found.column_names == expected.column_names
    assert found.to_pylist() == expected.to_pylist()
    assert found["value_error"].null_count < found.num_rows
    errors = zenlake.spark.value_errors(df).toArrow()
    assert errors.schema.names == ERRORS.names
    assert errors.schema.types == ERRORS.types
    assert errors.to_pylist() == value_errors(expected).to_pylist()
    plan = df._jdf.queryExecution().executedPlan().toString()
    assert plan.count("ArrowEvalPython") == 1
    assert "pythonUDF1" not in plan, "each payload is decoded once, though two columns come of it"


def test_a_schema_may_be_sparks_own(spark):
    df = spark.createDataFrame(samples([json.dumps(each).encode() for each in DOCUMENTS]))
    found = zenlake.spark.values(df, "json", schema="seq int, pose struct<x: float>", into="state")
    assert found.schema["state"].dataType.simpleString() == "struct<seq:int,pose:struct<x:float>>"
    assert [row.state.seq for row in found.collect()] == [1, 2, 3]
    with pytest.raises(InvalidValue, match=r"^schema: \[PARSE_SYNTAX_ERROR\]"):
        zenlake.spark.values(df, "json", schema="seq in t")


def test_ros_keys_are_split_as_without_spark(spark):
    keys = [ros_key("/scan", SCAN), ros_key("/a/b", "std_msgs/msg/String"), "plain/key", None, "x/0/a/b::dds_::C_/h"]
    table = samples([b""] * len(keys), keys)
    assert zenlake.spark.ros_keys(spark.createDataFrame(table)).toArrow().to_pylist() == ros_keys(table).to_pylist()


def test_values_of_a_stream_need_a_schema_and_then_flow(spark, tmp_path):
    spark.createDataFrame(samples([b'{"seq": 7}', b"oops"])).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("key string, payload binary").parquet(str(tmp_path / "in"))
    with pytest.raises(InvalidValue, match=r"^schema cannot be inferred from a stream; pass schema=$"):
        zenlake.spark.values(stream, "json")
    typed = zenlake.spark.values(stream, "json", schema="seq bigint")
    query = typed.writeStream.format("memory").queryName("typed").trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    found = {row.payload: (row.value, row.value_error) for row in spark.table("typed").collect()}
    assert found[b'{"seq": 7}'][0].seq == 7
    assert found[b"oops"] == (None, "JSON is malformed: invalid character (byte 0)")
