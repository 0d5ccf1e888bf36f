# SPDX-License-Identifier: Apache-2.0
"""Two queries land in one folder. They are killed with -9 at every named point, and one loses its checkpoint: every row once.

DuckDB reads the lake all the time, and Spark after every kill. `tests/lake` kills at the same points without a JVM, in every run.
"""

import shutil
import threading
from collections import Counter
from pathlib import Path

import duckdb
import pytest

import zenlake
from tests.lake.fixtures import MIDNIGHT, decoded, recorded, rows
from tests.spark.landing import POINTS, landing
from zenlake.lake import Lake, is_lake

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

TABLES = ["samples", "events"]


class Watch(threading.Thread):
    """A thread in which DuckDB reads the lake repeatedly."""

    def __init__(self, lake):
        super().__init__(daemon=True)
        self.lake = lake
        self.expected = {}  # the tables of the log, before any of it is landed
        self.looks, self.strange = 0, []
        self.snapshots = []  # the lists of files that a reader of a Delta table has seen
        self._over = threading.Event()

    def run(self):
        with duckdb.connect() as engine:
            while not self._over.wait(0.5):
                for table in TABLES:
                    self.look(engine, table)

    def look(self, engine, table):
        files = self.files(table)
        if not files:
            return
        engine.register("expected", self.expected[table])
        # Every row must be in the log, and none may occur more often than there.
        more = engine.execute(
            "select count(*) from (select * exclude (day) from read_parquet(?, hive_partitioning=true) except all from expected)",
            [files],
        )
        [(count,)] = more.fetchall()
        self.looks += 1
        if count:
            self.strange.append((table, count, files))

    def count(self, table):
        with duckdb.connect() as engine:
            [(count,)] = engine.execute("select count(*) from read_parquet(?)", [self.files(table)]).fetchall()
        return count

    def files(self, table):
        found = [file.path for file in Lake(self.lake).files(table)] if is_lake(self.lake) else []
        self.snapshots.append(found)
        return found

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self.join()


def batches(files):
    """Group files by query, micro-batch and table, from their paths."""
    found = {}
    for file in files:
        words = Path(file).stem.split("-")
        found.setdefault((*words[:6], Path(file).parts[-3]), set()).add(file)
    return found


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_landing_killed_at_every_point_lands_every_row_once(spark, tmp_path, format):
    log, lake, checkpoints = tmp_path / "log", tmp_path / "lake", [tmp_path / "a", tmp_path / "b"]
    kills = [("write", "all", 1), *((point, "all", 0) for point in POINTS[1:])]
    # If only an executor is killed, Spark retries. This is the same for both formats.
    kills += [("write", "itself", 1), ("written", "itself", 0)] if format == "delta" else []
    with Watch(lake) as watch:
        for turn, (point, kind, after) in enumerate([*kills, (None, "all", 0)]):
            for name in ("tap-1", "tap-2"):
                recorded(log, seed=2 * turn + (name == "tap-2"), name=name, size=20, since=MIDNIGHT + turn)
            watch.expected = decoded(log, TABLES)
            if turn == 4:
                shutil.rmtree(checkpoints[0])
            assert landing(log, lake, checkpoints, format, point, after, kind) == (point is not None), point
            for table in TABLES:
                assert not Counter(by_spark(spark, lake, table)) - Counter(rows(watch.expected[table])), point
    assert not watch.strange
    assert watch.looks > 2 * len(kills)
    for table in TABLES:
        assert by_spark(spark, lake, table) == rows(watch.expected[table])
        assert watch.count(table) == watch.expected[table].num_rows > 0
    whole = batches(file for table in TABLES for file in paths(lake, table))
    for seen in watch.snapshots:
        assert all(files == whole[batch] for batch, files in batches(seen).items())


def paths(lake, table):
    return [file.path for file in Lake(lake).files(table)]


def by_spark(spark, lake, table):
    return rows(zenlake.spark.tables(spark, str(lake))[table].toArrow())
