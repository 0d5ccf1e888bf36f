# SPDX-License-Identifier: Apache-2.0
"""Spark lands into a store, compacts there and reads it without jars, in both formats."""

import pytest

import zenlake
from tests.lake.fixtures import decoded, recorded, rows
from tests.lake.store import Store
from zenlake.spark.stored_files import FilesReader

pytest.importorskip("moto.server")
pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.mark.slow  # a minute for each format, most of it moto
@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_lake_in_a_store(spark, tmp_path, monkeypatch, format):
    store = Store()
    for name, value in {**store.environment(), "XDG_STATE_HOME": str(tmp_path / "state")}.items():
        monkeypatch.setenv(name, value)
    # The session may have been started before: its Python processes have the variables of then.
    place = (
        f"s3://any:any@lake/{format}?region=us-east-1&scheme=http&endpoint_override={store.endpoint.partition('//')[2]}"
    )
    recorded(tmp_path / "log", size=10)
    try:
        for checkpoint in ("a", "b"):
            zenlake.spark.land(
                spark, tmp_path / "log", place, ["samples", "events"], format=format, checkpoint=tmp_path / checkpoint,
                options={"maxBytesPerTrigger": "4000"},
            ).awaitTermination()  # fmt: skip
        expected = decoded(tmp_path / "log", ["samples"])["samples"]
        samples = zenlake.spark.tables(spark, place)["samples"]
        assert rows(samples.toArrow()) == rows(expected)
        [done] = zenlake.spark.compact(spark, place, ["samples"])
        assert done.files > done.into > 0
        key = next(key for key in expected["key"].to_pylist() if key is not None)
        chosen = zenlake.spark.tables(spark, place)["samples"].where(f"key = '{key}'")
        assert chosen.count() == expected["key"].to_pylist().count(key)
        assert zenlake.spark.refresh(spark, place, ["latest"]) == {"latest": ["all"]} if format == "delta" else True
    finally:
        store.close()


def test_days_outside_of_a_filter_on_received_are_not_opened():
    from datetime import UTC, datetime

    from pyspark.sql.datasource import GreaterThanOrEqual, LessThan

    from zenlake.spark.stored_files import PushdownFilesReader

    files = [[f"lake/day={day}/x.parquet", 1, day] for day in ("2026-01-30", "2026-01-31", "2026-02-01")]
    reader = PushdownFilesReader("s3://lake", files, None)
    assert isinstance(reader, FilesReader)
    list(reader.pushFilters([GreaterThanOrEqual(("received",), datetime(2026, 1, 31, tzinfo=UTC))]))
    assert [file[2] for file in reader.files] == ["2026-01-31", "2026-02-01"]
    list(reader.pushFilters([LessThan(("received",), datetime(2026, 1, 31, 5, tzinfo=UTC))]))
    assert [file[2] for file in reader.files] == ["2026-01-31"]
