# SPDX-License-Identifier: Apache-2.0
"""Lakes that other programs created or changed: no outside file is read, deleted rows stay deleted, landing continues."""

import json
import shutil
from contextlib import closing
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

import zenlake
from tests.lake.fixtures import MIDNIGHT, decoded, recorded, rows
from tests.lake.test_commit import FORMATS, land, landed, place
from zenlake.errors import LakeError
from zenlake.lake import Lake, LandingBatch, compact, remove_orphans
from zenlake.lake import lake as commit
from zenlake.lake.lake import count_days
from zenlake.log.reader import Log
from zenlake.tables.lake_reader import open_iceberg, table_files


@pytest.fixture
def log(tmp_path):
    recorded(tmp_path / "log", size=8)
    return Log(tmp_path / "log")


@pytest.fixture
def lake(tmp_path, format):
    return Lake(tmp_path / "lake", create=format)


def append_by_their_library(lake, table):
    """Append rows to a table of a lake without Zenlake, as another program would."""
    if lake.format == "delta":
        from deltalake import DeltaTable, write_deltalake

        known = DeltaTable(lake.location.uri("samples"))
        days = table.append_column("day", table["received"].cast(pa.date32()))
        write_deltalake(known, days, mode="append", schema_mode="merge")
    else:
        file = Path(lake.location.path, "theirs.parquet")
        pq.write_table(table.replace_schema_metadata(), file)
        with closing(SqlCatalog("zenlake", uri=f"sqlite:///{lake.catalog}")) as catalog:
            catalog.load_table((lake.about["namespace"], "samples")).add_files([f"file://{file}"])


@FORMATS
def test_rows_that_another_program_appends_disturb_no_landing(lake, log):
    land(lake, log, LandingBatch("q", 0), end=place(log, 1 / 2), tables=["samples"])
    theirs = zenlake.read(lake.location.path).slice(0, 3)

    land(
        lake, log, LandingBatch("q", 1), start=place(log, 1 / 2), tables=["samples"],
        meanwhile=lambda: append_by_their_library(lake, theirs),
    )  # fmt: skip
    land(lake, log, LandingBatch("p", 0), tables=["samples"])
    expected = sorted(rows(decoded(log.files.path, ["samples"])["samples"]) + rows(theirs))
    assert rows(zenlake.read(lake.location.path)) == expected
    assert rows(landed(lake, "samples")) == expected
    assert count_days(lake.files("samples")).keys() == {"2026-01-31", "2026-02-01"}
    compact(lake)
    assert rows(zenlake.read(lake.location.path)) == expected


@pytest.mark.parametrize("format", ["iceberg"])
def test_retries_that_another_program_allows_double_nothing(lake, log, monkeypatch):
    """Defect 7: `pyiceberg` by default repeats a refused append, and thus the rows of a driver that was overtaken."""
    land(lake, log, LandingBatch("q", 0), end=place(log, 1 / 2), tables=["samples"])
    with lake.table("samples")._opened.transaction() as theirs:
        theirs.set_properties(**{"commit.retry.num-retries": "4"})
    stops = [lambda: land(lake, log, LandingBatch("fast", 0), tables=["samples"])]

    def overtake(point):
        if point == "commit" and stops:
            stops.pop()()

    monkeypatch.setattr(commit, "fault_point", overtake)
    land(lake, log, LandingBatch("q", 1), start=place(log, 1 / 2), tables=["samples"])
    assert not stops
    assert rows(landed(lake, "samples")) == rows(decoded(log.files.path, ["samples"])["samples"])


@pytest.mark.parametrize("format", ["delta"])
def test_a_compaction_of_another_program_keeps_the_progress(lake, log):
    from deltalake import DeltaTable

    land(lake, log, LandingBatch("q", 0), size=2000, tables=["samples"])
    before = len(lake.files("samples"))
    known = DeltaTable(lake.location.uri("samples"))
    known.optimize.compact()
    known.create_checkpoint()
    assert len(lake.files("samples")) < before
    land(lake, log, LandingBatch("p", 0), tables=["samples"])
    assert rows(zenlake.read(lake.location.path)) == rows(zenlake.read(log.files.path))


def map_columns(type, numbers):
    """Annotate the fields of a schema, also nested ones, with the names of their columns in the files."""
    if isinstance(type, dict):
        for field in type.get("fields", ()):
            field["metadata"] = {
                "delta.columnMapping.id": next(numbers),
                "delta.columnMapping.physicalName": field["name"],
            }
            map_columns(field["type"], numbers)
        map_columns(type.get("elementType"), numbers)
    return type


