# SPDX-License-Identifier: Apache-2.0
"""Iceberg: `pyiceberg` commits files that tasks have written, without a JVM. Numbers are stored as table properties.

By default, `pyiceberg` repeats a refused append on top of the concurrent commit. If both drivers land the same rows, the table
would have them twice. The retries are therefore disabled in the table's properties. Every commit makes a snapshot, even one
without files, because only the assertion about the current snapshot detects concurrent commits.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from zenlake.errors import LakeError
from zenlake.lake.layout import DAY, DataFile
from zenlake.lake.table_format import NotCommitted
from zenlake.tables.lake_location import Location, first_line
from zenlake.tables.lake_reader import SnapshotFile, iceberg_files, open_catalog, open_iceberg

__all__ = ["IcebergFormat"]

PREFIX = "zenlake."
RETRIES = "commit.retry.num-retries"
METRICS = "write.metadata.metrics.column."
PROPERTIES = {
    RETRIES: "0",
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


class IcebergFormat:
    """An Iceberg table of a lake."""

    def __init__(self, location: Location, table: str, about: Mapping[str, Any]) -> None:
        self.location, self.name, self.about = location, table, about
        self._opened = open_iceberg(location, about, table)
        self.exists = self._opened is not None

    def number(self, name: str) -> int | None:
        text = None if self._opened is None else self._opened.properties.get(PREFIX + name)
        return None if text is None else int(text)

    def files(self) -> list[SnapshotFile]:
        return [] if self._opened is None else iceberg_files(self.location, self._opened)

    def schema(self) -> pa.Schema:
        if self._opened is None:
            return pa.schema([])
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        return schema_to_pyarrow(self._opened.schema(), include_field_ids=False)

    def commit(
        self, add: Sequence[DataFile], remove: Sequence[SnapshotFile], numbers: Mapping[str, int], schema: pa.Schema,
        is_change: bool = True,
    ) -> None:  # fmt: skip
        plain = pa.schema([field.remove_metadata() for field in schema])
        try:
            table = self._opened or self._create(plain, any("/" in file.path for file in add))
            if table.properties.get(RETRIES) != "0":  # another program has changed it
                with table.transaction() as repair:
                    repair.set_properties(**{RETRIES: "0"})
                raise NotCommitted(f"{RETRIES} was not 0")
            transaction = table.transaction()
            self._widen(transaction, plain)
            self._stage(transaction, table, add, remove)
            transaction.set_properties(**{PREFIX + name: str(number) for name, number in numbers.items()})
            transaction.commit_transaction()
        except (LakeError, NotCommitted):
            raise
        except Exception as error:  # of pyiceberg, its catalog, or the store
            raise NotCommitted(first_line(error)) from error

    def _stage(self, transaction: Any, table: Any, add: Sequence[DataFile], remove: Sequence[SnapshotFile]) -> None:
        """Stage one snapshot."""
        from pyiceberg.io.pyarrow import parquet_file_to_data_file
        from pyiceberg.table import TableProperties

        if transaction.table_metadata.name_mapping() is None:
            mapping = transaction.table_metadata.schema().name_mapping.model_dump_json()
            transaction.set_properties(**{TableProperties.DEFAULT_NAME_MAPPING: mapping})
        added = [parquet_file_to_data_file(table.io, transaction.table_metadata, self._uri(file.path)) for file in add]
        gone = {file.path for file in remove}
        update = transaction.update_snapshot()
        with update.overwrite() if gone else update.merge_append() if added else update.fast_append() as snapshot:
            for each in added:
                snapshot.append_data_file(each)
            for task in table.scan().plan_files() if gone else ():
                if self.location.strip(task.file.file_path) in gone:
                    snapshot.delete_data_file(task.file)

    def _uri(self, path: str) -> str:
        where = self.location.uri(self.name, path)
        return f"file://{where}" if self.location.is_local else where

    def _create(self, schema: pa.Schema, by_day: bool) -> Any:
        """Create the table, with days of received time as partitions if its files have days."""
        from pyiceberg.transforms import DayTransform

        catalog, namespace = open_catalog(self.location, self.about), self.about["namespace"]
        catalog.create_namespace_if_not_exists(namespace)
        place = self._uri("").rstrip("/")
        name = (namespace, self.name)
        without = {f"{METRICS}{field.name}": "none" for field in schema if pa.types.is_binary(field.type)}
        made = catalog.create_table_transaction(name, schema, location=place, properties={**PROPERTIES, **without})
        with made as transaction:
            if by_day and "received" in schema.names and pa.types.is_timestamp(schema.field("received").type):
                with transaction.update_spec() as spec:
                    spec.add_field("received", DayTransform(), DAY)
        return catalog.load_table(name)

    def _widen(self, transaction: Any, schema: pa.Schema) -> None:
        """Add columns that the table lacks, and widen types as Iceberg allows."""
        from pyiceberg.exceptions import ResolveError, ValidationError
        from pyiceberg.table.update.schema import UpdateSchema

        try:
            with transaction.update_schema() as update:
                assert isinstance(update, UpdateSchema)
                update.union_by_name(schema)
        except (ResolveError, ValidationError, ValueError, TypeError) as error:
            raise LakeError(
                f"a column of {self.location.uri(self.name)} has another type than the new rows ({first_line(error)}); "
                "they are not landed: cast the column, or land into another lake"
            ) from None

    def remove_orphans(self, hours: float) -> list[str]:
        if self._opened is None:
            return []
        end = datetime.now(UTC) - timedelta(hours=hours)
        folder = self.location.at(self.name)
        try:
            self._opened.maintenance.expire_snapshots().older_than(end).commit()
            table = open_iceberg(self.location, self.about, self.name)
            assert table is not None
            named = {self.location.strip(path) for path in table.inspect.all_data_files()["file_path"].to_pylist()}
            selector = pafs.FileSelector(folder, recursive=True, allow_not_found=True)
            removed = [
                info.path for info in self.location.filesystem.get_file_info(selector)
                if info.path.endswith(".parquet") and info.path not in named and info.mtime < end
            ]  # fmt: skip
            for path in removed:
                self.location.filesystem.delete_file(path)
        except Exception as error:
            raise LakeError(f"cannot remove files of {self.location.uri(self.name)}: {first_line(error)}") from None
        return removed
