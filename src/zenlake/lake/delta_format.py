# SPDX-License-Identifier: Apache-2.0
"""Delta: `deltalake` commits files that tasks have written, without a JVM. Numbers are stored as application transactions.

`deltalake` refuses a commit if a concurrent commit has set the same application transaction.
"""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from zenlake.errors import LakeError
from zenlake.lake.layout import DAY, DataFile
from zenlake.lake.table_format import NotCommitted
from zenlake.tables.lake_location import Location, first_line, import_deltalake
from zenlake.tables.lake_reader import SnapshotFile, list_delta, open_delta

__all__ = ["DeltaFormat"]

APPLICATION = "zenlake/"


class DeltaFormat:
    """A Delta table of a lake."""

    def __init__(self, location: Location, table: str) -> None:
        self.location, self.name = location, table
        self._opened = open_delta(location, table)
        self.exists = self._opened is not None

    def number(self, name: str) -> int | None:
        if self._opened is None:
            return None
        found: int | None = self._opened.transaction_version(APPLICATION + name)
        return found

    def files(self) -> list[SnapshotFile]:
        return [] if self._opened is None else list_delta(self.location, self.name, self._opened)

    def schema(self) -> pa.Schema:
        if self._opened is None:
            return pa.schema([])
        known = pa.schema(self._opened.schema().to_arrow())
        return pa.schema([field for field in known if field.name != DAY])

    def commit(
        self, add: Sequence[DataFile], remove: Sequence[SnapshotFile], numbers: Mapping[str, int], schema: pa.Schema,
        is_change: bool = True,
    ) -> None:  # fmt: skip
        delta = import_deltalake()
        from deltalake.transaction import AddAction, RemoveAction

        by = [DAY] if any("/" in file.path for file in add) else []
        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = []
        try:
            table = self._widen(schema, by)
            partitioned = list(table.metadata().partition_columns)
            for file in add:
                values = {DAY: file.day} if partitioned else {}
                statistics = json.dumps({"numRecords": file.rows, **file.statistics})
                actions.append(AddAction(file.path, file.size, values, now, is_change, statistics))
            for old in remove:
                relative = old.path.removeprefix(self.location.at(self.name)).strip("/")
                actions.append(RemoveAction(relative, is_change, now, old.size, {DAY: old.day} if partitioned else {}))
            known = [delta.Transaction(APPLICATION + name, number) for name, number in numbers.items()]
            table.create_write_transaction(
                actions, mode="append", schema=table.schema(), partition_by=partitioned,
                commit_properties=delta.CommitProperties(app_transactions=known),
            )  # fmt: skip
        except (LakeError, NotCommitted):
            raise
        except Exception as error:  # of deltalake, which has no common base class
            raise NotCommitted(first_line(error)) from error

    def _widen(self, schema: pa.Schema, by: list[str]) -> Any:
        """Create the table if necessary, and return it.

        Missing columns are added in a transaction of their own. Another driver may have committed before it, so the progress
        must be read again.
        """
        delta = import_deltalake()
        uri, options = self.location.uri(self.name), self.location.storage_options
        plain = [field.remove_metadata() for field in schema]
        if self._opened is None:
            days = [pa.field(DAY, pa.date32())] if by else []
            return delta.DeltaTable.create(uri, pa.schema([*plain, *days]), partition_by=by, storage_options=options)
        known = {field.name: field.type for field in self._opened.schema().fields}
        wanted = delta.Schema.from_arrow(pa.schema(plain)).fields
        for field in wanted:
            if field.name in known and known[field.name] != field.type:
                raise LakeError(
                    f"column {field.name!r} of {uri} has type {type_name(known[field.name])}, but the new rows have "
                    f"{type_name(field.type)}; they are not landed: cast the column, or land into another lake"
                )
        later = [field for field in wanted if field.name not in known]
        if later:
            self._opened.alter.add_columns(later)
            raise NotCommitted(f"added the columns {', '.join(field.name for field in later)}")
        return self._opened

    def remove_orphans(self, hours: float) -> list[str]:
        if self._opened is None:
            return []
        try:
            removed: list[str] = self._opened.vacuum(
                round(hours), dry_run=False, enforce_retention_duration=False, full=True
            )
        except Exception as error:
            raise LakeError(f"cannot remove files of {self.location.uri(self.name)}: {first_line(error)}") from None
        return removed


def type_name(type_: object) -> str:
    return str(getattr(type_, "type", type_))
