# SPDX-License-Identifier: Apache-2.0
"""Filters `downsampling`, `low_pass_filter` and `qos/network`: messages that a connection drops or changes.

The sections have the names and meaning of 1.10.2. Downsampling passes one message per `1 / freq` seconds, for each rule,
connection and direction. The first rule whose key expression intersects the key of the message applies. A low-pass filter
drops messages larger (payload and attachment) than the smallest limit of the rules whose key expressions include the key.
`qos/network` overwrites QoS for all later receivers of the message. A dropped query completes immediately with no replies.

A connection with such rules has an `IncomingInterceptor` before its dispatcher and an `OutgoingInterceptor` at its transmit handle,
and no fast paths. A connection without rules has no interceptor and no cost.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zenlake.core.keyexpr import includes, intersects
from zenlake.errors import ConfigError
from zenlake.network.access_control import EGRESS, INGRESS, Subject
from zenlake.network.face import Face
from zenlake.network.node import Node, copy_message
from zenlake.transport.rx import RETRY, Sink
from zenlake.wire import message_ids
from zenlake.wire.cursor import Cursor
from zenlake.wire.network import Push, Request, Response, ResponseFinal

__all__ = ["InterceptorChain", "Interceptors", "OutgoingInterceptor", "IncomingInterceptor", "MessageView", "Sending"]

DATA: dict[int, Any] = {message_ids.PUSH: Push, message_ids.REQUEST: Request, message_ids.RESPONSE: Response}
BLOCK, EXPRESS, BLOCK_FIRST = message_ids.QOS_BLOCK, message_ids.QOS_EXPRESS, message_ids.QOS_BLOCK_FIRST
CONGESTION = {"drop": 0, "block": BLOCK, "blockfirst": BLOCK_FIRST, "block_first": BLOCK_FIRST}
PRIORITY = {
    "real_time": 1, "interactive_high": 2, "interactive_low": 3, "data_high": 4, "data": 5, "data_low": 6, "background": 7,
}  # fmt: skip
Sending = tuple[bytes, int, bool, int, bool]
"""Message, priority, reliable, congestion control, express."""


@dataclass(frozen=True, slots=True)
class MessageView:
    """Fields of a message that rules inspect."""

    message: str
    """put, delete, query or reply."""
    key: bytes
    payload: int
    attachment: int
    qos: int
    reliable: bool


class Downsampler:
    """One item of `downsampling`, for one connection and direction."""

    def __init__(self, item: Mapping[str, Any], now: Callable[[], float]) -> None:
        self._messages = item["messages"]
        self._now = now
        self._rules = [(rule["key_expr"].encode(), rule["freq"]) for rule in item["rules"]]
        self._next: list[float | None] = [None] * len(self._rules)

    def passes(self, seen: MessageView) -> bool:
        if seen.message not in self._messages:
            return True
        for number, (key, frequency) in enumerate(self._rules):
            if intersects(key, seen.key):
                return self._is_due(number, frequency)
        return True

    def _is_due(self, number: int, frequency: float) -> bool:
        if not frequency:
            return False
        now, due = self._now(), self._next[number]
        if due is not None and now < due:
            return False
        self._next[number] = now + 1 / frequency
        return True


class LowPassRule:
    """One item of `low_pass_filter`."""

    def __init__(self, item: Mapping[str, Any]) -> None:
        self._messages = item["messages"]
        self._keys = [key.encode() for key in item["key_exprs"]]
        self._most = item["size_limit"]

    def passes(self, seen: MessageView) -> bool:
        small = seen.payload + seen.attachment <= self._most
        return small or seen.message not in self._messages or not any(includes(key, seen.key) for key in self._keys)


class QosOverwriteRule:
    """One item of `qos/network`."""

    def __init__(self, item: Mapping[str, Any]) -> None:
        self._messages = item["messages"]
        self._keys = None if item.get("key_exprs") is None else [key.encode() for key in item["key_exprs"]]
        self._only = _quality(item.get("qos") or {}, ("congestion_control", "priority", "express", "reliability"))
        self._overwrite = _quality(item["overwrite"], ("congestion_control", "priority", "express"), True)
        self._sizes = _range(item.get("payload_size"))

    def of(self, seen: MessageView) -> int:
        """Return the QoS of a message after the rule."""
        qos = seen.qos
        if not self._is_about(seen):
            return qos
        change = self._overwrite
        if "priority" in change:
            wish = change["priority"]
            # A number is added to the priority; 0 is reserved for messages of the protocol.
            priority = min(max((qos & 7) + wish, 1), 7) if isinstance(wish, int) else PRIORITY[wish]
            qos = qos & ~7 | priority
        if "congestion_control" in change:
            qos = qos & ~(BLOCK | BLOCK_FIRST) | CONGESTION[change["congestion_control"]]
        if "express" in change:
            qos = qos & ~EXPRESS | (EXPRESS if change["express"] else 0)
        return qos

    def _is_about(self, seen: MessageView) -> bool:
        is_quality: dict[str, Callable[[Any], bool]] = {
            "priority": lambda name: seen.qos & 7 == PRIORITY[name],
            "congestion_control": lambda name: seen.qos & (BLOCK | BLOCK_FIRST) == CONGESTION[name],
            "express": lambda wanted: (seen.qos & EXPRESS != 0) == wanted,
            "reliability": lambda name: seen.reliable == (name == "reliable"),
        }
        return (
            seen.message in self._messages
            and seen.message != "reply"  # as 1.10.2: a reply has the QoS of its query
            and (self._keys is None or any(includes(key, seen.key) for key in self._keys))
            and all(is_quality[name](value) for name, value in self._only.items())
            and self._sizes[0] <= seen.payload
            and (self._sizes[1] is None or seen.payload <= self._sizes[1])
        )


class InterceptorChain:
    """All rules of one connection in one direction."""

    def __init__(
        self, droppers: Sequence[tuple[str, Downsampler | LowPassRule]], qualities: Sequence[QosOverwriteRule]
    ) -> None:
        self._droppers = droppers
        self._qualities = qualities

    def refuses(self, seen: MessageView) -> str | None:
        """Return the section that drops a message, or None if it passes."""
        return next((section for section, dropper in self._droppers if not dropper.passes(seen)), None)

    def quality(self, seen: MessageView) -> int:
        for each in self._qualities:
            seen = MessageView(seen.message, seen.key, seen.payload, seen.attachment, each.of(seen), seen.reliable)
        return seen.qos


class Interceptors:
    """The three parsed sections."""

    def __init__(
        self, now: Callable[[], float], downsampling: Sequence[Any] = (), low_pass: Sequence[Any] = (),
        quality: Sequence[Any] = (),
    ) -> None:  # fmt: skip
        self._sections = {"downsampling": downsampling, "low_pass_filter": low_pass, "qos/network": quality}
        self._now = now
        for name, items in self._sections.items():
            known = [item["id"] for item in items if item.get("id") is not None]
            if len(known) != len(set(known)):
                raise ConfigError(f"{name}: duplicate ids among {', '.join(sorted(known))}; each id must be unique")
        for item in quality:
            QosOverwriteRule(item)  # reports invalid values early

    def __bool__(self) -> bool:
        return any(self._sections.values())

    def of(self, who: Subject, flow: str) -> InterceptorChain | None:
        """Return the filter of a neighbour in one direction, or None if no rule applies."""
        droppers: list[tuple[str, Downsampler | LowPassRule]] = []
        droppers += [
            ("downsampling", Downsampler(item, self._now)) for item in self._select_rules("downsampling", who, flow)
        ]
        droppers += [
            ("low_pass_filter", LowPassRule(item)) for item in self._select_rules("low_pass_filter", who, flow)
        ]
        qualities = [QosOverwriteRule(item) for item in self._select_rules("qos/network", who, flow)]
        return InterceptorChain(droppers, qualities) if droppers or qualities else None

    def _select_rules(self, section: str, who: Subject, flow: str) -> list[Any]:
        properties = (("zids", [who.zid]), ("link_protocols", [who.protocol]), ("interfaces", who.interfaces))
        return [
            item for item in self._sections[section]
            if flow in (item.get("flows") or (INGRESS, EGRESS))
            and all(not item.get(name) or any(value in item[name] for value in values) for name, values in properties)
        ]  # fmt: skip


def _quality(given: Mapping[str, Any], names: Sequence[str], moves: bool = False) -> dict[str, Any]:
    """Return the given QoS settings. Raise ConfigError for unknown names and values."""
    for name, value in given.items():
        right = {
            "priority": value in PRIORITY,
            "congestion_control": value in CONGESTION,
            "express": isinstance(value, bool),
            "reliability": value in ("reliable", "best_effort"),
        }
        moved = moves and name == "priority" and type(value) is int and -7 <= value <= 7
        if value is not None and (name not in names or not (right[name] or moved)):
            raise ConfigError(
                f"qos/network: invalid {name} {value!r}; expected a valid value for one of {', '.join(names)}"
            )
    return {name: value for name, value in given.items() if value is not None}


def _range(text: str | None) -> tuple[int, int | None]:
    """Parse a range like `8..64`. Both ends are inclusive and optional."""
    if text is None:
        return 0, None
    low, dots, high = text.partition("..")
    if not dots or not all(end == "" or end.isdecimal() for end in (low, high)):
        raise ConfigError(f"qos/network: invalid payload_size {text!r}; expected a range like 8..64")
    return int(low or 0), int(high) if high else None


def inspect_message(message: Any, face: Face, by_us: bool, reliable: bool) -> MessageView | None:
    """Return the fields of a Push, Request or Response from or to a face, or None if its key is unknown."""
    wire = message.key
    # The bit of a key selects the declaring side of the id: sender or receiver.
    key = face.resolve(wire.scope, (wire.sender != 0) != by_us, wire.suffix.value)
    if key is None:
        return None
    if isinstance(message, Push):
        name, body = ("put", message.put) if message.is_put else ("delete", message.delete)
    elif isinstance(message, Request):
        name, body = "query", message.query
    elif message.is_reply:
        name, body = "reply", message.reply.put if message.reply.is_put else message.reply.delete
    else:
        name, body = "reply", message.err
    payload = getattr(body, "body", None) if name == "query" else getattr(body, "payload", None)
    attachment = getattr(body, "attachment", None)
    return MessageView(name, key, _size(payload), _size(attachment), message.qos, reliable)


def _size(blob: Any) -> int:
    return 0 if blob is None else max(0, blob.size)


class IncomingInterceptor(Sink):
    """Ingress filter before the dispatcher of a connection."""

    def __init__(self, dispatcher: Sink, node: Node, join: Callable[[], Face]) -> None:
        self._dispatcher = dispatcher
        self._node = node
        self._join = join
        self._face: Face | None = None
        self._filter: InterceptorChain | None = None
        self._has_passed = False
        """Whether the next message has passed the rules already, because it is handled again after a suspension."""

    def attach(self, face: Face, filter: InterceptorChain | None) -> None:
        self._face, self._filter = face, filter
        face.sink = self

    def begin(self) -> int:
        return int(self._dispatcher.begin())

    def finish(self) -> int:
        return int(self._dispatcher.finish())

    def on_message(self, kind: int, reader: Any) -> int:
        if self._face is None:
            self._join()
        if self._filter is None or kind & message_ids.KIND not in DATA:
            return int(self._dispatcher.on_message(kind, reader))
        result = self._apply_rules(self._filter, kind, reader)
        self._has_passed = self.suspended == RETRY
        return result

    def _apply_rules(self, filter: InterceptorChain, kind: int, reader: Any) -> int:
        assert self._face is not None
        message: Any = DATA[kind & message_ids.KIND]().decode(Cursor(copy_message(reader)))
        seen = inspect_message(message, self._face, False, reader.frame.reliable != 0)
        if seen is None:
            return int(self._dispatcher.on_message(kind, reader))  # the dispatcher handles unknown keys
        section = None if self._has_passed else filter.refuses(seen)
        if section is not None:
            self._node.counters[f"{section}: {seen.message}"] += 1
            if isinstance(message, Request):
                final = ResponseFinal(id=message.id, qos=message.qos).encode()
                self._face.send(final, message.qos, seen.reliable, ordered=True)
            return 0
        qos = filter.quality(seen)
        if qos == message.qos:
            return int(self._dispatcher.on_message(kind, reader))
        message.qos = qos
        changed = self._node.borrow_reader(message.encode())
        changed.frame.reliable, changed.frame.priority = reader.frame.reliable, qos & 7
        try:
            return int(self._dispatcher.on_message(changed.next(), changed))
        finally:
            self._node.return_reader(changed)


class OutgoingInterceptor:
    """Egress filter at the transmit handle of a connection."""

    def __init__(self, node: Node, filter: InterceptorChain, finish_query: Callable[[int], None]) -> None:
        self._node = node
        self._filter = filter
        self._finish_query = finish_query
        """Callback with the id of a dropped query."""

    def apply_rules(self, face: Face, sending: Sending) -> Sending | None:
        message, _, reliable, _, _ = sending
        kind = DATA.get(message[0] & message_ids.KIND)
        if kind is None:
            return sending
        decoded: Any = kind().decode(Cursor(message))
        seen = inspect_message(decoded, face, True, reliable)
        if seen is None:
            return sending
        section = self._filter.refuses(seen)
        if section is not None:
            self._node.counters[f"{section}: {seen.message}"] += 1
            if isinstance(decoded, Request):
                self._finish_query(decoded.id)
            return None
        qos = self._filter.quality(seen)
        if qos == decoded.qos:
            return sending
        decoded.qos = qos
        congestion = {0: 0, BLOCK: 1}.get(qos & (BLOCK | BLOCK_FIRST), 2)
        return decoded.encode(), qos & 7, reliable, congestion, qos & EXPRESS != 0
