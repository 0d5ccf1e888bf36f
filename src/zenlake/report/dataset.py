# SPDX-License-Identifier: Apache-2.0
"""Tables of one recording in DuckDB, from any source.

The columns that the figures use are copied to a DuckDB database in a temporary file, table by table. Memory use is limited, and
does not grow with the recording. Payloads are read only for a comparison. Then a digest and their first bytes are stored.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zenlake.errors import InvalidValue
from zenlake.log import Damaged, is_log
from zenlake.report.hop_tables import HOP_TABLES, create_hop_tables
from zenlake.sample_captures import or_sample
from zenlake.tables import definition
from zenlake.tables.duckdb_engine import Recording, connect, limit_memory, quote, warn_once
from zenlake.tables.lake_location import Location
from zenlake.tables.lake_reader import is_lake
from zenlake.tables.nearest_key import FOREIGN, NO_ZENOH
from zenlake.tables.paths import files
from zenlake.tables.schemas import TABLES

# Derived tables that the figures use, except those of `hop_tables`. Each is computed once, from the tables before it.
DERIVED_TABLES = ("matches", "subscriptions", "matrix", "queries", "gets", "sessions", "gaps", "hops")
PREVIEW_BYTES = 64  # of a payload, for the page
CAPTURES = ("*.pcap", "*.pcapng", "*.pcap.gz", "*.pcapng.gz", "*.pcap.zst", "*.pcapng.zst")

# Columns that the figures use, besides those of the derived tables. Small tables are complete.
TABLE_COLUMNS: dict[str, Sequence[str] | None] = {
    "messages": ("type", "body", "size", "fragments", "priority", "reliable"),
    "samples": ("encoding", "payload_size", "request_id"),
    "declarations": None, "events": None, "errors": None,
}  # fmt: skip
# The derived tables compare only the digest of a payload. A comparison of two recordings shows its first bytes.
DIGEST = "case when payload is not null then hash(payload)::varchar::blob end as payload"
PREVIEW = f"payload[:{PREVIEW_BYTES}] as preview"

_MACROS = (
    "create macro ms(time) as epoch_us(time) / 1000.0",
    "create macro cut(words) as case when length(words) > 240 then left(words, 239) || '…' else words end",
    # A key whose declaration was not recorded is shown by its id.
    "create macro named(key, unresolved) as coalesce(cut(key), '?' || cut(unresolved), '?')",
)


@dataclass(frozen=True)
class Dataset:
    """One recording: a DuckDB database with all its tables, and a display name."""

    engine: Any
    schema: str
    name: str
    kind: str  # capture, log or lake

    def rows(self, sql: str, **values: Any) -> list[dict[str, Any]]:
        """Run a query on the tables of this recording."""
        self.engine.execute(f"set search_path = '{self.schema}.main,memory.main'")
        return rows(self.engine, sql, **values)

    def row(self, sql: str, **values: Any) -> dict[str, Any]:
        [result] = self.rows(sql, **values)
        return result


def rows(engine: Any, sql: str, **values: Any) -> list[dict[str, Any]]:
    cursor = engine.execute(sql, values) if values else engine.execute(sql)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@contextmanager
def recordings(
    paths: Sequence[str | Path], progress: Callable[[str], None], damaged: Damaged | None = None
) -> Iterator[tuple[Any, list[Dataset]]]:
    """Open DuckDB with one schema for each path (`a`, `b`) while the figures are computed."""
    with tempfile.TemporaryDirectory(prefix="zenlake-report-") as spill, connect({}, []) as engine, warn_once():
        limit_memory(engine, spill)
        engine.execute("set preserve_insertion_order = false")
        for macro in _MACROS:
            engine.execute(macro)
        datasets = []
        for path, schema in zip(or_sample([os.fspath(path) for path in paths]), "ab", strict=False):
            progress(f"reading {path}")
            # A file: DuckDB compresses its tables, and moves them out of memory.
            engine.execute(f"attach {quote(str(Path(spill, schema + '.duckdb')))} as {schema}")
            engine.execute(f"set search_path = '{schema}.main,memory.main'")
            kind = "lake" if is_lake(path) else "log" if is_log(path) else "capture"
            source = Recording(resolve_input(path), Path(spill), damaged=damaged)
            try:
                create_tables(engine, source, schema, with_preview=len(paths) > 1)
            except Exception as error:
                source.raise_error(error)
                raise
            is_empty = "select not exists (from messages) and not exists (from events where kind <> $kind)"
            if kind == "capture" and engine.execute(is_empty, {"kind": FOREIGN}).fetchall() == [(True,)]:
                raise InvalidValue(f"{path}: {NO_ZENOH}")
            datasets.append(Dataset(engine, schema, name_dataset(path), kind))
        yield engine, datasets


def select_columns() -> dict[str, list[str]]:
    """Return the columns of each decoded table that a report needs."""
    derived_columns = [definition(name).needs for name in (*HOP_TABLES, *DERIVED_TABLES)]
    columns_by_table = {
        table: [*(TABLES[table].names if columns is None else columns)] for table, columns in TABLE_COLUMNS.items()
    }
    return {
        table: list(dict.fromkeys([*columns, *(each for needs in derived_columns for each in needs.get(table, ()))]))
        for table, columns in columns_by_table.items()
    }


def name_dataset(path: str) -> str:
    """Return the display name of a recording. For generic names (`tables`, `log`), the parent folder is included."""
    if "://" in path:
        return Location(path).address
    if not os.path.isdir(path):
        return os.path.basename(path)
    resolved = Path(path).resolve()
    return "/".join(resolved.parts[-2:]) if resolved.name in ("tables", "log") else resolved.name


def create_tables(engine: Any, source: Recording, schema: str, with_preview: bool) -> None:
    """Create tables with the selected columns, one pass over the recording for each, and the derived tables."""
    for name, columns in select_columns().items():
        source.attach(engine, name, f"decoded_{schema}_{name}")
        parts = [DIGEST if each == "payload" else f'"{each}"' for each in columns]
        if with_preview and "payload" in columns:
            parts.append(PREVIEW)
        engine.execute(f"create table {name} as select {', '.join(parts)} from decoded_{schema}_{name}")
    create_hop_tables(engine, schema)
    for name in DERIVED_TABLES:
        engine.execute(f"create table {name} as {definition(name).query}")


def resolve_input(path: str) -> list[str]:
    """Return the files of a recording: one file, the matches of a pattern, the captures in a folder, a log, or a lake."""
    if not os.path.isdir(path) or is_log(path) or is_lake(path):
        return files(path)
    captures = sorted(str(file) for kind in CAPTURES for file in Path(path).glob(kind))
    if not captures:
        raise InvalidValue(f"{path} is a folder without captures, and it is neither a lake nor a log")
    return captures
