# SPDX-License-Identifier: Apache-2.0
"""All tables of a capture as DataFrames: decoded tables from the source, derived tables from their SQL.

Every Spark session of an environment with Zenlake imports this module. Expensive imports are inside functions.
"""

import json
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zenlake.tables.paths import PATHS


class CaptureTables(Mapping[str, "DataFrame"]):
    """DataFrames by name, planned on access and computed on use, with the needed columns only.

    Derived tables share one pass over the capture. Spark persists its result, in memory and then on disk, as long as
    this object exists. A decoded table is read from the capture each time.
    """

    def __init__(self, spark: "SparkSession", path: "PATHS") -> None:
        from zenlake.tables.derived import DERIVED
        from zenlake.tables.paths import files
        from zenlake.tables.schemas import TABLES

        self.spark = spark
        self.files = files(path)
        self.decoded, self.derived = tuple(TABLES), DERIVED
        self._shared: DataFrame | None = None

    def __getitem__(self, name: str) -> "DataFrame":
        if name in self.decoded:
            return self._read_decoded(name)
        if name in self.derived:
            return self._read_derived(name)
        raise KeyError(f"unknown table {name!r}; expected one of {', '.join(self)}")

    def __iter__(self) -> Iterator[str]:
        return iter((*self.decoded, *self.derived))

    def __len__(self) -> int:
        return len(self.decoded) + len(self.derived)

    def _read_decoded(self, name: str) -> "DataFrame":
        return self.spark.read.format("zenoh_capture").option("table", name).load(self.files)

    def persist_input(self) -> "DataFrame":
        """Return the persisted input of the derived tables."""
        from pyspark import StorageLevel

        from zenlake.tables.derived import definition

        if self._shared is None:
            needs: dict[str, dict[str, None]] = {}
            for name in self.derived:
                for table, columns in definition(name).needs.items():
                    needs.setdefault(table, {}).update(dict.fromkeys(columns))
            asked = json.dumps({table: list(columns) for table, columns in needs.items()})
            found = self.spark.read.format("zenoh_capture").option("needs", asked).load(self.files)
            self._shared = found.persist(StorageLevel.MEMORY_AND_DISK)
            weakref.finalize(self, _forget, self._shared)
        return self._shared

    def _read_derived(self, name: str) -> "DataFrame":
        from zenlake.spark.derived_tables import derive_table
        from zenlake.spark.multi_table_scan import select_table
        from zenlake.tables.derived import definition

        defined = definition(name)
        sources = {
            table: select_table(self.persist_input(), table).select(columns) for table, columns in defined.needs.items()
        }
        return derive_table(self.spark, name, sources)


def _forget(shared: "DataFrame") -> None:
    with suppress(Exception):  # Spark may have stopped already
        shared.unpersist()


def tables(spark: "SparkSession", path: "PATHS") -> Mapping[str, "DataFrame"]:
    """Return the tables of a log, a lake, or capture files.

    Args:
        spark: The Spark session.
        path: A log, a lake, capture files, or patterns of them.

    Returns:
        A mapping from table name to DataFrame.

    Example:
        ```python
        tables(spark, "robots.pcapng")["queries"].show()
        ```
    """
    from zenlake.spark.stored_tables import open_stored

    return open_stored(spark, path) or CaptureTables(spark, path)