@pytest.mark.parametrize("format", ["delta"])
@pytest.mark.parametrize("feature", ["deletionVectors", "columnMapping"])
def test_features_of_delta_that_change_which_rows_exist_are_refused(lake, log, feature):
    """The files of the snapshot contain rows that a deletion vector deletes."""
    land(lake, log, LandingBatch("q", 0), end=place(log, 1 / 2), tables=["samples"])
    folder = Path(lake.location.at("samples", "_delta_log"))
    actions = [json.loads(line) for line in (folder / f"{0:020d}.json").read_text().splitlines()]
    [metadata] = [each for each in actions if "metaData" in each]
    protocol = {"minReaderVersion": 2, "minWriterVersion": 5}
    if feature == "columnMapping":
        metadata["metaData"]["configuration"]["delta.columnMapping.mode"] = "name"
        metadata["metaData"]["schemaString"] = json.dumps(
            map_columns(json.loads(metadata["metaData"]["schemaString"]), count())
        )
    else:
        features = {"readerFeatures": [feature], "writerFeatures": [feature]}
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    number = len(list(folder.glob("*.json")))
    (folder / f"{number:020d}.json").write_text("\n".join(map(json.dumps, [{"protocol": protocol}, metadata])))
    for use in (
        lambda: zenlake.read(lake.location.path),
        lambda: land(lake, log, LandingBatch("q", 1), tables=["samples"]),
        lambda: compact(lake),
    ):
        with pytest.raises(LakeError, match=f"has the features {feature}, which Zenlake does not read") as refused:
            use()
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("format", ["iceberg"])
def test_delete_files_of_iceberg_are_refused(lake, log):
    land(lake, log, LandingBatch("q", 0), end=place(log, 1 / 2), tables=["samples"])
    table = open_iceberg(lake.location, lake.about, "samples")
    [first, *_] = [task.file for task in table.scan().plan_files()]
    deletes = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES, file_path=f"{first.file_path}.deletes", file_format=FileFormat.PARQUET,
        partition=first.partition, record_count=1, file_size_in_bytes=1, column_sizes={}, value_counts={},
        null_value_counts={}, nan_value_counts={}, lower_bounds={}, upper_bounds={},
    )  # fmt: skip
    deletes.spec_id = first.spec_id
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as snapshot:
        snapshot.append_data_file(deletes)
    for use in (lambda: zenlake.read(lake.location.path), lambda: compact(lake)):
        with pytest.raises(LakeError, match="has delete files of another program; compact it with that program"):
            use()


@pytest.mark.parametrize("name", ["../../victim/file.parquet", "file:///etc/passwd", "/etc/passwd", "link.parquet"])
def test_a_delta_log_that_leaves_its_table_is_refused(tmp_path: Path, name: str) -> None:
    """`deltalake` places each name in the table, so only a symbolic link leads out of it."""
    recorded(tmp_path / "log", size=5)
    lake = Lake(tmp_path / "lake", "delta")
    land(lake, Log(tmp_path / "log"), LandingBatch("q", 0))
    table = tmp_path / "lake" / "samples"
    victim = Path(shutil.copytree(table, tmp_path / "victim"))
    (table / "link.parquet").symlink_to(next(victim.rglob("*.parquet")))
    add = {"path": name, "partitionValues": {"day": "2026-01-01"}, "size": 4, "modificationTime": MIDNIGHT // 1_000_000}
    versions = sorted((table / "_delta_log").glob("*.json"))
    (table / "_delta_log" / f"{len(versions):020d}.json").write_text(json.dumps({"add": {**add, "dataChange": True}}))
    if name != "link.parquet":
        assert all(
            Path(path).resolve().is_relative_to(table.resolve()) for path in table_files(lake.location.path, "samples")
        )
        return
    for use in (lambda: lake.files("samples"), lambda: zenlake.read(lake.location.path), lambda: compact(lake)):
        with pytest.raises(LakeError, match=r"names .*link\.parquet, which is outside of the table"):
            use()


@FORMATS
@pytest.mark.parametrize("link", ["samples/day=2020-01-01", "samples/2020.parquet", "samples"])
def test_files_behind_a_symbolic_link_are_not_removed(lake, log, tmp_path, link):
    """The libraries follow links when they list a folder: all files behind one would be orphans."""
    land(lake, log, LandingBatch("q", 0), tables=["samples"])
    victim = tmp_path / "victim"
    if link == "samples":
        shutil.move(lake.location.at(link), victim)
    else:
        victim.mkdir()
    (victim / "file.parquet").write_bytes(b"mine")
    Path(lake.location.at(link)).symlink_to(victim / "file.parquet" if link.endswith(".parquet") else victim)
    with pytest.raises(LakeError, match="is a symbolic link") as refused:
        remove_orphans(lake, hours=0)
    assert "\n" not in str(refused.value)
    assert (victim / "file.parquet").read_bytes() == b"mine"
