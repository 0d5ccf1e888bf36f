# SPDX-License-Identifier: Apache-2.0
"""Derived tables without a JVM: DuckDB runs their definitions over Arrow tables."""

import logging
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from zenlake.errors import InvalidValue, LogError
from zenlake.log import Damaged, is_log
from zenlake.tables.derived import DERIVED, definition
from zenlake.tables.lake_reader import is_lake, table_files
from zenlake.tables.lake_reader import read as read_lake
from zenlake.tables.paths import PATHS, files
from zenlake.tables.schemas import TABLES, decode

if TYPE_CHECKING:
    import duckdb

# Functions of Spark that have another name in DuckDB.
_SPARK_WORDS = (
    "create macro get_json_object(text, path) as json_extract_string(text, path)",
    "create macro unix_micros(time) as epoch_us(time)",
    "create macro regexp_like(text, pattern) as regexp_matches(text, pattern)",
    "create macro xxhash64(value) as hash(value)",  # another function: only equality counts
    "create macro sha2(value, bits) as sha256(value)",
    "create macro explode(items) as unnest(items)",
    "create macro get(items, place) as items[place + 1]",
    "create macro sequence(first, last) as generate_series(first, last)",
    "create macro size(items) as len(items)",
)
# Payloads are BLOBs. Of a BLOB, DuckDB's own JSON functions read the escaped text, which is rarely JSON.
_JSON = (
    "create macro json_text(value) as case when typeof(value) = 'BLOB' then try(decode(try_cast(value::varchar as blob))) "
    "else value::varchar end",
    "create macro json(value) as case when json_valid(json_text(value)) then json_text(value)::json end",
    'create macro "->>"(value, path) as json_extract_string(json(value), path)',
)
ROWS = 16384  # of a record batch of a result
_TEXT = re.compile(r"'(?:[^']|'')*'")
_ARROW_AFTER_BYTES = re.compile(
    r'\bpayload"?\s*->(?!>)', re.IGNORECASE
)  # DuckDB's own operator, which no macro replaces


class DuckDBTables(Mapping[str, pa.Table]):
    """All tables of a recording by name. Each is computed on first access, from the columns that it needs."""

    def __init__(self, path: PATHS, threads: int | None = None, damaged: Damaged | None = None) -> None:
        self.files = files(path)
        self.threads = threads
        self.damaged = damaged

    def __getitem__(self, name: str) -> pa.Table:
        if name in TABLES:
            rows = (batch for _, batch in decode(self.files, {name: None}, threads=self.threads, damaged=self.damaged))
            return pa.Table.from_batches(rows, schema=TABLES[name])
        if name not in DERIVED:
            raise KeyError(f"unknown table {name!r}; expected one of {', '.join(self)}")
        sql = f"from {name}"
        with open_tables(sql, self.files, self.threads, self.damaged) as engine:
            return _describe(engine.sql(sql).to_arrow_table(), name)

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
    """Run a query in DuckDB's SQL. Every decoded and derived table is a view.

    Only the columns that the query names are decoded. Memory use grows with the result, not with the recording.
    """
    with query_batches(sql, path, threads, damaged) as found:
        return found.read_all()


@contextmanager
def query_batches(
    sql: str, path: PATHS, threads: int | None = None, damaged: Damaged | None = None, reject_foreign: bool = False
) -> Iterator[pa.RecordBatchReader]:
    """Run a query like `query`. The result is a stream.

    With `reject_foreign`, a capture without Zenoh is an error, at the end.
    """
    if _ARROW_AFTER_BYTES.search(_TEXT.sub("''", sql)):
        raise InvalidValue(
            "payload-> is null for bytes; expected payload->>'field' (text) or json(payload)->'field' (JSON)"
        )
    with open_tables(sql, files(path), threads, damaged, reject_foreign) as engine:
        yield engine.sql(sql).to_arrow_reader(ROWS)


