# SPDX-License-Identifier: Apache-2.0
"""Samples on a terminal and as lines of JSON. What came from the network never moves a cursor or begins a line."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from zenlake.choices import SampleKind

if TYPE_CHECKING:
    from pathlib import Path

    from zenlake.api.samples import Sample
    from zenlake.encoding import Encoding

__all__ = ["LeftOut", "as_json", "described", "escaped", "json_line", "one_line", "payload_text", "writing"]

LINE = 16  # bytes in a line of hexadecimal


def escaped(text: str, keep: str = "") -> str:
    """Text without what a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in keep else repr(each)[1:-1] for each in text)


def one_line(data: bytes) -> str:
    """Bytes in one line: as text where they are UTF-8, as hexadecimal where not."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data.hex()
    return escaped(text) if _mostly_text(text) else data.hex()


def _mostly_text(text: str) -> bool:
    return all(each.isprintable() or each in "\n\r\t\x1b" for each in text)


def payload_text(data: bytes, encoding: "Encoding", most: int) -> str:
    """A payload as its encoding says: JSON with its structure shown, text as it is, anything else in hexadecimal."""
    name = str(encoding).partition(";")[0]
    if name in ("application/json", "text/json"):
        try:
            return json.dumps(json.loads(data), indent=2, ensure_ascii=False)
        except ValueError:
            pass  # it says so, and is not: show what it is
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _hexadecimal(data, most)
    if name.startswith("text/") or name in ("zenoh/string", "application/json", "application/yaml", "application/xml"):
        return escaped(text, keep="\n\t")
    return escaped(text, keep="\n\t") if _mostly_text(text) else _hexadecimal(data, most)


def _hexadecimal(data: bytes, most: int) -> str:
    shown = data[:most]
    lines = []
    for at in range(0, len(shown), LINE):
        row = shown[at : at + LINE]
        letters = "".join(chr(each) if 32 <= each < 127 else "." for each in row)
        lines.append(f"{at:08x}  {row.hex(' ', 1):<{3 * LINE - 1}}  {letters}")
    if len(data) > most:
        lines.append(f"... and {len(data) - most} bytes more")
    return "\n".join(lines)


def as_json(value: Any) -> Any:
    """For `json.dumps(default=)`. Bytes are text where they are UTF-8, and {"hex": ...} where not."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"hex": value.hex()}
    return value.isoformat() if isinstance(value, datetime) else str(value)


@contextmanager
def writing(path: "Path | None", by_way_of: "Path | None" = None) -> Iterator[None]:
    """What goes wrong meanwhile names the file that somebody asked for: of a full disk the system names none."""
    try:
        yield
    except OSError as error:
        if path is not None and error.filename in (None, by_way_of and str(by_way_of)):
            error.filename = str(path)
        raise


class LeftOut:
    """What could not be read of a log, told in a line each: the rest is worth having, and yet something is wrong."""

    def __init__(self) -> None:
        self.status = 0
        """What the command returns."""

    def __call__(self, error: Exception) -> None:
        self.status = 1
        typer.echo(f"zenlake: {error}", err=True)


def json_line(value: dict[str, Any]) -> str:
    return json.dumps(value, default=as_json, ensure_ascii=False)


def described(sample: "Sample") -> dict[str, Any]:
    """A sample under the names of the columns of the table `samples`; what it does not have is left out."""
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
