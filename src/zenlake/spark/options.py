# SPDX-License-Identifier: Apache-2.0
"""Typed access to the options of Zenlake's Spark sources.

Each error is one line with the source, the option and the valid values. Sources validate all options in
`DataSource.__init__`, the only method that Spark calls on every path, so that errors appear at `load`. Spark passes
names in lower case. Messages show the documented spelling.
"""

import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import NoReturn

from zenlake.core.secret_redaction import redact

# Spark's form of load([...]), and internal options of zenlake.spark.
HIDDEN = ("paths", "needs", "pace", "lake", "tables", "already")


class Options:
    """The options of one source. `known` maps each valid name to its meaning."""

    def __init__(self, source: str, options: Mapping[str, str], known: Mapping[str, str]) -> None:
        self.source = source
        names = {name.lower(): name for name in known}
        for name in options:
            if name.lower() not in names:
                near = get_close_matches(name.lower(), names, 1)
                hint = f"did you mean {names[near[0]]!r}? " if near else ""
                valid = ", ".join(each for each in known if each not in HIDDEN)
                self.refuse(f"unknown option {name!r}; {hint}expected one of {valid}")
        self.values = {name.lower(): value for name, value in options.items()}

    def refuse(self, why: str) -> NoReturn:
        raise ValueError(redact(f"{self.source}: {why}"))

    def refuse_option(self, name: str, why: object) -> NoReturn:
        self.refuse(f"option {name!r}: {why}")

    def __contains__(self, name: str) -> bool:
        return name.lower() in self.values

    def text(self, name: str) -> str | None:
        return self.values.get(name.lower())

    def choice(self, name: str, among: Collection[str], default: str) -> str:
        value = self.values.get(name.lower(), default)
        if value not in among:
            near = get_close_matches(value, among, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            self.refuse_option(name, f"invalid value {value!r}; {hint}expected one of {', '.join(among)}")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.values.get(name.lower())
        if value is None:
            return default
        if value.strip().lower() not in ("true", "false"):
            self.refuse_option(name, f"invalid value {value!r}; expected true or false")
        return value.strip().lower() == "true"

    def number(self, name: str, least: int = 0) -> int | None:
        value = self.values.get(name.lower())
        if value is None:
            return None
        if not (value.strip().isascii() and value.strip().isdigit() and int(value) >= least):
            self.refuse_option(name, f"invalid value {value!r}; expected an integer, {least} or more")
        return int(value)

    def above_zero(self, name: str, unit: str) -> float | None:
        """Return a number, possibly with a fraction."""
        value = self.values.get(name.lower())
        if value is None:
            return None
        try:
            found = float(value)
        except ValueError:
            found = 0.0
        if not 0 < found < float("inf"):
            self.refuse_option(name, f"invalid value {value!r}; expected a number of {unit} above 0")
        return found

    def names(self, name: str) -> list[str] | None:
        """Return a list of distinct items, separated by commas."""
        value = self.values.get(name.lower())
        if value is None:
            return None
        found = [each.strip() for each in value.split(",")]
        twice = [each for each in found if found.count(each) > 1]
        if twice:
            self.refuse_option(name, f"{value!r} has {twice[0]!r} twice; name each item once")
        return found

    def instant(self, name: str) -> datetime | None:
        """Return a time: milliseconds since 1970, as in Spark's Kafka source, or ISO 8601 with UTC as default."""
        value = self.values.get(name.lower())
        if value is None:
            return None
        try:
            if value.strip().lstrip("-").isdigit():
                return datetime.fromtimestamp(int(value) / 1000, UTC)
            time = datetime.fromisoformat(value.strip())
        except (ValueError, OverflowError, OSError):
            self.refuse_option(
                name,
                f"invalid value {value!r}; expected milliseconds since 1970, or a time such as 2026-01-31T12:00:00Z",
            )
        return time if time.tzinfo is not None else time.replace(tzinfo=UTC)

    def span(self, first: str, last: str) -> tuple[datetime | None, datetime | None]:
        since, until = self.instant(first), self.instant(last)
        if since is not None and until is not None and until <= since:
            self.refuse(f"option {last!r} is not after {first!r}; expected an end after the start")
        return since, until

    def key_expr(self, name: str) -> str | None:
        from zenlake.core.keyexpr import KeyExpr
        from zenlake.errors import InvalidValue

        value = self.values.get(name.lower())
        if value is not None:
            try:
                KeyExpr(value)
            except InvalidValue as error:
                self.refuse_option(name, error)
        return value

    def paths(self) -> list[str]:
        """Return the paths of load(), one or several."""
        if "paths" in self.values:
            return [str(each) for each in json.loads(self.values["paths"])]
        return [self.values["path"]] if self.values.get("path") else []
