# SPDX-License-Identifier: Apache-2.0
"""`df.write.format("zenoh")` and queries as tables, through a router of eclipse-zenoh: the rows arrive as samples."""

import json
import math
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

import zenlake
from tests.interop.nodes import PATIENCE
from zenlake.api.arrow import ArrowChannel
from zenlake.errors import InvalidValue
from zenlake.log import Writer
from zenlake.spark.zenoh_source import ZenohSource
from zenlake.wire.network import Push
from zenlake.wire.transport import Frame
from zenlake.wire.zenoh_body import Put

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.timeout(300)]

NOT_DROPPED = 0x0D  # QoS: priority data, and wait rather than drop
SOURCE = ["source_zid", "source_eid", "source_sn"]


class Listener:
    """Return the samples of a key that arrive through the router."""

    def __init__(self, session, key):
        self.subscriber = session.declare_subscriber(key, ArrowChannel(age=0.2))

    def take(self, count):
        found = []
        while sum(batch.num_rows for batch in found) < count:
            found.append(self.subscriber.recv(PATIENCE))
        return pa.Table.from_batches(found)


@pytest.fixture
def session(router):
    config = zenlake.Config()
    config.insert_json5("mode", '"client"')
    config.insert_json5("connect/endpoints", json.dumps([router.where]))
    with zenlake.open(config) as session:
        yield session


@pytest.fixture
def listening(router, session):
    def to(key):
        listener = Listener(session, key)
        name = f"heard {key}"
        router.do("pub", name, key.replace("**", "x").replace("*", "x"))
        if not router.do("matching", name):
            router.events.wait("matching", name)
        return listener

    return to


def writing(rows, router, **options):
    return rows.write.format("zenoh").options(connect=router.where, **options).mode("append")


def by_payload(table, columns):
    return sorted(table.select(columns).to_pylist(), key=lambda row: (row["payload"] or b"", row["key"]))


def test_rows_are_published_with_all_columns(spark, router, listening):
    stamp = datetime(2026, 5, 1, 12, 0, 0, 250000, UTC)
    columns = "key string, payload binary, kind string, encoding string, attachment binary, priority int, congestion string, timestamp timestamp"  # noqa: E501
    given = [
        ("s/a/1", b"1", "put", "text/plain", b"\xff", 1, "drop", stamp),
        ("s/a/2", b"2", "put", "application/json", None, 7, "block", None),
        ("s/a/3", b"", "put", None, None, None, None, None),
        ("s/a/1", None, "del", None, b"gone", 5, None, None),
    ]
    listener = listening("s/a/**")
    writing(spark.createDataFrame(given, columns), router).save()
    got = {(row["key"], row["kind"]): row for row in listener.take(4).to_pylist()}
    first, second, third = got["s/a/1", "put"], got["s/a/2", "put"], got["s/a/3", "put"]
    assert (first["payload"], first["encoding"], first["attachment"], first["priority"], first["congestion"]) == (
        b"1", "text/plain", b"\xff", 1, "drop",
    )  # fmt: skip
    assert first["timestamp"] == stamp
    assert (second["encoding"], second["attachment"], second["priority"]) == ("application/json", None, 7)
    assert (third["payload"], third["encoding"], third["congestion"]) == (b"", "zenoh/bytes", "block")
    assert got["s/a/1", "del"]["attachment"] == b"gone"


def test_options_stand_in_for_columns_and_the_identity_names_every_row(spark, router, listening):
    rows = spark.range(3000).selectExpr("cast(id as string) as payload").repartition(3)
    listener = listening("s/fixed")
    options = {"key": "s/fixed", "encoding": "text/plain", "attachment": "a", "priority": "2", "identity": "job-1"}
    writing(rows, router, **options).save()
    once = listener.take(3000)
    assert sorted(int(each) for each in once["payload"].to_pylist()) == list(range(3000))
    assert {name: once[name].unique().to_pylist() for name in ("encoding", "attachment", "priority")} == {
        "encoding": ["text/plain"], "attachment": [b"a"], "priority": [2],
    }  # fmt: skip
    names = {tuple(row.values()) for row in once.select(SOURCE).to_pylist()}
    assert len(names) == 3000
    writing(rows, router, **options).save()
    again = listener.take(3000)
    assert {tuple(row.values()) for row in again.select(SOURCE).to_pylist()} == names
    writing(rows, router, **options | {"identity": "job-2"}).save()
    other = listener.take(3000)
    assert not names & {tuple(row.values()) for row in other.select(SOURCE).to_pylist()}


