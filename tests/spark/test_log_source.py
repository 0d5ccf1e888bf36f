# SPDX-License-Identifier: Apache-2.0
"""`format("zenoh")` on logs: the same tables as in Python, cell by cell, as a batch and as a stream. One line for each error."""

import json
import shutil

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zenlake
from tests.lake.fixtures import MIDNIGHT, add, decoded, recorded, rows
from zenlake.errors import LogError
from zenlake.log import BlockRange, Log, Retention, Writer, retain
from zenlake.log.layout import segment_name
from zenlake.spark import log_reader
from zenlake.spark.zenoh_source import ZenohSource
from zenlake.tables import DERIVED
from zenlake.tables.schemas import TABLES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "log"
    recorded(path, seed=1, name="tap-1")
    recorded(path, seed=2, name="tap-2", since=MIDNIGHT + 1)
    return str(path)


def read(spark, path, **options):
    return spark.read.format("zenoh").options(**options).load(path)


def stream(spark, path, checkpoint, **options):
    """Return the rows and the progress of a stream at the end of the log."""
    source = spark.readStream.format("zenoh").options(**options).load(path)
    found = []
    writer = source.writeStream.foreachBatch(lambda rows, _: found.append(rows.toArrow())).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination()
    return pa.concat_tables(found) if found else None, [json.loads(each.json) for each in query.recentProgress]


@pytest.mark.parametrize("name", [*TABLES, *DERIVED])
def test_a_table_is_the_same_through_spark_as_without_it(spark, log, name):
    found, expected = zenlake.spark.tables(spark, log)[name].toArrow(), zenlake.read(log, name)
    assert found.schema.names == expected.schema.names
    assert rows(found) == rows(expected)
    assert len(expected) > 0 or name == "errors"


def test_blocks_are_spread_over_tasks_and_every_row_is_read_once(spark, log):
    expected = rows(decoded(log, ["samples"])["samples"])
    for least in (1, 3, 50):
        found = read(spark, log, minPartitions=least)
        assert rows(found.toArrow()) == expected
        assert found.rdd.getNumPartitions() >= min(least, 15)


