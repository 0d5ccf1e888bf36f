# SPDX-License-Identifier: Apache-2.0
"""Selectors and parameters: `key/expression?name=value;other=1|2`.

Zenoh sends the parameters of a query as one text. `;` separates entries (not `&`), the first `=` separates key and value,
and `|` separates several values of a key. Nothing is escaped or trimmed. Keys that begin with `_` are reserved; `_time`
restricts a query to a time range.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import overload

from zenlake.core.keyexpr import KeyExpr
from zenlake.core.ntp64 import NS, NTP64, ntp64_from_ns
from zenlake.errors import InvalidValue

__all__ = ["Parameters", "Selector", "TimeExpr", "TimeRange"]


class Parameters:
    """Parameters of a selector: `Parameters("a=1;b=2")` or `Parameters({"a": "1"})`.

    Of two entries with the same key, the first applies. A change moves the entry to the end of the text.

    Args:
        parameters: Text of the form `key=value;key=value`, a mapping, or other parameters. Default: no parameters.

    Raises:
        TypeError: The argument has another type.
        InvalidValue: A key or value of the mapping contains a separator.
    """

    __slots__ = ("_text",)

    def __init__(self, parameters: "Parameters | Mapping[str, str] | str | None" = None) -> None:
        if isinstance(parameters, Mapping):
            self._text = _join([_check(key, value) for key, value in parameters.items()])
        elif isinstance(parameters, Parameters):
            self._text = parameters._text
        elif parameters is None or isinstance(parameters, str):
            self._text = (parameters or "").rstrip(";=|")  # trailing separators are ignored
        else:
            raise TypeError(f"invalid parameters {parameters!r}; expected a str such as a=1;b=2, or a dict")

    def is_empty(self, /) -> bool:
        """Return whether there are no parameters."""
        return not self._text

    @overload
    def get(self, /, key: str, default: str) -> str: ...
    @overload
    def get(self, /, key: str, default: str | None = None) -> str | None: ...
    def get(self, /, key: str, default: str | None = None) -> str | None:
        """Return the value of a key, or the default.

        Args:
            key: The key.
            default: Value to return if the key is missing.
        """
        return next((value for name, value in self if name == key), default)

    def values(self, /, key: str) -> list[str]:
        """Return the values of a key, separated by `|`. The list is empty if the key is missing.

        Args:
            key: The key.
        """
        value = self.get(key)
        return [] if value is None else value.split("|")

    def insert(self, /, key: str, value: str) -> str | None:
        """Set an entry, at the end.

        Args:
            key: The key.
            value: The new value.

        Returns:
            The previous value, or None.

        Raises:
            InvalidValue: The key or value contains a separator.
        """
        before = self.get(key)
        self._text = _join([*self._without({key}), _check(key, value)])
        return before

    def remove(self, /, key: str) -> str | None:
        """Remove a key.

        Args:
            key: The key.

        Returns:
            Its value, or None if the key was missing.
        """
        before = self.get(key)
        self._text = _join(self._without({key}))
        return before

    def extend(self, /, parameters: "Parameters | Mapping[str, str] | str") -> None:
        """Set several entries, at the end.

        Args:
            parameters: The entries.

        Raises:
            InvalidValue: A key or value contains a separator.
        """
        entries = list(Parameters(parameters))
        self._text = _join(self._without({key for key, _ in entries}) + entries)

    def is_ordered(self, /) -> bool:
        """Return whether the entries are sorted by key."""
        keys = [key for key, _ in self]
        return keys == sorted(keys)

    def time_range(self) -> "TimeRange | None":
        """Return the time range of `_time`, or None."""
        text = self.get("_time")
        return None if text is None else TimeRange.parse(text)

    def _without(self, keys: set[str]) -> list[tuple[str, str]]:
        return [entry for entry in self if entry[0] not in keys]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for entry in self._text.split(";"):
            if entry:
                key, _, value = entry.partition("=")
                yield key, value

    def __contains__(self, item: str) -> bool:
        return any(key == item for key, _ in self)

    def __getitem__(self, item: str) -> str | None:
        return self.get(item)

    def __bool__(self) -> bool:
        return bool(self._text)

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return self._text == str(other) if isinstance(other, (Parameters, str)) else NotImplemented


def _check(key: str, value: str) -> tuple[str, str]:
    if not (isinstance(key, str) and isinstance(value, str)):
        raise TypeError(f"invalid parameter {key!r}={value!r}; expected str for key and value")
    if not key or ";" in key or "=" in key or ";" in value:
        raise InvalidValue(
            f"invalid parameter {key!r}={value!r}; a key must not be empty or contain `;` or `=`, and a value must not "
            "contain `;`"
        )
    return key, value


def _join(entries: list[tuple[str, str]]) -> str:
    return ";".join(f"{key}={value}" if value else key for key, value in entries if key)


class Selector:
    """Key expression and parameters of a query: `Selector("a/*?x=1")` or `Selector("a/*", {"x": "1"})`.

    Args:
        arg: Text of the form `KEY` or `KEY?PARAMETERS`, or a key expression.
        parameters: The parameters. Default: those of the text.

    Attributes:
        key_expr: The key expression.
        parameters: The parameters.

    Raises:
        KeyExprError: The key expression is invalid.
    """

    __slots__ = ("_key_expr", "_parameters")

    def __init__(self, arg: KeyExpr | str, /, parameters: Parameters | Mapping[str, str] | str | None = None) -> None:
        if parameters is None and isinstance(arg, (str, KeyExpr, Selector)):
            arg, _, parameters = str(arg).partition("?")
        self.key_expr = arg
        self.parameters = parameters

    @property
    def key_expr(self) -> KeyExpr:
        return self._key_expr

    @key_expr.setter
    def key_expr(self, key_expr: KeyExpr | str) -> None:
        self._key_expr = key_expr if isinstance(key_expr, KeyExpr) else KeyExpr(key_expr)

    @property
    def parameters(self) -> Parameters:
        return self._parameters

    @parameters.setter
    def parameters(self, parameters: Parameters | Mapping[str, str] | str) -> None:
        self._parameters = Parameters(parameters)

    def __str__(self) -> str:
        return f"{self._key_expr}?{self._parameters}" if self._parameters else str(self._key_expr)

    def __repr__(self) -> str:
        return f'sel"{self}"'

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, Selector) else NotImplemented

    def __reduce__(self) -> tuple[object, ...]:
        return Selector, (self._key_expr, self._parameters)  # a copy must not share the parameters


_UNITS = {
    "u": 1_000,
    "ms": 1_000_000,
    "s": NS,
    "": NS,
    "m": 60 * NS,
    "h": 3_600 * NS,
    "d": 86_400 * NS,
    "w": 7 * 86_400 * NS,
}
_DURATION = r"([+-]?\d{1,15}(?:\.\d{1,9})?)(u|ms|s|m|h|d|w|)"


@dataclass(frozen=True, slots=True)
class TimeExpr:
    """A time, absolute (`ns` since 1970) or relative to now: `2026-01-01T00:00:00Z`, `now()`, `now(-1.5h)`."""

    ns: int
    relative: bool = False

    def __post_init__(self) -> None:
        if not self.relative:
            ntp64_from_ns(self.ns)  # validates the range of a timestamp

    @classmethod
    def parse(cls, text: str) -> "TimeExpr":
        if text.startswith("now(") and text.endswith(")"):
            offset = text[4:-1]
            return cls(_duration(offset) if offset else 0, relative=True)
        return cls(NTP64.parse_rfc3339(text).as_nanos())

    def resolve(self, now: int) -> int:
        """Return nanoseconds since 1970. `now` has the same unit."""
        return now + self.ns if self.relative else self.ns

    def __str__(self) -> str:
        if not self.relative:
            return NTP64(0, self.ns).to_string_rfc3339_lossy()
        return f"now({_seconds(self.ns)})" if self.ns else "now()"


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The value of `_time`: `[now(-1h)..now()]`. `]a..b[` excludes its ends, `[a..]` has no end, `[a;5m]` lasts 5 minutes."""

    start: TimeExpr | None
    end: TimeExpr | None
    includes_start: bool = True
    includes_end: bool = True

    @classmethod
    def parse(cls, text: str) -> "TimeRange":
        # Performance: one search, in linear time, because peers choose the text.
        opening, closing, separator = text[:1], text[-1:], re.search(r"\.\.|;", text)
        if len(text) < 3 or separator is None or opening not in "[]" or closing not in "[]":
            raise InvalidValue(
                f"invalid time range {text!r}; expected the form [now(-1h)..now()], with `[` or `]` at both ends"
            )
        start_text, end_text = text[1 : separator.start()], text[separator.end() : -1]
        start = TimeExpr.parse(start_text) if start_text else None
        if separator[0] == "..":
            end = TimeExpr.parse(end_text) if end_text else None
        elif start is None:
            raise InvalidValue(f"invalid time range {text!r}; a duration needs a start before the `;`")
        else:
            end = TimeExpr(start.ns + _duration(end_text), start.relative)
        return cls(start, end, opening == "[", closing == "]")

    def contains(self, time: int, now: int) -> bool:
        """Return whether `time` is in the range. Both are nanoseconds since 1970."""
        if self.start is not None:
            start = self.start.resolve(now)
            if time < start or (time == start and not self.includes_start):
                return False
        if self.end is not None:
            end = self.end.resolve(now)
            if time > end or (time == end and not self.includes_end):
                return False
        return True

    def __str__(self) -> str:
        start = "" if self.start is None else str(self.start)
        end = "" if self.end is None else str(self.end)
        return f"{'[' if self.includes_start else ']'}{start}..{end}{']' if self.includes_end else '['}"


def _duration(text: str) -> int:
    found = re.fullmatch(_DURATION, text, re.ASCII)
    if found is None:
        raise InvalidValue(f"invalid duration {text!r}; expected a number and u, ms, s, m, h, d or w")
    from decimal import Decimal

    return int(Decimal(found[1]) * _UNITS[found[2]])


def _seconds(ns: int) -> str:
    from decimal import Decimal

    return f"{Decimal(ns) / NS:f}s"
