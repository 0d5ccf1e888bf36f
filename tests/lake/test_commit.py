# SPDX-License-Identifier: Apache-2.0
"""Landing without Spark: every row once, after a crash at any point, by any number of queries, in both formats."""

import random
from contextlib import closing

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lake.fixtures import MIDNIGHT, add, decoded, recorded, rows
from zenlake.errors import LakeError
from zenlake.lake import (
    Lake,
    LandedIntervals,
    LandingBatch,
    layout,
    parquet_writer,
    pieces,
    replan,
    write_parts,
    write_rows,
)
from zenlake.lake import lake as commit
from zenlake.lake.lake import count_days
from zenlake.log.reader import Log
from zenlake.log.writer import Writer
from zenlake.tables.lake_reader import read_snapshot
from zenlake.tables.schemas import TABLES
from zenlake.wire.network import Push
from zenlake.wire.transport import Frame
from zenlake.wire.zenoh_body import Put

NAMES = ["samples", "events"]
POINTS = ["write", "written", "commit", "committed"]
FORMATS = pytest.mark.parametrize("format", ["delta", "iceberg"])


class Killed(BaseException):
    pass


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "log"
    recorded(path)
    return path


@pytest.fixture
def lake(tmp_path, format):
    return Lake(tmp_path / "lake", create=format)


def land(lake, log, batch, start=None, end=None, tables=NAMES, size=6000, refuse=False, meanwhile=None):
    """Land one micro-batch as Spark does: plan, one task for each range, commit."""
    start, end = start or {}, end or log.latest()
    files = []
    for i, piece in enumerate(pieces(log.plan(start, end, size=size), start, end)):
        groups = [([piece], tables)] if refuse else lake.plan(log, [piece], tables)
        files += write_parts(lake.location, log, groups, batch, str(i))
    if meanwhile is not None:
        meanwhile()

    def restage(table, parts):
        groups = lake.plan(log, replan(log, parts), [table])
        return write_parts(lake.location, log, groups, batch, f"again-{random.randrange(1 << 30)}")

    return lake.commit(files, batch, restage, refuse=refuse)


def place(log, part):
    """Return the offset after that part of the blocks of a log."""
    blocks = log.plan(size=1)
    block = blocks[int(len(blocks) * part)]
    return {block.writer: [block.segment, block.first]}


def landed(lake, table):
    """Return the rows as a reader sees them that knows only the format."""
    name = f"{lake.about.get('namespace')}.{table}"
    if lake.format == "iceberg":
        from pyiceberg.catalog.sql import SqlCatalog

        with closing(SqlCatalog("zenlake", uri=f"sqlite:///{lake.catalog}")) as catalog:
            found = catalog.load_table(name).scan().to_arrow()
        for field in found.schema:
            if pa.types.is_nested(field.type):  # PyIceberg reads null as an empty list
                values = [each or None for each in found[field.name].to_pylist()]
                found = found.set_column(found.column_names.index(field.name), field, pa.array(values, field.type))
    else:
        from deltalake import DeltaTable

        found = DeltaTable(lake.location.uri(table)).to_pyarrow_table()
    names = [each for each in TABLES[table].names if each in found.column_names]
    return found.select(names).cast(pa.schema([TABLES[table].field(each).remove_metadata() for each in names]))


def intervals(lake, log, table="samples"):
    landed = lake.landed_intervals(table, log.id, log.writers())
    return {writer: [[*start, *stop] for start, stop in landed.of(writer)] for writer in log.writers()}


def assert_landed_once(lake, log, tables=NAMES):
    for name, table in decoded(log.files.path, tables).items():
        assert rows(landed(lake, name)) == rows(table), name
        assert table.num_rows > 0


def stop_at(monkeypatch, point, times=0):
    """Raise at the named point, where a killed process would end."""
    left = [times]

    def killer(reached):
        if reached == point:
            left[0] -= 1
            if left[0] < 0:
                raise Killed

    for module in (commit, parquet_writer):
        monkeypatch.setattr(module, "fault_point", killer)