@contextmanager
def open_tables(
    sql: str, paths: list[str], threads: int | None = None, damaged: Damaged | None = None, reject_foreign: bool = False
) -> "Iterator[duckdb.DuckDBPyConnection]":
    """Open DuckDB with the decoded and derived tables that a query names as views, or with all tables if it names none.

    DuckDB reads the files of a lake itself. Other recordings are decoded while a query runs (`StreamedTable`).
    """
    # Performance: all views together take longer than most queries.
    words = set(re.findall(r"\w+", sql.lower()))
    derived = [name for name in DERIVED if name in words]
    decoded = words.intersection(TABLES).union(*(definition(name).needs for name in derived))
    if not decoded:
        derived, decoded = list(DERIVED), set(TABLES)
    duckdb = import_duckdb()
    with tempfile.TemporaryDirectory(prefix="zenlake-sql-") as folder, connect({}, []) as engine, warn_once():
        limit_memory(engine, folder)
        recording = Recording(paths, Path(folder), threads, damaged)
        try:
            for name in decoded:
                recording.attach(engine, name, name)
            create_derived(engine, derived)
            yield engine
            if reject_foreign:
                recording.reject_foreign()
        except (duckdb.Error, pa.ArrowException, RuntimeError) as error:
            recording.raise_error(error)
            raise InvalidValue(str(error).split("\n\nLINE ")[0].replace("\n", " ")) from None