def test_a_micro_batch_that_is_repeated_can_be_recognised(spark, router, listening, tmp_path):
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    rows = spark.createDataFrame([(f"s/stream/{n}", str(n)) for n in range(20)], "key string, payload string")
    rows.coalesce(1).write.parquet(str(source))

    def run():
        stream = spark.readStream.schema("key string, payload string").parquet(str(source))
        writer = stream.writeStream.format("zenoh").option("connect", router.where)
        writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()

    listener = listening("s/stream/*")
    run()
    once = by_payload(listener.take(20), ["key", "payload", *SOURCE])
    assert [row["payload"] for row in once] == sorted(b"%d" % n for n in range(20))
    (checkpoint / "commits" / "0").unlink()  # as if the driver was killed before it recorded the commit
    (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    run()
    assert by_payload(listener.take(20), ["key", "payload", *SOURCE]) == once


def test_replies_are_rows(spark, router):
    router.do("queryable", "q", "s/ask/a", "reply")
    asked = spark.read.format("zenoh").options(connect=router.where, selector="s/ask/**?x=1", columns="key,payload")
    assert [tuple(row) for row in asked.load().collect()] == [("s/ask/a", bytearray(b"of q"))]
    assert router.events.wait("query", "q")[0][:2] == ["s/ask/**", "x=1"]
    without_reply = spark.read.format("zenoh").options(connect=router.where, selector="s/none", timeout="2")
    assert without_reply.load().count() == 0


def test_target_and_consolidation_select_the_replies(spark, router, session):
    router.do("queryable", "theirs", "s/both/a", "reply")
    session.declare_queryable("s/both/a", lambda query: query.reply("s/both/a", "of ours"))
    asked = spark.read.format("zenoh").options(
        connect=router.where, selector="s/both/a", columns="payload", target="all"
    )
    every = asked.option("consolidation", "none").load().collect()
    assert sorted(bytes(row.payload) for row in every) == [b"of ours", b"of theirs"]
    assert len(asked.option("consolidation", "latest").load().collect()) == 1


def test_a_recording_is_replayed_by_several_tasks_in_the_order_of_each_key(spark, router, listening, tmp_path):
    sent = [(f"fleet/r{n % 5}", b"%d" % n) for n in range(100)]
    with Writer(tmp_path / "log", "tap-1", sync="sealed") as writer:
        face = writer.face("tcp", "10.0.0.1:40000", "10.0.0.2:7447")
        for sn, (key, payload) in enumerate(sent):
            push = Push(key=key, qos=NOT_DROPPED, body=Put(payload=payload))
            batch = Frame(reliable=True, sn=sn).encode() + push.encode()
            writer.append(face, 0, batch, received=1_700_000_000_000_000_000 + sn * 10_000_000)
    listener = listening("again/**")
    result = zenlake.spark.replay(
        spark, tmp_path / "log", connect=[router.where], keys="fleet/*", rename=[("fleet", "again")], partitions=2,
        speed=0.5,
    )  # fmt: skip
    assert (result.samples, result.seconds) == (100, 1.98)
    got = listener.take(100).to_pylist()
    for robot in range(5):
        of_key = [row["payload"] for row in got if row["key"] == f"again/r{robot}"]
        assert of_key == [b"%d" % n for n in range(robot, 100, 5)]
    took = max(row["received"] for row in got) - min(row["received"] for row in got)
    assert took.total_seconds() > 0.4
    with pytest.raises(InvalidValue, match="nothing to replay"):
        zenlake.spark.replay(spark, tmp_path / "log", connect=[router.where], keys="no/such/key")
    listener = listening("twice/**")
    with ThreadPoolExecutor() as pool:  # on any thread
        arguments = {"connect": [router.where], "rename": [("fleet", "twice")], "speed": math.inf, "times": 2}
        result = pool.submit(zenlake.spark.replay, spark, tmp_path / "log", **arguments).result()
    assert result.samples == 200
    got = listener.take(200).to_pylist()
    assert [row["payload"] for row in got if row["key"] == "twice/r1"] == [b"%d" % n for n in range(1, 100, 5)] * 2


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"connect": "localhost"}, "connect/endpoints: "),
        ({"key": "a//b"}, "option 'key': key expression `a//b` has a fault"),
        ({"key": "a/*"}, "option 'key': invalid value 'a/*' with wildcards; expected a single key"),
        ({"priority": "9"}, "option 'priority': invalid value 9; expected 1 (real-time) to 7 (background)"),
        ({"congestion": "wait"}, "option 'congestion': invalid value 'wait'; expected one of drop, block, block_first"),
        ({"keys": "a"}, "unknown option 'keys'; did you mean 'key'? expected one of connect, "),
        ({}, "missing column 'key'; the rows have payload"),
        ({"selector": "a"}, "writing needs the option 'connect'; remove the path, 'subscribe' and 'selector'"),
    ],
    ids=str,
)
def test_a_mistake_is_reported_in_one_line(options, line):
    rows = StructType([StructField("payload", StringType())])
    with pytest.raises(ValueError, match=r"^zenoh: ") as caught:
        ZenohSource({"connect": "tcp/127.0.0.1:1", **options}).writer(rows, False)
    assert str(caught.value).startswith(f"zenoh: {line}")