@FORMATS
def test_landing_a_batch_again_changes_no_row(lake, path):
    log = Log(path)
    assert land(lake, log, LandingBatch("q", 0), tables=list(TABLES)) > 0
    files = {table: lake.files(table) for table in TABLES}
    assert land(lake, log, LandingBatch("q", 0), tables=list(TABLES)) == 0
    assert {table: lake.files(table) for table in TABLES} == files
    for name, table in decoded(path).items():
        assert rows(landed(lake, name)) == rows(table)
        assert lake.totals()[name]["rows"] == table.num_rows
    assert lake.tables() == sorted(TABLES)


@FORMATS
def test_rows_lie_in_the_day_on_which_they_were_received_in_the_order_of_their_keys(lake, path):
    land(lake, Log(path), LandingBatch("q", 0), size=1 << 30)
    assert list(count_days(lake.files("samples"))) == ["2026-01-31", "2026-02-01"]
    for file in lake.files("samples"):
        opened = pq.ParquetFile(file.path)
        table = opened.read()
        assert {str(each.date()) for each in table["received"].to_pylist()} == {file.day}
        keys = table["key"].to_pylist()
        assert keys == sorted(keys, key=lambda key: (key is None, key))
        assert opened.metadata.row_group(0).column(0).compression == "ZSTD"
        assert opened.metadata.row_group(0).column(0).has_offset_index
        assert file.rows == table.num_rows
        assert opened.metadata.serialized_size < 9000  # column comments would take twelve thousand bytes


def test_a_delta_commit_has_the_minima_and_maxima_of_columns(tmp_path, path):
    from deltalake import DeltaTable

    lake = Lake(tmp_path / "lake", create="delta")
    land(lake, Log(path), LandingBatch("q", 0), size=1 << 30)
    actions = pa.table(DeltaTable(lake.location.uri("samples")).get_add_actions(flatten=True)).to_pylist()
    for action in actions:
        table = pq.ParquetFile(lake.location.at("samples", action["path"])).read()
        assert action["num_records"] == table.num_rows
        for name in ("received", "key", "received_ns"):
            known = [value for value in table[name].to_pylist() if value is not None]
            assert (action[f"min.{name}"], action[f"max.{name}"]) == (min(known), max(known))
        assert action["null_count.key"] == table["key"].null_count