def test_a_choice_of_columns_keys_times_and_offsets(spark, log):
    whole = zenlake.read(log).to_pylist()
    middle = sorted(row["received"] for row in whole)[len(whole) // 2]
    found = read(spark, log, columns="payload, key", keyExpr="a/**", startingTimestamp=middle.isoformat())
    expected = zenlake.read(log, columns=["payload", "key"], keys="a/**", since=middle)
    assert found.columns == ["payload", "key"]
    assert rows(found.toArrow()) == rows(expected)
    half = {"tap-1": [1, 3], "tap-2": [2, 1]}
    first = read(spark, log, endingOffsets=json.dumps(half))
    second = read(spark, log, startingOffsets=json.dumps({**half, "#log": Log(log).id}))
    assert first.count() > 0 < second.count()
    assert rows(first.union(second).toArrow()) == rows(zenlake.read(log))
    assert read(spark, log, startingOffsets="latest").count() == 0


def test_filters_are_applied_by_the_source_when_the_user_wants_that(spark, log):
    whole = zenlake.read(log).to_pylist()
    middle = sorted(row["received"] for row in whole)[len(whole) // 2]
    key = next(row["key"] for row in whole if row["key"] and row["received"] >= middle)
    found = read(spark, log, pushdown="true").where(f"key = '{key}'").where(f"received >= '{middle}'")
    expected = [row for row in whole if row["key"] == key and row["received"] >= middle]
    assert sorted(map(repr, found.toArrow().to_pylist())) == sorted(map(repr, expected))
    assert "Filter" not in found._jdf.queryExecution().executedPlan().toString().replace("RuntimeFilters", "")


def written(offsets):
    return {name: offset for name, offset in offsets.items() if name not in ("#log", "#table")}


@pytest.mark.parametrize("limit", [{}, {"maxBytesPerTrigger": 25000}, {"maxOffsetsPerTrigger": 120}])
def test_a_stream_gives_every_row_once_whatever_its_limits(spark, log, tmp_path, limit):
    found, progress = stream(spark, log, tmp_path, startingOffsets="earliest", **limit)
    assert rows(found) == rows(zenlake.read(log))
    batches = [each["sources"][0] for each in progress if each["numInputRows"]]
    assert (len(batches) > 2) if limit else (len(batches) == 1)
    assert batches[-1]["endOffset"] == {"#log": Log(log).id, "#table": "samples", **Log(log).latest()}
    behind = [each["latestOffset"].pop("#behind") for each in batches]
    assert all(each["latestOffset"] == batches[-1]["endOffset"] for each in batches)
    assert behind[-1] == {"batches": 0, "bytes": 0, "seconds": 0.0}
    total = sum(block.rows for block in Log(log).plan())
    for each, lag in zip(batches, behind, strict=True):
        read = sum(block.rows for block in Log(log).plan(end=written(each["endOffset"])))
        assert lag["batches"] == total - read
    assert all(lag["bytes"] > 0 and lag["seconds"] > 1000 for lag in behind[:-1]), "the fixture is from January"


def test_a_stream_continues_at_its_offsets_and_includes_a_new_writer(spark, tmp_path):
    path = tmp_path / "log"
    recorded(path, seed=1)
    before, _ = stream(spark, str(path), tmp_path / "c", startingOffsets="earliest")
    recorded(path, seed=2)
    recorded(path, seed=3, name="tap-2")
    after, _ = stream(spark, str(path), tmp_path / "c", startingOffsets="earliest")
    assert sorted(rows(before) + rows(after)) == rows(zenlake.read(path))
    assert len(after) > len(before)


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 100)), max_size=60), st.integers(1, 8), st.integers(50, 500)
)
def test_tasks_have_shares_alike_in_size_of_all_blocks_in_their_order(blocks, least, most):
    blocks = sorted(blocks, key=lambda block: block[0])
    planned = [BlockRange("tap-1", segment, i, i + 1, size, 1, i, i + 1) for i, (segment, size) in enumerate(blocks)]
    found = log_reader.plan_shares(planned, least, most)
    shared = [(each.segment, block) for share in found for each in share for block in range(each.first, each.last)]
    assert shared == [(part.segment, part.first) for part in planned]
    sizes = [sum(each.size for each in share) for share in found]
    assert sum(sizes) == sum(part.size for part in planned) == sum(size for _, size in blocks)
    assert all(size <= min(most, sum(sizes) / least) + 100 for size in sizes)
    assert sum(len(share) for share in found) <= len(found) + 2  # adjacent blocks of a segment are one range


def test_another_or_an_emptied_log_is_refused(spark, tmp_path):
    path = tmp_path / "log"
    recorded(path, seed=1)
    known = Log(path).id
    stream(spark, str(path), tmp_path / "c", startingOffsets="earliest")
    shutil.rmtree(path)
    recorded(path, seed=2)
    with pytest.raises(Exception, match=f"the offsets belong to log {known}, but .* is log"):
        stream(spark, str(path), tmp_path / "c")
    recorded(path, seed=3, name="tap-2")
    stream(spark, str(path), tmp_path / "d", startingOffsets="earliest")
    shutil.rmtree(path / "tap-2")
    with pytest.raises(Exception, match="of tap-2, but it ends at the beginning: it was emptied or replaced"):
        stream(spark, str(path), tmp_path / "d")
    recorded(path, seed=4, name="tap-2", size=200)  # the log has grown beyond the offsets of the query
    with pytest.raises(Exception, match=r"zenoh: tap-2: the segment of block \[.*\] was removed by another process"):
        stream(spark, str(path), tmp_path / "d")
    found, _ = stream(spark, str(path), tmp_path / "d", failOnDataLoss="false")
    assert rows(found) == [row for row in rows(zenlake.read(path)) if "#tap-2." in row]


