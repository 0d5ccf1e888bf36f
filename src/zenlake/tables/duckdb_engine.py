# SPDX-License-Identifier: Apache-2.0
"""Derived tables without a JVM: DuckDB runs their definitions over Arrow tables."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from zenlake.errors import InvalidValue
from zenlake.log import Damaged
from zenlake.tables.derived import DERIVED, definition
from zenlake.tables.paths import PATHS, files
from zenlake.tables.schemas import TABLES, decode, select_schema

if TYPE_CHECKING:
    import duckdb

# Functions of Spark that have another name in DuckDB.
_SPARK_WORDS = (
    "create macro get_json_object(text, path) as json_extract_string(text, path)",
    "create macro unix_micros(time) as epoch_us(time)",
)
_LISTS = re.compile(r"\s*show\s+(all\s+)?tables\b", re.IGNORECASE)


class DuckDBTables(Mapping[str, pa.Table]):
    """All tables of a recording by name. Each is computed on first access, from the columns that it needs."""

    def __init__(self, path: PATHS, threads: int | None = None, damaged: Damaged | None = None) -> None:
        self.files = files(path)
        self.threads = threads
        self.damaged = damaged

    def __getitem__(self, name: str) -> pa.Table:
        if name in TABLES:
            return decode_inputs(self.files, {name: None}, self.threads, self.damaged)[name]
        if name not in DERIVED:
            raise KeyError(f"unknown table {name!r}; expected one of {', '.join(self)}")
        needed = decode_inputs(self.files, definition(name).needs, self.threads, self.damaged)
        with connect(needed, [name]) as engine:
            return _describe(engine.sql(f"from {name}").to_arrow_table(), name)

    def __iter__(self) -> Iterator[str]:
        return iter((*TABLES, *DERIVED))

    def __len__(self) -> int:
        return len(TABLES) + len(DERIVED)


def derive(path: PATHS, threads: int | None = None, damaged: Damaged | None = None) -> DuckDBTables:
    """Return the tables of one or more captures or logs, as in `derive("robots.pcapng")["queries"]`.

    Patterns are expanded.
    """
    return DuckDBTables(path, threads, damaged)


def query(sql: str, path: PATHS, threads: int | None = None, damaged: Damaged | None = None) -> pa.Table:
    """Run a query in DuckDB's SQL. Every decoded and derived table is a view."""
    engine = import_duckdb()
    try:
        names = {name.lower() for name in engine.get_table_names(sql)}  # SQL names are case-insensitive
        derived = [name for name in DERIVED if name in names]
        needed = [name for name in TABLES if name in names]
        needed += [name for each in derived for name in definition(each).needs]
        tables = decode_inputs(files(path), dict.fromkeys(needed), threads, damaged)
        if _LISTS.match(sql):  # only names and columns are needed, no rows
            tables, derived = {name: schema.empty_table() for name, schema in TABLES.items()}, list(DERIVED)
        with connect(tables, derived) as connection:
            return connection.sql(sql).to_arrow_table()
    except engine.Error as error:
        raise InvalidValue(str(error).split("\n\nLINE ")[0].replace("\n", " ")) from None


def decode_inputs(
    paths: list[str],
    wanted: Mapping[str, Sequence[str] | None],
    threads: int | None = None,
    damaged: Damaged | None = None,
) -> dict[str, pa.Table]:
    """Read whole decoded tables in one pass over the recording."""
    if not wanted:
        return {}
    batches: dict[str, list[pa.RecordBatch]] = {name: [] for name in wanted}
    for name, batch in stream(paths, wanted, threads, damaged):
        batches[name].append(batch)
    return {
        name: pa.Table.from_batches(found, schema=select_schema(name, _list(wanted[name])))
        for name, found in batches.items()
    }


def stream(
    paths: list[str],
    wanted: Mapping[str, Sequence[str] | None],
    threads: int | None = None,
    damaged: Damaged | None = None,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield decoded tables in one pass, as (table, record batch). Memory use does not grow with the recording."""
    return decode(paths, wanted, threads=threads, damaged=damaged)


def connect(tables: Mapping[str, pa.Table], derived: Iterable[str]) -> "duckdb.DuckDBPyConnection":
    """Open DuckDB with these decoded tables and these derived tables as views."""
    engine = import_duckdb().connect()
    engine.execute("set TimeZone = 'UTC'")
    for macro in _SPARK_WORDS:
        engine.execute(macro)
    for name, table in tables.items():
        engine.register(name, table)
    for name in derived:
        engine.execute(f"create temp view {name} as {definition(name).sql}")
    return engine


def import_duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise ImportError("derived tables need DuckDB, which is not installed: pip install duckdb") from None
    return duckdb


def _describe(table: pa.Table, name: str) -> pa.Table:
    """Add the column comments of the definition to the schema, as for decoded tables."""
    comments = definition(name).comments
    fields = [field.with_metadata({"comment": comments[field.name]}) for field in table.schema]
    return table.cast(pa.schema(fields, metadata={"zenlake.table": name}))


def _list(columns: Iterable[str] | None) -> list[str] | None:
    return None if columns is None else list(columns)