def test_memory_of_a_task_does_not_grow_with_its_share(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_writer, "ROW_GROUP", 2_000_000)
    puts = Push(key="a/b", body=Put(payload=bytes(50))).encode() * 100
    held = {}
    for rows_there in (50_000, 200_000):
        path = tmp_path / f"log-{rows_there}"
        with Writer(path, "tap-1", sync="sealed", block_size=100_000) as writer:
            face = writer.face("tcp", "10.0.0.1:40000", "10.0.0.2:7447")
            for sn in range(rows_there // 100):
                writer.append(face, 0, Frame(reliable=True, sn=sn).encode() + puts, received=MIDNIGHT + sn)
        log, most = Log(path), [0]
        before = pa.total_allocated_bytes()

        def look(point, most=most, before=before):
            most[0] = max(most[0], pa.total_allocated_bytes() - before)

        monkeypatch.setattr(parquet_writer, "fault_point", look)
        lake = Lake(tmp_path / f"lake-{rows_there}", create="delta")
        assert land(lake, log, LandingBatch("q", 0), tables=["samples"], size=1 << 30) == rows_there
        held[rows_there] = most[0]
    assert held[200_000] < 1.2 * held[50_000] < 50_000_000


def test_equal_keys_stay_in_the_order_of_receipt():
    table = pa.table({"key": ["b", None, "a", "b", "a", None], "n": range(6)})
    assert parquet_writer.cluster_rows(table)["n"].to_pylist() == [2, 4, 0, 3, 1, 5]


@FORMATS
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("times", [0, 1])
def test_a_batch_killed_at_any_point_lands_once_when_retried(lake, path, monkeypatch, point, times):
    log = Log(path)
    middle = place(log, 1 / 2)
    land(lake, log, LandingBatch("q", 0), end=middle)
    stop_at(monkeypatch, point, times)
    with pytest.raises(Killed):
        land(lake, log, LandingBatch("q", 1), start=middle)
    monkeypatch.undo()
    land(Lake(lake.location.path), log, LandingBatch("q", 1), start=middle)
    assert_landed_once(lake, log)


@FORMATS
@pytest.mark.parametrize("sizes", [(1, 6000), (1 << 30, 4000)])
def test_a_new_checkpoint_and_a_second_query_duplicate_no_row(lake, path, sizes):
    log = Log(path)
    land(lake, log, LandingBatch("first", 0), end=place(log, 1 / 2), size=sizes[0])
    land(lake, log, LandingBatch("second", 0), size=sizes[1])
    land(lake, log, LandingBatch("third", 0), tables=["samples", "messages"])
    assert_landed_once(lake, log, [*NAMES, "messages"])


@FORMATS
def test_a_backfill_after_latest_lands_exactly_the_missing_rows(lake, path):
    log = Log(path)
    land(lake, log, LandingBatch("late", 0), start=place(log, 2 / 3))
    assert len(intervals(lake, log)["tap-1"]) == 1
    land(lake, log, LandingBatch("middle", 0), start=place(log, 1 / 3), end=place(log, 1 / 2))
    assert len(intervals(lake, log)["tap-1"]) == 2
    land(lake, log, LandingBatch("all", 0))
    [[*start, _, _]] = intervals(lake, log)["tap-1"]
    assert start == [0, 0]
    assert_landed_once(lake, log)


@FORMATS
def test_two_concurrent_queries_duplicate_no_row(lake, path):
    log = Log(path)
    other = {"start": place(log, 1 / 3), "end": place(log, 2 / 3)}
    land(
        lake, log, LandingBatch("mine", 0), size=1 << 30,
        meanwhile=lambda: land(lake, log, LandingBatch("theirs", 0), **other),
    )  # fmt: skip
    assert_landed_once(lake, log)
    assert [interval[:2] for interval in intervals(lake, log)["tap-1"]] == [[0, 0]]


@FORMATS
def test_a_slow_commit_duplicates_no_row(lake, path, monkeypatch):
    """It has read the progress before another driver has committed the same rows from another start."""
    log = Log(path)
    stops = [lambda: land(lake, log, LandingBatch("fast", 0), start=place(log, 1 / 2))]

    def overtake(point):
        if point == "commit" and stops:
            stops.pop()()

    monkeypatch.setattr(commit, "fault_point", overtake)
    land(lake, log, LandingBatch("slow", 0))
    assert not stops
    assert_landed_once(lake, log)


@FORMATS
def test_a_driver_overtaken_twice_duplicates_no_row(lake, tmp_path, path, monkeypatch):
    log = Log(path)
    recorded(tmp_path / "other", seed=2, size=5)
    stops = [lambda: land(lake, Log(tmp_path / "other"), LandingBatch("third", 0), tables=["samples"])]
    landed_by_others = []

    def others():
        land(lake, log, LandingBatch("fast", 0), tables=["samples"])
        monkeypatch.setattr(commit, "fault_point", overtake)

    def overtake(point):
        if point == "commit" and stops:
            stops.pop()()
            landed_by_others.append(sum(file.rows for file in lake.files("samples")))

    land(lake, log, LandingBatch("slow", 0), tables=["samples"], meanwhile=others)
    assert landed_by_others == [sum(file.rows for file in lake.files("samples"))]


@FORMATS
def test_a_driver_overtaken_while_adding_a_column_duplicates_no_row(lake, path, monkeypatch):
    """A landing of a newer version adds a column in a transaction of its own, or with the rows."""
    log = Log(path)
    newer = pa.schema([*TABLES["samples"], pa.field("later", pa.int64())])
    half = {"end": place(log, 1 / 2), "tables": ["samples"]}
    land(lake, log, LandingBatch("first", 0), **half)
    stops = [lambda: land(lake, log, LandingBatch("fast", 0), start=place(log, 1 / 2), tables=["samples"])]

    def overtake(point):
        if point == "commit" and stops:
            monkeypatch.setitem(TABLES, "samples", older)
            stops.pop()()
            monkeypatch.setitem(TABLES, "samples", newer)

    older = TABLES["samples"]
    monkeypatch.setattr(commit, "fault_point", overtake)
    land(
        lake, log, LandingBatch("slow", 0), start=place(log, 1 / 2), tables=["samples"],
        meanwhile=lambda: monkeypatch.setitem(TABLES, "samples", newer),
    )  # fmt: skip
    monkeypatch.setitem(TABLES, "samples", older)
    assert not stops
    assert_landed_once(lake, log, ["samples"])
    assert "later" in lake.table("samples").schema().names


@FORMATS
def test_landing_twice_can_be_refused(lake, tmp_path, path, format):
    log = Log(path)
    land(lake, log, LandingBatch("first", 0))
    land(lake, log, LandingBatch("first", 0), refuse=True)  # a retry is not a second landing
    with pytest.raises(LakeError, match=r"has rows of this part of the log already: another query has landed them"):
        land(lake, log, LandingBatch("second", 0), refuse=True)
    assert_landed_once(lake, log)


@FORMATS
def test_logs_of_several_writers_and_several_logs_land_side_by_side(lake, tmp_path):
    recorded(tmp_path / "a", seed=1, name="tap-1", size=20)
    recorded(tmp_path / "a", seed=2, name="tap-2", size=20)
    recorded(tmp_path / "b", seed=3, name="tap-1", size=20)
    a, b = Log(tmp_path / "a"), Log(tmp_path / "b")
    land(lake, a, LandingBatch("q", 0), size=1 << 30)
    land(lake, b, LandingBatch("p", 0), size=1 << 30)
    expected = [rows(decoded(log.files.path, ["samples"])["samples"]) for log in (a, b)]
    assert rows(landed(lake, "samples")) == sorted(expected[0] + expected[1])


@FORMATS
def test_a_long_query_leaves_one_interval(lake, tmp_path):
    start = {}
    with Writer(tmp_path / "log", "tap-1", sync="sealed", segment_size=30_000) as writer:
        for number in range(12):
            add(writer, seed=number, sessions=1, size=4)
            writer.seal()
            log = Log(tmp_path / "log")
            land(lake, log, LandingBatch("q", number), start=start, tables=["samples"])
            start = log.latest()
    assert intervals(lake, log)["tap-1"] == [[0, 0, *start["tap-1"]]]
    assert_landed_once(lake, log, ["samples"])


@FORMATS
def test_transformed_rows_land_once_for_each_batch_of_one_query(lake, path):
    batch = pa.record_batch({"x": [1, 2, 3]})

    def put(query, number):
        found = write_rows(
            lake.location, [("points", batch)], {"points": batch.schema}, LandingBatch(query, number), "0"
        )
        return lake.commit(found, LandingBatch(query, number))

    assert [put("q", 0), put("q", 0), put("q", 1)] == [3, 0, 3]
    assert sum(file.rows for file in lake.files("points")) == 6
    with pytest.raises(LakeError, match=r"points has rows of another query; .*choose another folder"):
        put("p", 0)
    land(lake, Log(path), LandingBatch("r", 0), tables=["samples"])
    found = write_rows(lake.location, [("samples", batch)], {"samples": batch.schema}, LandingBatch("q", 0), "0")
    with pytest.raises(LakeError, match=r"samples has decoded rows"):
        lake.commit(found, LandingBatch("q", 0))


@FORMATS
def test_a_changed_type_is_refused_and_a_new_column_is_added(lake):
    """Defect 5: rows of another type used to land without an error, and every later read of the table failed."""

    def put(number, values):
        batch = pa.record_batch(values)
        found = write_rows(lake.location, [("points", batch)], {"points": batch.schema}, LandingBatch("q", number), "0")
        return lake.commit(found, LandingBatch("q", number))

    put(0, {"x": [1, 2]})
    with pytest.raises(LakeError, match="they are not landed: cast the column, or land into another lake") as refused:
        put(1, {"x": ["one", "two"]})
    assert "\n" not in str(refused.value)
    put(2, {"x": [3], "y": ["later"]})
    found = read_snapshot(lake.location.path, "points").dataset(pa.schema([("x", pa.int64()), ("y", pa.string())]))
    assert rows(found.to_table()) == rows(pa.table({"x": [1, 2, 3], "y": [None, None, "later"]}))


@FORMATS
@pytest.mark.parametrize("harm", ["absent", "cut", "longer"])
def test_files_that_the_driver_does_not_see_leave_the_lake_usable(lake, path, harm):
    """Defect 1: workers without a shared path write files that exist only for them."""
    log = Log(path)

    def hide():
        first = next(file for file in sorted((tmp / "samples").rglob("*.parquet")))
        if harm == "absent":
            first.unlink()
        else:
            with first.open("r+b") as file:
                file.truncate(first.stat().st_size + (1 if harm == "longer" else -1))

    from pathlib import Path

    tmp = Path(lake.location.path)
    with pytest.raises(LakeError, match="mount the lake under the same path") as refused:
        land(lake, log, LandingBatch("q", 0), meanwhile=hide)
    assert "\n" not in str(refused.value)
    assert lake.tables() == []
    land(lake, log, LandingBatch("q", 0))
    assert_landed_once(lake, log)


def test_a_lake_describes_itself(tmp_path):
    with pytest.raises(LakeError, match=r"is not a lake: it has no zenlake-lake\.json"):
        Lake(tmp_path)
    with pytest.raises(LakeError, match=r"plain Parquet has no transactions.* zenlake lake convert"):
        Lake(tmp_path, create="parquet")
    Lake(tmp_path, create="delta")
    with pytest.raises(LakeError, match=r"is a lake of format delta; land into it with that format"):
        Lake(tmp_path, create="iceberg")
    (tmp_path / layout.MARKER).write_text('{"version": 99, "format": "delta"}')
    with pytest.raises(LakeError, match=r"has version 99; this version of Zenlake reads up to 2"):
        Lake(tmp_path)
    (tmp_path / layout.MARKER).write_text('{"version": 1, "format": "delta"}')
    with pytest.raises(LakeError, match=r"of an earlier version; convert it: zenlake lake convert "):
        Lake(tmp_path)


OFFSETS = st.tuples(st.integers(0, 4), st.integers(0, 4))


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(OFFSETS, OFFSETS), max_size=8), st.tuples(OFFSETS, OFFSETS))
def test_coverage_is_a_set_of_offsets(added, asked):
    everywhere = [(segment, block) for segment in range(5) for block in range(5)]
    held = LandedIntervals("log")
    model = set()
    for start, stop in added:
        if start < stop:
            held.add(["w", *start, *stop])
            model |= {each for each in everywhere if start <= each < stop}
    held = LandedIntervals.from_numbers(held.numbers().get, "log", ["w"])
    start, stop = asked
    inside = {each for each in everywhere if start <= each < stop}
    assert held.overlaps(["w", *start, *stop]) == bool(inside & model)
    assert not held.overlaps(["other", *start, *stop])
    held.remove(["w", *start, *stop])
    assert sum(held.overlaps(["w", *each, each[0], each[1] + 1]) for each in everywhere) == len(model - inside)
