# SPDX-License-Identifier: Apache-2.0
"""Logs and lakes as earlier versions left them (`stored/VERSION`) still read, and grow; columns that came later are null.

The samples of version 1 have neither `clock_skew` nor `payload_sha256`, and its rows have no position in a log. A new version
gets its own folder. Stored folders are never rewritten.
"""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.lake.fixtures import decoded, recorded, rows
from tests.lake.test_commit import NAMES, land, landed
from zenlake.lake import Lake, LandingBatch, compact, layout
from zenlake.log import Log
from zenlake.tables.schemas import TABLES

STORED = Path(__file__).parent / "stored"
LATER = {"log", "writer", "segment", "block", "row"}
LATER_SAMPLES = {"clock_skew", "payload_sha256", *LATER}


@pytest.fixture(params=sorted(path.name for path in STORED.iterdir()))
def stored(request, tmp_path):
    """A copy of what a version left: a log and the lake into which it was landed."""
    return Path(shutil.copytree(STORED / request.param, tmp_path / request.param))


def test_there_is_one_of_each_version():
    assert sorted(path.name for path in STORED.iterdir()) == [str(n + 1) for n in range(layout.VERSION)]


@pytest.mark.parametrize("table", NAMES)
def test_a_log_gives_the_rows_that_it_gave_then(stored, table):
    before = landed(Lake(stored / "lake"), table)
    assert set(TABLES[table].names) - set(before.column_names) == (LATER_SAMPLES if table == "samples" else LATER)
    now = decoded(stored / "log", [table])[table].select(before.column_names)
    assert rows(now) == rows(before)
    assert now.num_rows > 0


def test_a_lake_knows_what_is_landed_and_grows(stored, tmp_path):
    lake, log = Lake(stored / "lake"), Log(stored / "log")
    files = sorted(lake.path.rglob("*.parquet"))
    land(lake, log, LandingBatch("again", 0))
    assert sorted(lake.path.rglob("*.parquet")) == files
    old = landed(lake, "samples")
    recorded(tmp_path / "more", seed=3, size=5)
    land(lake, Log(tmp_path / "more"), LandingBatch("more", 0))
    compact(lake)
    new = decoded(tmp_path / "more", ["samples"])["samples"].replace_schema_metadata()
    expected = pa.concat_tables([new, old], promote_options="default")
    assert rows(landed(lake, "samples")) == rows(expected)
    assert expected["payload_sha256"].null_count >= old.num_rows
    assert [pq.read_schema(file).names for file in (lake.path / "samples").rglob("*.parquet")] == [
        TABLES["samples"].names
    ] * 2


def test_a_delta_table_gets_the_columns_that_came_later(stored, tmp_path):
    deltalake = pytest.importorskip("deltalake")
    old = landed(Lake(stored / "lake"), "samples")
    lake = Lake(tmp_path / "lake", create="delta")
    table = str(lake.path / "samples")
    with_day = old.append_column("day", old["received"].cast("date32"))
    deltalake.write_deltalake(table, with_day, partition_by=["day"])
    recorded(tmp_path / "more", seed=3, size=5)
    for turn in range(2):
        land(lake, Log(tmp_path / "more"), LandingBatch("more", turn))
        found = deltalake.DeltaTable(table).to_pyarrow_table()
        assert found.num_rows == old.num_rows + decoded(tmp_path / "more", ["samples"])["samples"].num_rows
        assert found["payload_sha256"].null_count >= old.num_rows
