# SPDX-License-Identifier: Apache-2.0
"""A decoded table that DuckDB scans while the recording is decoded.

DuckDB passes the columns and the filter of a query to `scanner`, as to any dataset of Arrow. Only these columns are decoded, and
memory use does not grow with the recording. Each reference to the table in a query decodes the recording once.

This module imports `pyarrow.dataset`, which imports pandas if that is installed. Import it only where DuckDB runs.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyarrow.dataset import Dataset, Expression

from zenlake.tables.schemas import select_schema

__all__ = ["StreamedTable"]

Read = Callable[[str, list[str], Expression | None], Iterator[pa.RecordBatch]]
"""Decode these columns of a table. Rows that the filter rejects may be omitted."""


class StreamedTable(Dataset):
    """A decoded table of a recording, as a dataset."""

    def __init__(self, name: str, read: Read) -> None:
        self._name = name
        self._read = read

    @property
    def schema(self) -> pa.Schema:
        return select_schema(self._name)

    def scanner(self, columns: Sequence[str] | None = None, filter: Expression | None = None, **_: Any) -> "Scan":
        """Return a scan of some columns. A filter may use other columns than these."""
        names = self.schema.names if columns is None else list(columns)
        # The text of an expression contains the names of its columns. A name that is only part of a value costs time.
        text = "" if filter is None else str(filter)
        used = [name for name in self.schema.names if name in text and name not in names]
        return Scan(select_schema(self._name, names), self._read(self._name, names + used, filter), filter)


class Scan:
    """One pass over a table."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], filter: Expression | None) -> None:
        self.projected_schema = schema
        self._batches = batches
        self._filter = filter

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._select())

    def _select(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            found = (
                [batch] if self._filter is None else pa.Table.from_batches([batch]).filter(self._filter).to_batches()
            )
            yield from (each.select(self.projected_schema.names) for each in found)
