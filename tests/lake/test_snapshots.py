# SPDX-License-Identifier: Apache-2.0
"""Readers of a stored derived table see one whole snapshot at every moment of its replacement."""

import os
import threading

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zenlake.lake import Lake, delta
from zenlake.lake import snapshots as module
from zenlake.lake.snapshots import ALL, list_snapshots

FORMATS = pytest.mark.parametrize("format", ["parquet", "delta"])
DAYS = ["2026-02-01", "2026-02-02"]


def written(folder, version, rows):
    """A snapshot whose rows each have the snapshot's number and the number of rows."""
    path = folder / f"fresh-{version}-{rows}.parquet"
    table = {"version": [version] * rows, "count": [rows] * rows, "noise": [os.urandom(16) for _ in range(rows)]}
    pq.write_table(
        pa.table(table, pa.schema([("version", pa.int64()), ("count", pa.int64()), ("noise", pa.binary())])), path
    )
    return path


def size(version):
    return 3 + version * 7919 % 5000  # now large, now small


def seen(engine, files):
    found = engine.execute("select version, count, count(*) from read_parquet(?) group by all", [files]).fetchall()
    [(version, count, rows)] = found
    assert count == rows
    return version


@pytest.fixture
def lake(tmp_path, format):
    return Lake(tmp_path / "lake", create=format)


@FORMATS
def test_a_reader_sees_one_whole_snapshot(lake, tmp_path, format):
    table = list_snapshots(lake, "latest")
    table.replace({ALL: written(tmp_path, 1, size(1))}, 1)
    last, wrong, reads = 40, [], {"asked": [], "resolved": []}
    done = threading.Event()

    def read(how):
        try:
            with duckdb.connect() as engine:
                while not done.is_set():
                    files = (
                        table.snapshot()[1] if how == "asked" else f"{os.path.realpath(lake.path / 'latest')}/*.parquet"
                    )
                    reads[how].append(seen(engine, files))
        except Exception as error:
            wrong.append(error)
            raise

    ways = ["asked", "resolved"] if format == "parquet" else ["asked"]
    readers = [threading.Thread(target=read, args=(how,)) for how in ways]
    for reader in readers:
        reader.start()
    for version in range(2, last + 1):
        table.replace({ALL: written(tmp_path, version, size(version))}, version)
    done.set()
    for reader in readers:
        reader.join(60)
    assert not wrong
    for how in ways:
        assert reads[how] == sorted(reads[how])
        assert len(set(reads[how])) > 5, "the reader hardly saw a replacement"
    assert table.made() == last


@FORMATS
def test_files_that_were_replaced_stay_for_who_knows_them(lake, tmp_path, format, monkeypatch):
    table = list_snapshots(lake, "latest")
    table.replace({ALL: written(tmp_path, 1, 5)}, 1)
    before = table.snapshot()[1]
    for version in range(2, 5):
        table.replace({ALL: written(tmp_path, version, 5000)}, version)
    with duckdb.connect() as engine:
        assert seen(engine, before) == 1
        assert seen(engine, table.snapshot()[1]) == 4
    monkeypatch.setattr(module, "PATIENCE", -1)
    monkeypatch.setattr(delta, "SOON", 0)
    monkeypatch.setattr(delta, "MAX_OLD_FILES", 0)
    table.replace({ALL: written(tmp_path, 5, 5)}, 5)
    assert [str(file) for file in table.folder.rglob("*.parquet")] == table.snapshot()[1]


@FORMATS
def test_days_are_replaced_together_and_others_stay(lake, tmp_path, format):
    table = list_snapshots(lake, "rates")
    table.replace({day: written(tmp_path, i, 10 + i) for i, day in enumerate(DAYS)}, 1)
    first = table.snapshot()[1]
    assert [f"day={day}" in file for day, file in zip(DAYS, first, strict=True)] == [True, True]
    table.replace({DAYS[1]: written(tmp_path, 7, 3)}, 2)
    names = [[os.path.basename(file) for file in files] for files in (first, table.snapshot()[1])]
    assert [before == after for before, after in zip(*names, strict=True)] == [True, False]
    with duckdb.connect() as engine:
        assert [seen(engine, [file]) for file in table.snapshot()[1]] == [0, 7]
        if format == "parquet":
            assert [seen(engine, f"{lake.path}/rates/day={day}/*.parquet") for day in DAYS] == [0, 7]


@FORMATS
@pytest.mark.parametrize("point", ["kept written", "kept"])
def test_killed_anywhere_it_is_the_old_or_the_new_and_goes_on(lake, tmp_path, format, point, monkeypatch):
    table = list_snapshots(lake, "latest")
    table.replace({ALL: written(tmp_path, 1, 10)}, 1)

    def end(reached):
        if reached == point:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, "fault_point", end)
        with pytest.raises(KeyboardInterrupt):
            table.replace({ALL: written(tmp_path, 2, 20)}, 2)
    with duckdb.connect() as engine:
        assert table.made() == seen(engine, table.snapshot()[1]) == (1 if point == "kept written" else 2)
        table.replace({ALL: written(tmp_path, 3, 30)}, 3)
        assert table.made() == seen(engine, table.snapshot()[1]) == 3


@FORMATS
def test_what_an_earlier_version_wrote_is_made_again(lake, tmp_path, format):
    (lake.path / "latest").mkdir()
    written(tmp_path, 0, 10).rename(lake.path / "latest" / "latest.parquet")
    table = list_snapshots(lake, "latest")
    assert table.made() == 0
    table.replace({ALL: written(tmp_path, 1, 5)}, 1)
    with duckdb.connect() as engine:
        assert table.made() == seen(engine, f"{lake.path}/latest/**/*.parquet") == 1


def test_a_delta_table_is_read_by_its_log(tmp_path):
    from deltalake import DeltaTable

    table = list_snapshots(Lake(tmp_path / "lake", create="delta"), "latest")
    for version in range(1, 4):
        table.replace({ALL: written(tmp_path, version, version * 10)}, version)
    found = DeltaTable(str(table.folder)).to_pyarrow_table()
    assert found["version"].unique().to_pylist() == [3]
    assert found.num_rows == 30
