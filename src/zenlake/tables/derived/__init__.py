# SPDX-License-Identifier: Apache-2.0
"""Definitions of the derived tables: one SQL file for each table, with a query over the decoded tables.

The queries are written in Spark SQL and use only features that DuckDB has too. The few functions that only Spark has are
defined in DuckDB by `zenlake.tables.duckdb_engine`. The SQL comments are the documentation: the comment at the top describes a
row, and the comment after a column of the last select describes the column. This package runs no query, so neither
engine has to be installed.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from zenlake.tables.schemas import TABLES

__all__ = ["DERIVED", "Definition", "definition"]

DERIVED = (
    "publications",
    "deliveries",
    "subscriptions",
    "matrix",
    "gets",
    "sessions",
    "queries",
    "gaps",
    "latest",
    "rates",
    "hops",
)

SHARED = ("clocks", "session_nodes", "lines", "recorded_hops", "matches")
"""Definitions that only other definitions use."""

_COLUMN = re.compile(r"^ {4}.*?\b(\w+),?  -- (.+)$", re.MULTILINE)
_COMMENT = re.compile(r"--.*$", re.MULTILINE)


@dataclass(frozen=True)
class Definition:
    """One derived table: its query, the comments of its rows and columns, and the decoded tables that it needs.

    `sql` uses only decoded tables. `query` is the same with the derived tables `uses` as further tables.
    """

    name: str
    sql: str
    query: str
    uses: tuple[str, ...]
    row: str
    notes: str
    comments: dict[str, str]
    needs: dict[str, list[str]]  # decoded table -> its columns that the query uses


@cache
def definition(name: str) -> Definition:
    text = (files(__name__) / f"{name}.sql").read_text()
    head, body = re.split(r"^(?=with$|select$)", text, maxsplit=1, flags=re.MULTILINE)
    row, _, notes = "\n".join(line[3:] for line in head.splitlines()[1:]).partition("\n\n")
    last_select = body[body.rindex("\nselect\n") if "\nselect\n" in body else 0 :]
    comments = {found[1]: found[2] for found in _COLUMN.finditer(last_select)}
    sql = _COMMENT.sub("", body).strip()
    query, uses = sql, _used_definitions(name, sql)
    if uses:  # they become the first common table expressions, each once
        shared = ",\n".join(f"{other} as (\n{definition(other).query}\n)" for other in uses)
        sql = f"with\n{shared}" + (f",\n{query.removeprefix('with')}" if query.startswith("with\n") else f"\n{query}")
    words = set(re.findall(r"\w+", sql))
    sources = re.findall(r"\b(?:from|join) (\w+)", sql)
    needs = {
        table: [column for column in schema.names if column in words]
        for table, schema in TABLES.items()
        if table in sources
    }
    return Definition(name, sql, query, uses, " ".join(row.split()), " ".join(notes.split()), comments, needs)


def _used_definitions(name: str, sql: str) -> tuple[str, ...]:
    """Return the names of the definitions that a query uses. Those that others use are first."""
    sources = re.findall(r"\b(?:from|join) (\w+)", sql)
    direct = [other for other in (*SHARED, *DERIVED) if other in sources and other != name]
    return tuple(dict.fromkeys(each for other in direct for each in (*definition(other).uses, other)))
