# SPDX-License-Identifier: Apache-2.0
"""The derived tables, each defined once: a query over the decoded tables in the file that bears its name.

The queries are written in Spark's SQL and keep to what DuckDB understands too; the few functions that only Spark has are taught to
DuckDB (`zenlake.tables.derive`). Their text is the documentation as well: the comment at the head says what a row is, the comment
behind a column of the last select says what it means. Nothing here runs anything, so neither engine need be installed.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from zenlake.tables.schemas import TABLES

__all__ = ["DERIVED", "Definition", "definition"]

DERIVED = ("sessions", "queries", "gaps", "latest", "rates")

_COLUMN = re.compile(r"^ {4}.*?\b(\w+),?  -- (.+)$", re.MULTILINE)
_COMMENT = re.compile(r"--.*$", re.MULTILINE)


@dataclass(frozen=True)
class Definition:
    """One derived table: its query, what a row is, what its columns mean, and what it is made from."""

    name: str
    sql: str
    row: str
    notes: str
    comments: dict[str, str]
    needs: dict[str, list[str]]  # the decoded tables, and the columns of each that the query mentions


@cache
def definition(name: str) -> Definition:
    text = (files(__name__) / f"{name}.sql").read_text()
    head, body = re.split(r"^(?=with$|select$)", text, maxsplit=1, flags=re.MULTILINE)
    row, _, notes = "\n".join(line[3:] for line in head.splitlines()[1:]).partition("\n\n")
    last_select = body[body.rindex("\nselect\n") if "\nselect\n" in body else 0 :]
    comments = {found[1]: found[2] for found in _COLUMN.finditer(last_select)}
    sql = _COMMENT.sub("", body).strip()
    words = set(re.findall(r"\w+", sql))
    sources = re.findall(r"\b(?:from|join) (\w+)", sql)
    needs = {
        table: [column for column in schema.names if column in words]
        for table, schema in TABLES.items()
        if table in sources
    }
    return Definition(name, sql, " ".join(row.split()), " ".join(notes.split()), comments, needs)