def test_invalid_options_are_reported_before_any_row_is_sent(spark):
    rows = spark.createDataFrame([("x",)], "payload string")
    with pytest.raises(Exception, match="zenoh: ") as caught:
        rows.write.format("zenoh").option("connect", "tcp/127.0.0.1:1").mode("append").save()
    [message] = [each for each in str(caught.value).splitlines() if each.startswith("ValueError: ")]
    assert message == "ValueError: zenoh: missing column 'key'; the rows have payload"


def test_columns_of_no_use_and_of_wrong_types_are_refused():
    for name, kind, line in (
        ("encodng", StringType(), "unknown column 'encodng'; select only key, payload, "),
        ("payload", IntegerType(), "invalid type int of column 'payload'; cast it to binary or string"),
    ):
        rows = StructType([StructField("key", StringType()), StructField("payload", StringType())])
        rows = StructType([*(field for field in rows if field.name != name), StructField(name, kind)])
        with pytest.raises(ValueError, match=line):
            ZenohSource({"connect": "tcp/127.0.0.1:1"}).writer(rows, False)


def test_reading_with_connect_alone_names_the_missing_option():
    with pytest.raises(ValueError, match=r"'connect' alone reads nothing; set 'selector' for a query"):
        ZenohSource({"connect": "tcp/127.0.0.1:1"}).schema()


@pytest.mark.parametrize("thread", [False, True], ids=["the session's thread", "another"])
def test_a_refused_connection_fails_the_write(spark, thread):
    rows = spark.createDataFrame([("a", "x")], "key string, payload string")

    def write():
        zenlake.spark.session()
        rows.write.format("zenoh").option("connect", "tcp/127.0.0.1:1").mode("append").save()

    with (
        ThreadPoolExecutor() as pool,
        pytest.raises(Exception, match=r"tcp/127\.0\.0\.1:1: connection refused"),
    ):
        pool.submit(write).result() if thread else write()


@pytest.mark.parametrize("stream", [False, True])
def test_a_password_is_in_no_plan(spark, tmp_path, stream, capfd):
    config = "{transport: {auth: {usrpwd: {user: 'robot', password: 'hunter2'}}}}"
    reader = (spark.readStream if stream else spark.read).format("zenoh").option("connect", "tcp/127.0.0.1:1")
    reader = reader.option("config", config).option("subscribe" if stream else "selector", "a/**")
    rows = reader.load(str(tmp_path / "log")) if stream else reader.load()
    rows.explain(True)
    assert "hunter2" not in rows._jdf.queryExecution().toString() + capfd.readouterr().out


def test_a_password_is_in_no_error():
    options = {
        "connect": "tcp/127.0.0.1:1",
        "selector": "a/**",
        "config": "{transport: {auth: {usrpwd: {password: hunter2}}}}",
    }
    with pytest.raises(ValueError, match="line 1, column") as refused:
        ZenohSource(options).reader(StructType([]))
    assert "hunter2" not in str(refused.value)