class Recording:
    """Captures, logs and lakes that DuckDB reads, each pass with the columns that a query names."""

    def __init__(
        self, paths: list[str], folder: Path, threads: int | None = None, damaged: Damaged | None = None
    ) -> None:
        """Open a recording.

        Args:
            paths: Files and folders, expanded.
            folder: Folder for temporary files.
            threads: Number of threads that decode a large capture.
            damaged: Callback for unreadable blocks of a log.
        """
        self._folder = folder
        self._paths = [self._copy_input() if path == "-" else path for path in paths]
        self._are_lakes = all(is_lake(path) and not is_log(path) for path in self._paths)
        self._are_local = all("://" not in path for path in self._paths)
        self._threads = threads
        self._damaged = damaged
        self._reported: set[str] = set()
        self._error: Exception | None = None
        self._is_read = self._has_messages = False

    def attach(self, engine: "duckdb.DuckDBPyConnection", table: str, name: str) -> None:
        """Create a view of a decoded table. DuckDB reads the files of a local lake itself."""
        if self._are_lakes and self._are_local:
            parquet = [file for lake in self._paths for file in table_files(lake, table)]
            engine.execute(f"create temp view {name} as {select_parquet(table, parquet, self._folder)}")
        else:
            from zenlake.tables.streamed_table import StreamedTable  # imports pandas if that is installed

            engine.register(name, StreamedTable(table, self._read))

    def raise_error(self, error: Exception) -> None:
        """Raise the error of the decoder, or Ctrl-C, that an error of DuckDB reports only as text."""
        if self._error is not None:
            raise self._error from None
        if any(text in str(error) for text in ("KeyboardInterrupt", "interrupted", "INTERRUPT")):
            raise KeyboardInterrupt from None

    def reject_foreign(self) -> None:
        """Raise an error if no read of this recording found a message, and it is a capture without Zenoh."""
        from zenlake.tables.nearest_key import NO_ZENOH, has_messages  # imports this module

        if self._is_read and not self._has_messages and not has_messages(self._paths):
            raise InvalidValue(f"{', '.join(self._paths)}: {NO_ZENOH}")

    def _read(self, table: str, columns: list[str], filter: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table. A lake applies the filter, which otherwise is applied later."""
        damaged = None if self._damaged is None else self._report
        tables = {table: columns or ["received"]}  # for the number of rows
        self._is_read = True
        try:
            found: Iterator[tuple[str, pa.RecordBatch]]
            if self._are_lakes:
                found = chain.from_iterable(read_lake(lake, tables, filter=filter) for lake in self._paths)
            else:
                found = decode(self._paths, tables, threads=self._threads, damaged=damaged)
            for _, batch in found:
                self._has_messages |= table != "events"  # these may be of another protocol
                yield batch
        except Exception as error:
            self._error = error
            raise

    def _report(self, error: LogError) -> None:
        """Report an unreadable part in the first pass only."""
        if self._damaged is not None and str(error) not in self._reported:
            self._reported.add(str(error))
            self._damaged(error)

    def _copy_input(self) -> str:
        """Copy the standard input, which can be read only once, to a file."""
        copy = self._folder / "stdin"
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        return str(copy)


@contextmanager
def warn_once() -> Iterator[None]:
    """Log each warning about a capture in the first pass only."""
    logged: set[str] = set()

    def is_new(record: logging.LogRecord) -> bool:
        text, count = record.getMessage(), len(logged)
        logged.add(text)
        return len(logged) > count

    logger = logging.getLogger("zenlake.capture")
    logger.addFilter(is_new)
    try:
        yield
    finally:
        logger.removeFilter(is_new)


def select_parquet(table: str, parquet: list[str], folder: Path) -> str:
    """Return a query of a decoded table in Parquet files. Columns that older files lack are null.

    An empty file in `folder` gives the columns and their order.
    """
    from pyarrow.parquet import ParquetWriter

    empty = folder / f"{table}.parquet"
    with ParquetWriter(empty, TABLES[table]):  # Performance: `Schema.empty_table` would import pandas
        pass
    paths = ", ".join(map(quote, [str(empty), *parquet]))
    columns = ", ".join(f'"{column}"' for column in TABLES[table].names)
    return f"select {columns} from read_parquet([{paths}], union_by_name = true, hive_partitioning = false)"


def limit_memory(engine: "duckdb.DuckDBPyConnection", spill: str) -> None:
    """Move rows of DuckDB to files in the folder `spill` beyond a quarter of a GiB for each core, at least 1 GiB."""
    engine.execute(f"set temp_directory = {quote(spill)}")
    engine.execute("set parquet_metadata_cache = true")
    engine.execute(f"set memory_limit = '{default_memory(engine) >> 20}MiB'")


def default_memory(engine: "duckdb.DuckDBPyConnection") -> int:
    """Return the default memory limit in bytes."""
    [(threads,)] = engine.execute("select current_setting('threads')").fetchall()
    return max(int(threads), 4) << 28


def quote(text: str) -> str:
    """Return a string literal in SQL."""
    return "'" + text.replace("'", "''") + "'"


def connect(tables: Mapping[str, pa.Table], derived: Iterable[str]) -> "duckdb.DuckDBPyConnection":
    """Open DuckDB with these decoded tables and these derived tables as views."""
    engine = import_duckdb().connect()
    engine.execute("set TimeZone = 'UTC'")
    engine.execute("set enable_progress_bar = false")  # it is drawn on the standard output
    for macro in (*_SPARK_WORDS, *_JSON):
        engine.execute(macro)
    for name, table in tables.items():
        engine.register(name, table)
    create_derived(engine, derived)
    return engine


def create_derived(engine: "duckdb.DuckDBPyConnection", derived: Iterable[str]) -> None:
    """Create views of derived tables. The tables that they need exist."""
    for name in derived:
        engine.execute(f"create temp view {name} as {definition(name).sql}")


def import_duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise ImportError(
            "derived tables, `sql` and `report` need DuckDB, which is not installed: pip install duckdb"
        ) from None
    return duckdb


def _describe(table: pa.Table, name: str) -> pa.Table:
    """Add the column comments of the definition to the schema, as for decoded tables."""
    comments = definition(name).comments
    fields = [field.with_metadata({"comment": comments[field.name]}) for field in table.schema]
    return table.cast(pa.schema(fields, metadata={"zenlake.table": name}))