def test_a_checkpoint_of_another_table_is_refused(spark, tmp_path):
    """Defect 16: it was continued, and the rows before its offsets were skipped."""
    path = tmp_path / "log"
    recorded(path, seed=1)
    stream(spark, str(path), tmp_path / "c", startingOffsets="earliest")
    recorded(path, seed=2)
    line = "the checkpoint was made with table='samples', not 'messages'; its offsets would skip rows"
    with pytest.raises(Exception, match=line):
        stream(spark, str(path), tmp_path / "c", table="messages")
    found, _ = stream(spark, str(path), tmp_path / "c")
    assert found


def test_blocks_that_retention_removed_before_they_were_read_stop_a_query_by_default(spark, tmp_path):
    path = tmp_path / "log"
    start = json.dumps({"tap-1": [1, 1]})
    with Writer(path, "tap-1", sync="sealed", block_size=2000) as writer:
        add(writer, seed=1)
        writer.seal()
        add(writer, seed=2)
        writer.seal()
        retain(writer, Retention(size=1000, hard_size=1000))
        add(writer, seed=3)
    with pytest.raises(Exception, match=r"failOnDataLoss=false continues with the next"):
        stream(spark, str(path), tmp_path / "c", startingOffsets=start)
    found, _ = stream(spark, str(path), tmp_path / "d", startingOffsets=start, failOnDataLoss="false")
    assert rows(found) == rows(zenlake.read(path))
    assert len(found) > 0


def test_segments_removed_from_the_middle_stop_a_query_by_default(spark, tmp_path):
    path = tmp_path / "log"
    with Writer(path, "tap-1", sync="sealed", block_size=2000) as writer:
        for seed in (1, 2, 3):
            add(writer, seed=seed)
            writer.seal()
    for kind in ("arrow", "index"):
        (path / "tap-1" / segment_name(2, kind)).unlink()
    refused = (
        r"segments between 1 and 3 were removed by another process; .* failOnDataLoss=false continues with the next"
    )
    with pytest.raises(Exception, match=refused):
        stream(spark, str(path), tmp_path / "c", startingOffsets="earliest")
    with pytest.raises(Exception, match=refused):
        read(spark, str(path)).count()
    found, _ = stream(spark, str(path), tmp_path / "c", startingOffsets="earliest", failOnDataLoss="false")
    assert rows(found) == rows(zenlake.read(path))
    assert read(spark, str(path), failOnDataLoss="false").count() == len(found) > 0


def test_a_damaged_block_stops_a_read_by_default(spark, tmp_path):
    path = tmp_path / "log"
    recorded(path)
    whole = zenlake.read(path).num_rows
    block = Log(path).plan(size=1)[2]
    record = Log(path).index(block.writer, block.segment)[block.first]
    segment = path / "tap-1" / f"{block.segment:010d}.arrow"
    data = bytearray(segment.read_bytes())
    data[record.offset : record.offset + 64] = bytes(64)
    segment.write_bytes(data)
    with pytest.raises(Exception, match="block"):
        read(spark, str(path)).count()
    left = read(spark, str(path), failOnDataLoss="false").count()
    assert 0 < left < whole


def test_a_gap_stops_a_query_that_wants_none(spark, log):
    assert "gap" in zenlake.read(log, "events")["kind"].to_pylist()
    with pytest.raises(Exception, match=r"gap in tcp/.* numbers from \d+ on are missing; failOnGap is true"):
        read(spark, log, failOnGap="true").count()


