# SPDX-License-Identifier: Apache-2.0
"""Spark's filters as Arrow expressions, so that rejected rows never leave Python."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource

if TYPE_CHECKING:
    import pyarrow.compute as pc


def expression(filter_: datasource.Filter) -> "pc.Expression | None":
    """Convert a condition to Arrow, with SQL's null semantics. Return None if Arrow cannot express it."""
    import pyarrow.compute as pc

    if len(getattr(filter_, "attribute", ())) != 1:
        return None
    column = pc.field(filter_.attribute[0])
    if isinstance(filter_, datasource.IsNull):
        return column.is_null()
    if isinstance(filter_, datasource.IsNotNull):
        return column.is_valid()
    if isinstance(filter_, datasource.In):
        return column.isin([_scalar(value) for value in filter_.value if value is not None])
    if isinstance(filter_, datasource.StringStartsWith):
        return pc.starts_with(column, filter_.value)
    compare = _COMPARE.get(type(filter_))
    return None if compare is None or filter_.value is None else getattr(column, compare)(_scalar(filter_.value))


def combine_filters(expressions: Iterable["pc.Expression"]) -> "pc.Expression | None":
    whole = None
    for each in expressions:
        whole = each if whole is None else whole & each
    return whole


def time_bounds(filter_: datasource.Filter) -> tuple[datetime | None, datetime | None]:
    """Return the times between which rows can satisfy a condition on the received time: from, and to. None: no bound."""
    value = getattr(filter_, "value", None)
    if getattr(filter_, "attribute", None) != ("received",) or not isinstance(value, datetime):
        return None, None
    time = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    after = isinstance(filter_, datasource.GreaterThan | datasource.GreaterThanOrEqual | datasource.EqualTo)
    before = isinstance(filter_, datasource.LessThan | datasource.LessThanOrEqual | datasource.EqualTo)
    return time if after else None, time if before else None


_COMPARE = {
    datasource.EqualTo: "__eq__",
    datasource.GreaterThan: "__gt__",
    datasource.GreaterThanOrEqual: "__ge__",
    datasource.LessThan: "__lt__",
    datasource.LessThanOrEqual: "__le__",
}


def _scalar(value: Any) -> Any:
    import pyarrow as pa

    if not isinstance(value, datetime):
        return value
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return pa.scalar(aware.astimezone(UTC), pa.timestamp("us", tz="UTC"))
