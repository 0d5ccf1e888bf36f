# SPDX-License-Identifier: Apache-2.0
"""Replay of recorded probes: a node of Zenlake receives the bytes that eclipse-zenoh received (`tests/vectors/probe*.jsonl`).

Only the bytes of the one hand-made end were recorded. What happened besides (the node's own application, further hand-made
clients) is repeated by the tests. Both reactions are compared as text in which nothing is left that may differ: numbers
of frames, ids that the node chose, who the node is, whether a key is written in full or by an id, and the order of
unordered messages.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path

from tests.network.mesh import Hand, Mesh
from tests.transport.ends import LINK, SECRET, framed
from zenlake.core.enums import WhatAmI
from zenlake.errors import CloseReason, DecodeError
from zenlake.network.face import Face, TxHandle
from zenlake.network.forwarding import RxDispatcher
from zenlake.network.node import Node
from zenlake.transport.handshake import Acceptor, Opener
from zenlake.transport.settings import Settings
from zenlake.transport.unicast import Closed, Unicast
from zenlake.wire import linkstate
from zenlake.wire.batch_reader import messages, read_network
from zenlake.wire.declare import DeclareEntity, DeclareKeyExpr, UndeclareEntity, UndeclareKeyExpr
from zenlake.wire.linkstate import LinkState
from zenlake.wire.message_base import Message
from zenlake.wire.network import Oam
from zenlake.wire.transport import Fragment, Frame, KeepAlive

Said = tuple[str, bytes]  # the sender: "hand" or "node"
Change = Callable[[list[str]], list[str]]
"""Our reaction, given the reaction of eclipse-zenoh."""


class Line(TxHandle):
    """A connection of the node whose other end the test controls. Bytes are exchanged without a socket."""

    def __init__(self, stage: "Stage", handshake: Acceptor | Opener) -> None:
        self.stage = stage
        self.dispatcher = RxDispatcher(stage.node, self._join)
        self.transport = Unicast(handshake, stream=True, sink=self.dispatcher)
        self.face: Face | None = None
        self.said: list[bytes] = []
        self.end: Closed | None = None

    def _join(self) -> None:
        whatami = next(side.whatami for side in self.transport.session.sides if side.zid == self.transport.peer_zid)
        self.face = Face(self, self.transport.peer_zid, self.stage.node.whatami, WhatAmI.from_wire(whatami))
        self.dispatcher.attach(self.face)
        self.stage.node.add_face(self.face)

    def hear(self, batch: bytes) -> None:
        self.transport.receive(framed(batch), self.stage.mesh.now)
        self.settle()

    def settle(self) -> None:
        while True:
            for event in self.transport.events():
                if isinstance(event, Closed):
                    self.end = event
                    if self.face is not None:
                        self.stage.node.remove_face(self.face)
                elif self.face is None:
                    self._join()
            self.stage.mesh.settle()
            if (view := self.transport.data(self.stage.mesh.now)) is None:
                return
            self.said.append(bytes(view)[2:])
            self.transport.mark_sent(len(view), self.stage.mesh.now)

    def send(self, message: bytes, priority: int, reliable: bool, congestion: int, express: bool) -> bool:
        return self.transport.send(message, priority, reliable, congestion, express)

    def close(self, reason: CloseReason) -> None:
        self.transport.abandon(reason)


class Stage:
    """A node of Zenlake, and the recorded ends that connect to it."""

    def __init__(self, whatami: WhatAmI, zid: bytes, wall: int = 0) -> None:
        self.mesh = Mesh()
        self.node = Node(zid, whatami, now=lambda: self.mesh.now, wall=lambda: wall)
        self.mesh.nodes.append(self.node)
        self.app = self.node.application
        self.lines: list[Line] = []

    def accept(self) -> Line:
        """Accept a connection."""
        settings = Settings(self.node.zid, self.node.whatami, batch_size=49152)
        acceptor = Acceptor(settings, secret=SECRET, context=LINK, now=self.mesh.now, admit=self._admit)
        self.lines.append(Line(self, acceptor))
        return self.lines[-1]

    def _admit(self, zid: bytes) -> CloseReason | None:
        """Refuse a second connection of the same id, as the runtime does."""
        return CloseReason.MAX_LINKS if any(line.face and line.face.zid == zid for line in self.lines) else None

    def connect(self) -> Line:
        """Open a connection."""
        settings = Settings(self.node.zid, self.node.whatami, batch_size=65480)
        line = Line(self, Opener(settings, now=self.mesh.now))
        self.lines.append(line)
        line.transport.start(self.mesh.now)
        line.settle()
        return line

    def client(self) -> Hand:
        """Add a further client, whose bytes were not recorded."""
        return self.mesh.hand(self.node)

    def settle(self) -> None:
        self.mesh.settle()
        for line in self.lines:
            line.settle()


def with_cookie(batch: bytes, theirs: bytes, ours: bytes) -> bytes:
    """Return an OpenSyn with our cookie instead of the recorded one."""
    old, new = (messages(ack)[0].cookie.value for ack in (theirs, ours))
    return batch.replace(bytes([len(old)]) + old, bytes([len(new)]) + new)


class Transcript:
    """A conversation as text."""

    def __init__(self, node_zid: bytes) -> None:
        self.node_zid = node_zid
        self.keys: dict[str, dict[int, str]] = {"hand": {}, "node": {}}
        self.declared: dict[tuple[str, int, int], str] = {}
        self.cut, self.cuts = b"", 0

    def of(self, said: list[Said]) -> list[str]:
        """Return the messages of the node. Those of the hand-made end define the key ids."""
        texts = [text for who, batch in said for text in self._batch(who, batch)]
        return [text for _, run in groupby(texts, unordered) for text in sorted(run)]

    def _batch(self, who: str, batch: bytes) -> Iterator[str]:
        lane = ""
        try:
            found = messages(batch)
        except DecodeError:
            assert who == "hand", "a node says what can be read"
            return
        for message in found:
            if isinstance(message, Frame):
                lane = f"{message.priority}{'' if message.reliable else ' best effort'}: "
                continue
            if isinstance(message, Fragment):
                if who == "hand":
                    return
                lane = f"{message.priority}{'' if message.reliable else ' best effort'}, in {self.cuts + 1} pieces: "
                self.cuts += 1
                self.cut += message.payload.value
                if message.more:
                    return
                message = read_network(self.cut)
                self.cut, self.cuts = b"", 0
            text = lane + self._describe(who, message)
            body = getattr(message, "body", None)
            if isinstance(body, DeclareKeyExpr):
                self.keys[who].setdefault(body.id, self._key(who, body.key.value))
            elif isinstance(body, UndeclareKeyExpr):
                self.keys[who].pop(body.id, None)
            elif who == "node" and not isinstance(message, KeepAlive):
                yield text

    def _key(self, who: str, key: tuple[int, bool, str | None]) -> str:
        scope, sender, suffix = key
        other = {"hand": "node", "node": "hand"}[who]
        return (self.keys[who if sender else other].get(scope, f"<{scope}>") if scope else "") + (suffix or "")

    def _describe(self, who: str, message: Message) -> str:
        blank = type(message)().fields()
        parts = []
        for name, value in message.fields().items():
            if name == "timestamp" and value is not None:
                value = "the node's" if value.id.to_wire() == self.node_zid else value
            elif name == "cookie":
                value = "its own"
            elif name in ("key", "wire_expr") and isinstance(value, tuple):
                value = self._key(who, value)
            elif name == "id" and isinstance(message, DeclareEntity):
                self.declared[who, message.kind, value] = self._key(who, message.key.value)
                value = "some" if value else 0
            elif name == "id" and isinstance(message, UndeclareEntity):
                value = f"that of {self.declared.pop((who, message.kind - 1, value), None)}"
            elif name == "responder" and value is not None:
                value = f"{'the node' if value.zid.to_wire() == self.node_zid else 'another'}{'' if value.eid else ', entity 0'}"
            elif isinstance(value, Message):
                value = self._describe(who, value)
            elif name == "options":
                value &= ~0x60  # how its key is written
            elif name == "body" and isinstance(message, Oam) and message.id == 1:
                value = self._graph(linkstate.decode(value))
            elif value == blank.get(name):
                continue
            parts.append(f"{name}={value}")
        return f"{type(message).__name__}({', '.join(parts)})"

    def _graph(self, entries: tuple[LinkState, ...]) -> str:
        """Describe the nodes of a link state: roles, locators and links, without ids and versions."""
        names = {
            entry.psid: "the node" if entry.zid.to_wire() == self.node_zid else "the other"
            for entry in entries
            if entry.zid is not None
        }
        return "; ".join(
            f"{names[entry.psid]} {entry.whatami} {entry.locators} {[names[link] for link in entry.links]} {entry.gateway}"
            for entry in entries
        )


def unordered(text: str) -> str:
    """Return the same text for messages without a defined order: replies to an interest, ends of several queries."""
    if "DeclareEntity" in text and "interest_id" in text:
        return text.partition("interest_id")[2].partition(",")[0]
    return "ends" if "ResponseFinal" in text else text


def and_close(reason: int) -> Change:
    """Return a change that adds the CLOSE with which our node disconnects."""
    return lambda theirs: [*theirs, f"Close(reason={reason})"]


def assert_noted(topics: Iterable[str]) -> None:
    """Check that each topic is a row of the notes."""
    notes = (Path(__file__).parents[2] / "docs" / "spec-notes.md").read_text()
    for topic in topics:
        assert f"\n| {topic} |" in notes