DERIVED_LINE = "'queries' is a derived table; use zenlake.spark.tables(spark, path)['queries']"
LIVE = "recording needs the options 'connect' and 'subscribe', and a path in load()"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            {"maxBytePerTrigger": "1"},
            "unknown option 'maxBytePerTrigger'; did you mean 'maxBytesPerTrigger'? expected one of path, ",
        ),
        ({"table": "queries"}, DERIVED_LINE),
        ({"columns": "key,who"}, "option 'columns': samples has no column 'who'; expected one of "),
        (
            {"startingOffsets": "begin"},
            "option 'startingOffsets': invalid value 'begin'; expected earliest, latest or offsets such as ",
        ),
        (
            {"startingOffsets": '{"tap-1": 7}'},
            "option 'startingOffsets': invalid value '{\"tap-1\": 7}'; expected earliest, ",
        ),
        (
            {"endingOffsets": "earliest"},
            "option 'endingOffsets': invalid value 'earliest', because no row is before it",
        ),
        (
            {"maxBytesPerTrigger": "1 MB"},
            "option 'maxBytesPerTrigger': invalid value '1 MB'; expected an integer, 1 or more",
        ),
        ({"failOnDataLoss": "no"}, "option 'failOnDataLoss': invalid value 'no'; expected true or false"),
        (
            {"startingOffsets": "latest", "startingTimestamp": "0"},
            "options 'startingOffsets' and 'startingTimestamp' are both set; set only one of them",
        ),
        ({"connect": "tcp/127.0.0.1:7447"}, LIVE),
        ({"subscribe": "**"}, LIVE),
        (
            {"connect": "tcp/127.0.0.1:7447", "subscribe": "a//b"},
            "option 'subscribe': key expression `a//b` has a fault",
        ),
        ({"connect": "localhost", "subscribe": "a"}, "connect/endpoints: "),
        ({"keepHours": "1"}, "option 'keepHours': valid only with 'connect' and 'subscribe'; remove it"),
        ({"reader": "a/b"}, "option 'reader': invalid writer or reader name 'a/b'; use letters, digits, "),
        ({"pushdown": "1"}, "option 'pushdown': invalid value '1'; expected true or false"),
        (
            {"path": ""},
            "no path; pass the folder of a log to load(), or set the option 'connect' to write rows or to send a query",
        ),
        ({"selector": "a"}, "a query ('selector') needs the option 'connect'; remove the path and 'subscribe'"),
        ({"path": "/"}, "/ is not a wire log; read captures with format('zenoh_capture')"),
    ],
    ids=lambda value: json.dumps(value)[:40] if isinstance(value, dict) else "",
)
def test_a_mistake_is_reported_in_one_line(log, options, line):
    with pytest.raises(ValueError, match=r"^zenoh: ") as caught:
        ZenohSource({"path": log, **options})
    assert str(caught.value).startswith(f"zenoh: {line}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["read", "readStream"])
def test_a_mistake_is_reported_at_load(spark, log, kind):
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as caught:
        getattr(spark, kind).format("zenoh").option("maxBytePerTrigger", "1").load(log)
    [message] = [each for each in str(caught.value).splitlines() if each.startswith("ValueError: ")]
    assert message.startswith(
        "ValueError: zenoh: unknown option 'maxbytepertrigger'; did you mean 'maxBytesPerTrigger'?"
    )


def test_an_executor_without_access_to_the_log_raises(tmp_path):
    """Read as a task does: with the plan of the driver, and without a log at that path."""
    there = {"connect": "tcp/127.0.0.1:1", "subscribe": "a", "path": str(tmp_path / "log")}
    with pytest.raises(
        LogError, match=r"is not a log on the executor .*; use a path that the driver and all executors see"
    ):
        next(log_reader.rows(ZenohSource(there).settings, ()))


def test_options_of_streams_and_of_batches_are_not_mixed_up(spark, log, tmp_path):
    with pytest.raises(Exception, match=r"option 'maxBytesPerTrigger': valid only for readStream"):
        read(spark, log, maxBytesPerTrigger="1").count()
    with pytest.raises(Exception, match=r"option 'connect': valid only for readStream"):
        read(spark, log, connect="tcp/127.0.0.1:1", subscribe="a").count()
    with pytest.raises(Exception, match=r"option 'endingOffsets': valid only for spark.read; remove it"):
        stream(spark, log, tmp_path, endingOffsets="latest")
    with pytest.raises(Exception, match=r"unknown writer 'tap-9' in .*; expected one of tap-1, tap-2"):
        read(spark, log, startingOffsets='{"tap-9": [1, 0]}').count()
    with pytest.raises(Exception, match=r"offset \[99, 0\] is behind the end of writer tap-1"):
        read(spark, log, startingOffsets='{"tap-1": [99, 0]}').count()
