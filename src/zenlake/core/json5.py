# SPDX-License-Identifier: Apache-2.0
"""JSON5 reader: JSON with comments, unquoted keys, single quotes, trailing commas and more number formats.

Zenoh configurations use JSON5. Available libraries are slow to import or need a compiler, and the grammar is small. Plain JSON
is passed to the standard library, which is imported on first use.
"""

import re
from typing import Any

from zenlake.core.secret_redaction import mentions_secret
from zenlake.errors import ConfigError

__all__ = ["dumps", "loads"]

_DEEPEST = 100  # levels of nesting, well below Python's own limit
# Compiled on first use: `re` caches them, and most configurations need neither.
_TOKEN = r"""
      (?P<space>   (?: [\s\ufeff] | //[^\n\r\u2028\u2029]* | /\*.*?\*/ )+ )
    | (?P<mark>    [{}\[\]:,] )
    | (?P<string>  "(?:[^"\\\n\r]|\\(?:\r\n|.))*" | '(?:[^'\\\n\r]|\\(?:\r\n|.))*' )
    | (?P<number>  [+-]?(?: 0[xX][0-9a-fA-F]+ | (?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)? | Infinity | NaN )
                   (?![\w$.]) )
    | (?P<name>    (?:[^\W\d]|[$_])[\w$\u200c\u200d]* )
    """
_ESCAPE = r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|.))"
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_LINE_ENDS = {"\n", "\r", "\r\n", "\u2028", "\u2029"}
_WORDS = {"true": True, "false": False, "null": None}
_END = ("end", "", -1)


def loads(text: str, quote: bool = True) -> Any:
    """Parse JSON5 text.

    Args:
        text: The text.
        quote: Whether an error may quote the text. Text that may contain a secret is never quoted.

    Raises:
        ConfigError: The text is not JSON5. The message has line and column.
    """
    from json import loads as read

    try:
        return read(text)
    except ValueError:
        return _Json5Reader(text, quote and not mentions_secret(text)).document()
    except RecursionError:
        raise ConfigError("nested too deeply") from None


def dumps(value: Any, **options: Any) -> str:
    """Format as JSON."""
    from json import dumps as written

    return written(value, **options)


class _Json5Reader:
    def __init__(self, text: str, quote: bool) -> None:
        self._text = text
        self._quote = quote
        self._match = re.compile(_TOKEN, re.VERBOSE | re.DOTALL).match
        self._at = 0
        self._depth = 0
        self._next = self._token()

    def document(self) -> Any:
        value = self._value()
        if self._next[0] != "end":
            raise self._error("the end of the text")
        return value

    def _token(self) -> tuple[str, str, int]:
        while self._at < len(self._text):
            found = self._match(self._text, self._at)
            if found is None or found.lastgroup is None:
                raise self._error("a value, a key or punctuation", self._at)
            start, self._at = self._at, found.end()
            if found.lastgroup != "space":
                return found.lastgroup, found[0], start
        return _END

    def _take(self) -> tuple[str, str, int]:
        token, self._next = self._next, self._token()
        return token

    def _error(self, expected: str, at: int | None = None) -> ConfigError:
        at = self._next[2] if at is None else at
        if at < 0:
            return ConfigError(f"the JSON5 text ends too early; expected {expected}. Close all brackets and quotes")
        line = self._text.count("\n", 0, at) + 1
        column = at - self._text.rfind("\n", 0, at)
        where = f"line {line}, column {column} of the JSON5 text"
        if not self._quote:
            return ConfigError(f"{where}: expected {expected}. Strings need quotes")
        rest = re.split(r"\s", self._text[at : at + 20], maxsplit=1)[0]
        hint = f'. Strings need quotes: "{rest}"' if rest[:1].isalpha() else ""
        return ConfigError(f"{where}: unexpected `{rest}`; expected {expected}{hint}")

    def _value(self) -> Any:
        kind, text, _ = self._next
        if kind == "string":
            self._take()
            return _unquote(text)
        if kind == "number":
            self._take()
            return _number(text)
        if kind == "name" and text in _WORDS:
            self._take()
            return _WORDS[text]
        if text not in ("{", "["):
            raise self._error("a value")
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ConfigError(f"the JSON5 text has more than {_DEEPEST} nested levels")
        value = self._object() if text == "{" else self._array()
        self._depth -= 1
        return value

    def _object(self) -> dict[str, Any]:
        self._take()
        entries: dict[str, Any] = {}
        while self._next[1] != "}":
            kind, text, _ = self._next
            if kind not in ("string", "name"):
                raise self._error("a key or `}`")
            self._take()
            self._mark(":")
            entries[_unquote(text) if kind == "string" else text] = self._value()
            if self._next[1] != "}":
                self._mark(",")
        self._take()
        return entries

    def _array(self) -> list[Any]:
        self._take()
        items = []
        while self._next[1] != "]":
            items.append(self._value())
            if self._next[1] != "]":
                self._mark(",")
        self._take()
        return items

    def _mark(self, mark: str) -> None:
        if self._next[:2] != ("mark", mark):
            raise self._error(f"`{mark}`")
        self._take()


def _unquote(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        if number := found[1] or found[2]:
            return chr(int(number, 16))
        return "" if found[3] in _LINE_ENDS else _ESCAPED.get(found[3], found[3])

    unescaped = re.sub(_ESCAPE, character, text[1:-1], flags=re.DOTALL)
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # joins escaped surrogate pairs


def _number(text: str) -> int | float:
    digits = text.lstrip("+-")
    sign = -1 if text[0] == "-" else 1
    if digits[:2] in ("0x", "0X"):
        return sign * int(digits, 16)
    if digits.isdigit():
        return sign * int(digits)
    return sign * float(digits)
