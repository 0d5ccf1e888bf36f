# SPDX-License-Identifier: Apache-2.0
"""Explanation of a batch, byte by byte: the output of `zenlake explain`.

A tracing cursor records the field of each byte. This module names the rows as in the diagrams, describes each value, and ends
at the byte where decoding stopped. It has no session state: a key id stays a number, and a fragment stays a fragment.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from zenlake.core.encoding import Encoding
from zenlake.core.enums import ConsolidationMode, QueryTarget, WhatAmI, WhatAmIMatcher
from zenlake.core.identifiers import ZenohId
from zenlake.core.ntp64 import NTP64
from zenlake.errors import CloseReason, DecodeError, InvalidValue
from zenlake.wire import auth_multilink, linkstate, timestamp_stack
from zenlake.wire.batch_reader import NETWORK_MESSAGES, TRANSPORT_MESSAGES, BatchReader
from zenlake.wire.cursor import Cursor
from zenlake.wire.declare import DeclareEntity, DeclareFinal, DeclareKeyExpr, UndeclareEntity, UndeclareKeyExpr
from zenlake.wire.framing import Splitter, decompress
from zenlake.wire.qos_link import QosLink
from zenlake.wire.scouting import Hello, Scout, read_scouting
from zenlake.wire.zenoh_body import Del, Err, Put, Query, Reply

__all__ = ["Explanation", "Row", "explain"]

BYTES_A_LINE = 8
LINES_A_ROW = 4
TEXT_SHOWN = 48
END = -2

Step = tuple[str, str, str, int, int]  # a record of a tracing cursor: message, field, kind, start, stop


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a diagram: offset, bytes, nesting depth, name and description of the value."""

    at: int
    data: bytes
    depth: int
    name: str
    words: str
    kind: str = "field"  # or "message", "note", "error"

    def lines(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield offset, bytes in hex, name and description for each line of the row. Long values are shortened."""
        pieces = [self.data[i : i + BYTES_A_LINE] for i in range(0, len(self.data), BYTES_A_LINE)] or [b""]
        yield f"{self.at:04x}", pieces[0].hex(" "), "  " * self.depth + self.name, self.words
        for i, piece in enumerate(pieces[1:LINES_A_ROW], 1):
            yield f"{self.at + i * BYTES_A_LINE:04x}", piece.hex(" "), "", ""
        left = len(self.data) - LINES_A_ROW * BYTES_A_LINE
        if left > 0:
            yield "", f"... {left} more", "", ""


@dataclass(slots=True)
class Explanation:
    """The rows of an explanation, and the error at its end, if any."""

    rows: list[Row] = field(default_factory=list)
    error: DecodeError | None = None

    def __str__(self) -> str:
        lines = (line for row in self.rows for line in row.lines())
        return "\n".join(f"{at:>6}  {data:<23}  {name:<26}  {words}".rstrip() for at, data, name, words in lines)


def explain(
    data: bytes,
    *,
    stream: bool = False,
    scouting: bool = False,
    low_latency: bool = False,
    compressed: bool = False,
) -> Explanation:
    """Explain one batch, or with `stream` all batches of a stream, each after its length."""
    explanation = Explanation()
    book = _Book(explanation.rows, data)
    try:
        if scouting:
            book.explain_scouting()
        elif stream:
            book.stream(low_latency, compressed)
        else:
            book.batch(0, len(data), low_latency, compressed)
    except DecodeError as error:
        explanation.error = error
        book.add_incomplete_field(error)
        bytes_there = book.data[error.at : error.at + BYTES_A_LINE]
        explanation.rows.append(Row(error.at, bytes_there, 0, "error", f"{error.field}: {error.why}", "error"))
    return explanation


class _Book:
    """Writer of the rows for one buffer: framing, messages, and the content of their fields."""

    def __init__(self, rows: list[Row], data: bytes) -> None:
        self.rows = rows
        self.data = data
        self.elsewhere = 0  # number of rows that belong to another buffer: a compressed block, or its container

    def note(self, start: int, stop: int, name: str, words: str) -> None:
        self.rows.append(Row(start, self.data[start:stop], 0, name, words, "note"))

    def add_incomplete_field(self, error: DecodeError) -> None:
        """Add a row for the bytes of a field that could not be decoded completely."""
        if len(self.rows) > self.elsewhere:
            at = self.rows[-1].at + len(self.rows[-1].data)
            if at < error.at:
                name = _short(error.field.partition(".")[2])
                self.rows.append(Row(at, self.data[at : error.at], 1, name, "incomplete field"))

    # Framing

    def stream(self, low_latency: bool, compressed: bool) -> None:
        splitter = Splitter(low_latency=low_latency)
        splitter.feed(self.data)
        width = 4 if low_latency else 2
        at = 0
        while (batch := next(splitter, None)) is not None:
            self.note(at, at + width, "length", _count(len(batch)))
            self.batch(at + width, splitter.at, low_latency, compressed)
            at = splitter.at
        if 0 < len(splitter) < width:
            raise DecodeError("stream.length", at, f"{width} bytes needed, {len(splitter)} left")
        if len(splitter):
            size = int.from_bytes(self.data[at : at + width], "little")
            raise DecodeError("stream.length", at, f"{size} bytes declared, {len(splitter) - width} left")

    def batch(self, at: int, end: int, low_latency: bool, compressed: bool) -> None:
        if compressed:
            try:
                plain = decompress(self.data[at:end])
            except DecodeError as error:
                raise DecodeError(error.field, at + error.at, error.why) from None
            if self.data[at]:
                words = f"LZ4 block of {len(plain)} bytes; the rows below count from its first"
                self.note(at, at + 1, "compression", words)
                whole, self.data = self.data, plain
                self.elsewhere = len(self.rows)
                self.messages(0, len(plain), low_latency)
                self.data = whole  # not after an error: its offset refers to the block
                self.elsewhere = len(self.rows)
                return
            self.note(at, at + 1, "compression", "none")
            at += 1
        self.messages(at, end, low_latency)

    def messages(self, at: int, end: int, low_latency: bool) -> None:
        if at == end:
            raise DecodeError("batch.header", at, "1 byte needed, 0 left")
        reader = BatchReader()
        reader.low_latency = low_latency
        reader.bind(self.data)
        reader.begin(at, end)
        steps = reader.cursor.trace().steps
        error: DecodeError | None = None
        while error is None:
            steps.clear()
            try:
                if reader.next() == END:
                    return
            except DecodeError as caught:
                error = caught
            carried = reader.in_frame and self.data[reader.start] & 0x1F >= NETWORK_MESSAGES[0].ID
            fault = _Message(self, MESSAGES).write_rows(steps, 1 if carried else 0)
            error = error or fault
        raise error

    def explain_scouting(self) -> None:
        c = Cursor(self.data, 0, None, "scouting").trace()
        _explain_rows(read_scouting, c, _Message(self, SCOUTING), 0)


def _explain_rows(read: Callable[[Cursor], object], c: Cursor, message: "_Message", depth: int) -> None:
    """Decode and write the rows of the decoded fields. An error is raised after the rows before it are written."""
    error: DecodeError | None = None
    try:
        read(c)
    except DecodeError as caught:
        error = caught
    fault = message.write_rows(c.steps, depth)
    fault = error or fault
    if fault:
        raise fault


class _Message:
    """Writer of the rows of one message and of the messages in it."""

    def __init__(self, book: _Book, kinds: dict[int, tuple[str, Any]]) -> None:
        self.book = book
        self.kinds = kinds
        self.name = ""  # name of the current message
        self.exts: dict[int, str] = {}  # its known extensions
        self.values: dict[str, Any] = {}  # its earlier fields, on which the meaning of later ones may depend

    def write_rows(self, steps: list[Step], depth: int) -> DecodeError | None:
        """Write a row for each step. Return an error for the first invalid value, or None."""
        inside = -1  # end of the current extension
        for i, (message, name, kind, start, stop) in enumerate(steps):
            data = self.book.data[start:stop]
            if kind == "u8" and name in ("header", "body"):
                depth += name == "body"
                self.begin(BODIES[message] if name == "body" else self.kinds, start, depth)
            elif kind == "ext":
                extension = self.exts.get(data[0] & 0x7F, "unknown extension")
                self.book.rows.append(Row(start, data, depth + 1, extension, _describe_extension(data[0])))
                inside = stop + 1 if data[0] & 0x60 else -1
            elif kind == "length":
                size = _number(data, kind)
                if steps[i - 1][2] == "ext":
                    inside = stop + size
                self.book.rows.append(Row(start, data, depth + 1 + (start < inside), _short(name), _count(size)))
            elif data:
                value = data if kind == "bytes" else _number(data, kind)
                fault = self.field(name, value, start, stop, depth + 1 + (start < inside))
                if fault:
                    return fault
        return None

    def begin(self, kinds: dict[int, tuple[str, Any]], at: int, depth: int) -> None:
        header = self.book.data[at]
        self.values = {"header": header}
        if header & 0x1F not in kinds:  # the next row is the error
            return
        self.name, known = kinds[header & 0x1F]
        self.exts = known.EXTS if self.name not in ("D_SUBSCRIBER", "D_TOKEN") else {}
        self.book.rows.append(
            Row(at, bytes((header,)), depth, self.name, _describe_flags(self.name, header), "message")
        )

    def field(self, name: str, value: Any, start: int, stop: int, depth: int) -> DecodeError | None:
        short = _short(name)
        field_reader = self.field_reader(short)
        if field_reader is not None:
            inner = _Message(self.book, {})
            inner.name, read, inner.exts = field_reader
            _explain_rows(read, Cursor(self.book.data, start, stop, inner.name).trace(), inner, depth - 1)
            return None
        say = WORDS.get(f"{self.name}.{short}") or WORDS.get(short) or _plain
        fault = None
        try:
            words = say(value, self.values)
        except InvalidValue as why:
            words = str(why)
            fault = DecodeError(f"{self.name}.{name}", start, words)
        self.values[short] = value
        self.book.rows.append(Row(start, self.book.data[start:stop], depth, short, words))
        return fault

    def field_reader(self, name: str) -> tuple[str, Callable[[Cursor], object], dict[int, str]] | None:
        """Return the reader of a structured field, or None for plain bytes."""
        if name == "body" and self.name == "OAM" and self.values.get("id") == linkstate.OAM_ID:
            return "LINKSTATE", linkstate.read, {}
        if name == "auth":
            return "AUTH", auth_multilink.read, auth_multilink.EXTS
        if name == "multilink":
            return "PUBKEY", auth_multilink.read_offer if self.name == "INIT" else auth_multilink.read_proof, {}
        if name == "timestamp_stack":
            return "TIMESTAMP_STACK", timestamp_stack.read, {}
        return None


# Descriptions of header bytes

MESSAGES = {kind.ID: (kind.NAME, kind) for kind in (*TRANSPORT_MESSAGES, *NETWORK_MESSAGES)}
SCOUTING = {kind.ID: (kind.NAME, kind) for kind in (Scout, Hello)}
BODIES: dict[str, dict[int, tuple[str, Any]]] = {
    "PUSH": {0x01: ("PUT", Put), 0x02: ("DEL", Del)},
    "REQUEST": {0x03: ("QUERY", Query)},
    "RESPONSE": {0x04: ("REPLY", Reply), 0x05: ("ERR", Err)},
    "REPLY": {0x01: ("PUT", Put), 0x02: ("DEL", Del)},
    "DECLARE": {
        0x00: ("D_KEYEXPR", DeclareKeyExpr),
        0x01: ("U_KEYEXPR", UndeclareKeyExpr),
        0x02: ("D_SUBSCRIBER", DeclareEntity),
        0x03: ("U_SUBSCRIBER", UndeclareEntity),
        0x04: ("D_QUERYABLE", DeclareEntity),
        0x05: ("U_QUERYABLE", UndeclareEntity),
        0x06: ("D_TOKEN", DeclareEntity),
        0x07: ("U_TOKEN", UndeclareEntity),
        0x1A: ("D_FINAL", DeclareFinal),
    },
}


def _describe_flags(name: str, header: int) -> str:
    """Describe the header bits that do not announce a field."""
    five, six = header & 0x20 != 0, header & 0x40 != 0
    if name in ("INIT", "OPEN"):
        return name.capitalize() + ("Ack" if five else "Syn")
    if name == "CLOSE":
        return "the whole session" if five else "this link"
    if name in ("FRAME", "FRAGMENT"):
        more = "" if name == "FRAME" else ", not the last" if six else ", last"
        return ("reliable" if five else "best effort") + more
    if name == "INTEREST":
        return ("end", "current", "future", "current and future")[header >> 5 & 3]
    return ""


def _describe_extension(header: int) -> str:
    payload = ("nothing", "a number", "bytes", "reserved")[header >> 5 & 3]
    return f"extension {header & 0x0F:#x}, {payload}, {'mandatory' if header & 0x10 else 'optional'}"


# Descriptions of values

PRIORITIES = (
    "Control", "RealTime", "InteractiveHigh", "InteractiveLow", "DataHigh", "Data", "DataLow", "Background",
)  # fmt: skip
INTEREST = ("keys", "subscribers", "queryables", "tokens", "restricted", "suffix", "sender's id", "aggregate")
LINKSTATE = ("zid", "whatami", "locators", "weights", "gateway")
POINTS = ("send", "route", "receive")


def _number(data: bytes, kind: str) -> int:
    if kind in ("u8", "u16"):
        return int.from_bytes(data, "little")
    return int(Cursor(data).z64("number"))


def _short(name: str) -> str:
    return name.removeprefix("exts.")


def _count(size: int, _: dict[str, Any] | None = None) -> str:
    return f"{size} byte{'s' * (size != 1)}"


def _plain(value: Any, _: dict[str, Any]) -> str:
    return str(value) if isinstance(value, int) else _bytes(value)


def _bytes(data: bytes) -> str:
    """Return shortened text if the bytes are text, else nothing. `repr` escapes control characters for the terminal."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return ""
    if not text.isprintable():
        return ""
    return repr(text) if len(text) <= TEXT_SHOWN else f"{text[:TEXT_SHOWN]!r}..."


def _text(data: bytes, _: dict[str, Any]) -> str:
    return repr(data.decode(errors="replace"))


def _bits(value: int, names: tuple[str, ...]) -> str:
    flags = [name for i, name in enumerate(names) if value >> i & 1]
    return ", ".join([*flags, *([f"unknown {value >> len(names):#x}"] if value >> len(names) else [])]) or "none"


def _describe_qos(value: int, _: dict[str, Any]) -> str:
    congestion = "Block" if value & 0x08 else "BlockFirst" if value & 0x20 else "Drop"
    return f"{PRIORITIES[value & 7]}, {congestion}{', express' if value & 0x10 else ''}"


def _describe_scope(value: int, values: dict[str, Any]) -> str:
    if value == 0:
        return "no prefix"
    whose = values.get("options", values["header"])  # INTEREST has the flag in its options, at the same bit
    return f"id {value} of the {'sender' if whose & 0x40 else 'receiver'}"


def _describe_encoding(value: int, _: dict[str, Any]) -> str:
    name = "custom encoding" if value >> 1 == 0xFFFF else str(Encoding.from_wire(value >> 1))
    return f"{name}{', with a schema' if value & 1 else ''}"


def _describe_packed_role(value: int, _: dict[str, Any]) -> str:
    return f"{WhatAmI.from_wire(value & 3)}, zid of {_count(1 + (value >> 4))}"


def _describe_what(value: int, _: dict[str, Any]) -> str:
    zid = f", zid of {_count(1 + (value >> 4))}" if value & 0x08 else ""
    return f"{WhatAmIMatcher.from_wire(value & 7) if value & 7 else 'no role'}{zid}"


def _describe_resolution(value: int, _: dict[str, Any]) -> str:
    return f"sequence numbers {8 << (value & 3)} bit, request ids {8 << (value >> 2 & 3)} bit"


def _describe_lane(value: int, values: dict[str, Any]) -> str:
    lane = values["lane"] = values.get("lane", -1) + 1
    return f"next sequence number {value} in {PRIORITIES[lane >> 1]}, {'best effort' if lane & 1 else 'reliable'}"


def _describe_reason(value: int, _: dict[str, Any]) -> str:
    return CloseReason(value).name if value in list(CloseReason) else f"unknown reason {value}"


def _describe_consolidation(value: int, _: dict[str, Any]) -> str:
    return ConsolidationMode(value).name if value <= 3 else f"unknown value {value}, treated as AUTO"


def _describe_info(value: int, _: dict[str, Any]) -> str:
    return f"{'complete' if value & 1 else 'incomplete'}, distance {value >> 8 & 0xFFFF}"


def _describe_point(value: int, _: dict[str, Any]) -> str:
    return _bits(value & 0x7F, POINTS) + (", in a custom format" if value & 0x80 else "")


def _describe_fragment(value: bytes, values: dict[str, Any]) -> str:
    return f"{len(value)} bytes of a fragmented network message"


WORDS: dict[str, Callable[[Any, dict[str, Any]], str]] = {
    "key_scope": _describe_scope,
    "key_suffix": _text,
    "key.flags": lambda v, _: _bits(v, ("suffix", "sender's id")),
    "key.suffix": _text,
    "parameters": _text,
    "locators": lambda v, _: f"{v} of them" if isinstance(v, int) else _text(v, _),
    "region": _text,
    "qos": _describe_qos,
    "priority": lambda v, _: PRIORITIES[v] if v < 8 else str(v),
    "timestamp.time": lambda v, _: NTP64.from_wire(v).to_string_rfc3339_lossy(),
    "timestamp.id": lambda v, _: str(ZenohId.from_wire(v)),
    "timestamp.id_len": _count,
    "encoding.id": _describe_encoding,
    "body.encoding": _describe_encoding,
    "zid": lambda v, _: str(ZenohId.from_wire(v)),
    "entity.zid": lambda v, _: str(ZenohId.from_wire(v)),
    "zid_len": _count,
    "entity.zid_len": lambda v, _: _count(1 + (v >> 4)),
    "whatami": _describe_packed_role,
    "LINKSTATE.whatami": lambda v, _: str(WhatAmI(v)),
    "LINKSTATE.options": lambda v, _: _bits(v, LINKSTATE),
    "LINKSTATE.count": lambda v, _: f"{v} nodes",
    "what": _describe_what,
    "resolution": _describe_resolution,
    "batch_size": _count,
    "lanes.sn": _describe_lane,
    "OPEN.lease": lambda v, m: f"{v} {'s' if m['header'] & 0x40 else 'ms'}",
    "JOIN.lease": lambda v, m: f"{v} {'s' if m['header'] & 0x20 else 'ms'}",
    "reason": _describe_reason,
    "options": lambda v, _: _bits(v, INTEREST),
    "consolidation": _describe_consolidation,
    "target": lambda v, _: QueryTarget(v).name if v <= 2 else str(v),
    "timeout": lambda v, _: f"{v} ms",
    "info": _describe_info,
    "qos_link": lambda v, _: str(QosLink.from_wire(v)),
    "remote_bound": lambda v, _: ("north", "south")[v] if v < 2 else str(v),
    "payload.slices": lambda v, _: f"{v} slices",
    "exts.body.slices": lambda v, _: f"{v} slices",
    "exts.body.kind": lambda v, _: "shared memory" if v == 1 else "raw" if v == 0 else str(v),
    "payload.kind": lambda v, _: "shared memory" if v == 1 else "raw" if v == 0 else str(v),
    "FRAGMENT.payload": _describe_fragment,
    "points": lambda v, _: _bits(v, POINTS),
    "point": _describe_point,
    "data.time": lambda v, _: NTP64.from_wire(v).to_string_rfc3339_lossy(),
    "data.id": lambda v, _: str(ZenohId.from_wire(v)),
    "data.id_len": _count,
}
