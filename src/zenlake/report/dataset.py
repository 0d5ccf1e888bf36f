# SPDX-License-Identifier: Apache-2.0
"""Tables of one recording in DuckDB, from any source.

A lake (a folder with a folder of Parquet files for each table) is read in place. Other sources go through `zenlake.tables`:
decoded tables are inserted into DuckDB batch by batch, with payloads replaced by a digest and their first bytes. DuckDB
spills to disk if the tables do not fit in memory. Derived tables that a lake does not contain are computed.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from zenlake.errors import InvalidValue
from zenlake.log import Damaged, is_log
from zenlake.tables import definition
from zenlake.tables.duckdb_engine import connect, stream
from zenlake.tables.lake_reader import is_lake, table_files
from zenlake.tables.paths import files
from zenlake.tables.schemas import TABLES

NEEDED = ("sessions", "queries", "gaps")  # of the derived tables
PREVIEW = 64  # bytes of a payload that the page may show
CAPTURES = ("*.pcap", "*.pcapng", "*.pcap.gz", "*.pcapng.gz", "*.pcap.zst", "*.pcapng.zst")

# Columns of samples that are stored: without the payloads.
_BRIEF = (
    f"""* exclude (payload, shm, attachment, schema), md5_number(payload) as digest, payload[:{PREVIEW}] as preview"""
)

_WORDS = (
    "create macro ms(time) as epoch_us(time) / 1000.0",
    "create macro cut(words) as case when length(words) > 240 then left(words, 239) || '…' else words end",
    # A key whose declaration was not recorded is shown by its id.
    "create macro named(key, unresolved) as coalesce(cut(key), '?' || cut(unresolved), '?')",
)


@dataclass(frozen=True)
class Dataset:
    """One recording: a DuckDB schema with all its tables, and a display name."""

    engine: Any
    schema: str
    name: str
    kind: str  # capture, log or lake

    def rows(self, sql: str, **values: Any) -> list[dict[str, Any]]:
        """Run a query on the tables of this recording."""
        self.engine.execute(f"set search_path = '{self.schema},main'")
        return rows(self.engine, sql, **values)

    def row(self, sql: str, **values: Any) -> dict[str, Any]:
        [found] = self.rows(sql, **values)
        return found


def rows(engine: Any, sql: str, **values: Any) -> list[dict[str, Any]]:
    found = engine.execute(sql, values) if values else engine.execute(sql)
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


@contextmanager
def recordings(
    paths: Sequence[str | Path], said: Callable[[str], None], damaged: Damaged | None = None
) -> Iterator[tuple[Any, list[Dataset]]]:
    """Open DuckDB with one schema for each path (`a`, `b`) while the figures are computed."""
    with tempfile.TemporaryDirectory(prefix="zenlake-report-") as spill, connect({}, []) as engine:
        engine.execute(f"set temp_directory = {quote(spill)}")
        engine.execute("set preserve_insertion_order = false")
        for word in _WORDS:
            engine.execute(word)
        found = []
        for path, schema in zip(map(Path, paths), "ab", strict=False):
            said(f"reading {path}")
            engine.execute(f"create schema {schema}")
            engine.execute(f"set search_path = '{schema},main'")
            kind = "lake" if is_lake(path) else "log" if is_log(path) else "capture"
            if kind == "lake":
                read_lake(engine, path)
            else:
                read_decoded(engine, path, damaged)
            found.append(Dataset(engine, schema, name_dataset(path), kind))
        yield engine, found


def name_dataset(path: Path) -> str:
    """Return the display name of a recording. For generic names (`tables`, `log`), the parent folder is included."""
    if not path.is_dir():
        return path.name
    whole = path.resolve()
    return "/".join(whole.parts[-2:]) if whole.name in ("tables", "log") else whole.name


def read_lake(engine: Any, lake: Path) -> None:
    """Create views of the Parquet files. A table without files is empty, or derived."""
    for name, schema in TABLES.items():
        parquet = parquet_of(lake, name)
        if parquet:
            engine.execute(f"create view whole_{name} as from read_parquet({parquet}, hive_partitioning = true)")
        else:
            engine.register(f"none_{name}", schema.empty_table())
            engine.execute(f"create table whole_{name} as from none_{name}")
        engine.execute(f"create view {name} as select {_BRIEF if name == 'samples' else '*'} from whole_{name}")
    for name in NEEDED:
        parquet = parquet_of(lake, name)
        if parquet:
            engine.execute(f"create view {name} as from read_parquet({parquet}, hive_partitioning = true)")
        else:
            engine.execute(f"create table {name} as {definition(name).sql}")


def parquet_of(lake: Path, name: str) -> str:
    """Return the files of a table as a list in SQL, or an empty string."""
    found = table_files(lake, name)
    return f"[{', '.join(map(quote, found))}]" if found else ""


def read_decoded(engine: Any, path: Path, damaged: Damaged | None = None) -> None:
    """Create tables and fill them while the recording is decoded."""
    for name, schema in TABLES.items():
        engine.register("sketch", schema.empty_table())
        engine.execute(f"create table {name} as select {_BRIEF if name == 'samples' else '*'} from sketch")
    for name, batch in stream(resolve_input(path), dict.fromkeys(TABLES), damaged=damaged):
        engine.register("batch", pa.Table.from_batches([batch]))
        engine.execute(f"insert into {name} select {_BRIEF if name == 'samples' else '*'} from batch")
    for name in NEEDED:
        engine.execute(f"create table {name} as {definition(name).sql}")


def resolve_input(path: Path) -> list[str]:
    """Return the files of a recording: one file, the matches of a pattern, the captures in a folder, or a log."""
    if not path.is_dir() or is_log(path):
        return files(path)
    captures = sorted(str(file) for kind in CAPTURES for file in path.glob(kind))
    if not captures:
        raise InvalidValue(f"{path} is a folder without captures, and it is neither a lake nor a log")
    return captures


def quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
