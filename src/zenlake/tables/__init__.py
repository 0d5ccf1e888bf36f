# SPDX-License-Identifier: Apache-2.0
"""The tables as users see them, without a JVM: `zenlake.read` gives Arrow, decoded or derived by DuckDB."""

from zenlake.tables.derive import derive, query
from zenlake.tables.derived import DERIVED, definition
from zenlake.tables.read import batches, column_names, read
from zenlake.typed import ros_keys, value_errors, values

__all__ = [
    "DERIVED", "batches", "column_names", "definition", "derive", "query", "read", "ros_keys", "value_errors", "values",
]  # fmt: skip
