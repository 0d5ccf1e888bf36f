# SPDX-License-Identifier: Apache-2.0
"""Samples as terminal text and as lines of JSON.

Safety: data from the network never moves the cursor of a terminal and never starts a new line.
"""

import json
import logging
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from zenlake.core.enums import SampleKind
from zenlake.core.secret_redaction import redact

if TYPE_CHECKING:
    from pathlib import Path

    from zenlake.api.reply import Sample
    from zenlake.core.encoding import Encoding

__all__ = [
    "INTERRUPTED",
    "SkippedParts",
    "as_json",
    "complain",
    "describe_encoding",
    "escape",
    "json_escape",
    "json_line",
    "json_text",
    "one_line",
    "payload_text",
    "open_output",
]

INTERRUPTED = 130  # exit code after Ctrl-C, as of a shell
LINE = 16  # bytes in a line of hexadecimal


def escape(text: str, keep: str = "") -> str:
    """Return `text` with escapes instead of every character that can change a terminal or the order of its text.

    These are C0 and C1 controls, line and paragraph separators, bidirectional overrides, other format characters and lone
    surrogates. Every command passes data through this function, or through `json_text`, before it prints the data.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in keep else repr(each)[1:-1] for each in text)


def json_text(value: Any, indent: int | None = None) -> str:
    r"""Return `value` as JSON. The characters that `escape` replaces are `\u` escapes: they decode to the same text.

    JSON has no NaN and no infinity: both become null.
    """
    try:
        text = json.dumps(value, default=as_json, ensure_ascii=False, allow_nan=False, indent=indent)
    except ValueError:
        text = json.dumps(_replace_nan(value), default=as_json, ensure_ascii=False, indent=indent)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else json_escape(each) for each in text)


def json_escape(character: str) -> str:
    r"""Return the `\u` escape of a character, as a surrogate pair if it needs one."""
    code = ord(character)
    return json.dumps(character)[1:-1] if code > 0xFFFF else f"\\u{code:04x}"


def _replace_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _replace_nan(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_replace_nan(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def one_line(data: bytes) -> str:
    """Return bytes as one line: text if they are UTF-8, else hexadecimal."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data.hex()
    return escape(text) if _mostly_text(text) else data.hex()


def _mostly_text(text: str) -> bool:
    return all(each.isprintable() or each in "\n\r\t\x1b" for each in text)


def payload_text(data: bytes, encoding: "Encoding", most: int) -> str:
    """Return a payload as its encoding says: indented JSON, text, or a hexdump of at most `most` bytes."""
    name = str(encoding).partition(";")[0]
    if name in ("application/json", "text/json"):
        try:
            return json_text(json.loads(data, parse_constant=_refuse, parse_float=_finite), indent=2)
        except (ValueError, RecursionError):
            pass  # invalid JSON despite its encoding, or JSON that cannot be printed: show it as text
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _hexadecimal(data, most)
    if name.startswith("text/") or name in ("zenoh/string", "application/json", "application/yaml", "application/xml"):
        return escape(text, keep="\n\t")
    return escape(text, keep="\n\t") if _mostly_text(text) else _hexadecimal(data, most)


def _refuse(constant: str) -> None:
    """Refuse NaN and Infinity, which JSON does not have."""
    raise ValueError(constant)


def _finite(digits: str) -> float:
    """Refuse numbers that are too large for a float, such as 1e999: they would be shown as another value."""
    if math.isinf(float(digits)):
        raise ValueError(digits)
    return float(digits)


def _hexadecimal(data: bytes, most: int) -> str:
    shown = data[:most]
    lines = []
    for at in range(0, len(shown), LINE):
        row = shown[at : at + LINE]
        letters = "".join(chr(each) if 32 <= each < 127 else "." for each in row)
        lines.append(f"{at:08x}  {row.hex(' ', 1):<{3 * LINE - 1}}  {letters}")
    if len(data) > most:
        lines.append(f"... and {len(data) - most} more bytes")
    return "\n".join(lines)


def as_json(value: Any) -> Any:
    """Convert a value for `json.dumps(default=)`. Bytes become text if they are UTF-8, else {"hex": ...}."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"hex": value.hex()}
    return value.isoformat() if isinstance(value, datetime) else str(value)


@contextmanager
def open_output(path: "Path | None") -> Iterator["Path | None"]:
    """Yield the path of a temporary file, which replaces the output file at the end. An error or Ctrl-C removes it.

    An existing file keeps its content until then. A device or a pipe is yielded itself. Errors of the system name the output
    file. Without a path, None is yielded.
    """
    if path is None:
        yield None
        return
    final = path.resolve()  # a symbolic link is kept
    fresh = final.with_name(f".{final.name}.{os.getpid()}") if final.is_file() or not final.exists() else final
    try:
        yield fresh
        if fresh is not final:
            fresh.replace(final)
    except OSError as error:
        if error.filename in (None, str(fresh)):
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        if fresh is not final:
            fresh.unlink(missing_ok=True)


class SkippedParts(logging.Handler):
    """A callback that prints one line for each unreadable part of a log or capture, and sets the exit code to 1.

    The end of a truncated capture is a warning of the logger `zenlake.capture`, which is handled in a `with` block.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.status = 0
        """The exit code of the command."""
        self._printed: set[str] = set()

    def __enter__(self) -> "SkippedParts":
        logging.getLogger("zenlake.capture").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("zenlake.capture").removeHandler(self)

    def __call__(self, error: Exception) -> None:
        self._print(str(error))

    def emit(self, record: logging.LogRecord) -> None:
        self._print(record.getMessage())

    def _print(self, problem: str) -> None:
        """Print a problem once, also if the recording is read several times."""
        self.status = 1
        if problem not in self._printed:
            self._printed.add(problem)
            complain(problem)


def json_line(value: dict[str, Any]) -> str:
    return json_text(value)


def complain(problem: str) -> None:
    """Print an error as one line of the standard error."""
    typer.echo(f"zenlake: {escape(redact(' '.join(problem.split())))}", err=True)


def describe_encoding(sample: "Sample") -> dict[str, Any]:
    """Return the fields of a sample under the column names of the table `samples`, without missing fields."""
    put = sample.kind is SampleKind.PUT
    found: dict[str, Any] = {"key": str(sample.key_expr), "kind": "put" if put else "del"}
    if put:
        found |= {"payload": bytes(sample.payload), "encoding": str(sample.encoding)}
    if sample.timestamp is not None:
        found["timestamp"] = sample.timestamp.get_time()
        found["timestamp_id"] = str(sample.timestamp.get_id())
    if sample.attachment is not None:
        found["attachment"] = bytes(sample.attachment)
    if sample.source_info is not None:
        source = sample.source_info.source_id
        found |= {"source_zid": str(source.zid), "source_eid": source.eid, "source_sn": sample.source_info.source_sn}
    found |= {
        "priority": int(sample.priority),
        "congestion": sample.congestion_control.name.lower(),
        "express": sample.express,
    }
    return found
