# SPDX-License-Identifier: Apache-2.0
"""Tables for users, without a JVM: `zenlake.read` returns Arrow tables, decoded or derived by DuckDB."""

from zenlake.payloads import ros_keys, value_errors, values
from zenlake.tables.derived import DERIVED, definition
from zenlake.tables.duckdb_engine import derive, query, query_batches
from zenlake.tables.read import batches, column_names, part_batches, parts, read

__all__ = [
    "DERIVED", "batches", "column_names", "definition", "derive", "part_batches", "parts", "query", "query_batches", "read",
    "ros_keys", "value_errors", "values",
]  # fmt: skip
