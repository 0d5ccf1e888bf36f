# SPDX-License-Identifier: Apache-2.0
"""State of all faces that is needed to decode a block: complete in the head of a segment, then as changes.

The head holds the state, and each block adds its changes. The state before block n is the head with the changes of blocks 0 to
n-1. A partly received message is a pointer to its first fragment (segment, block, row, message of that row). That may be in an
earlier segment. It is the only dependency between segments, and a reader can work without it.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zenlake.log.session_tracker import SessionTracker
from zenlake.session.key_table import KeyMemory
from zenlake.session.state import SessionState

__all__ = ["LogFace", "TrackedState", "Pointer", "SegmentState", "negotiated_terms", "new_state"]

Pointer = tuple[int, int, int, int]  # segment, block, row, message in that row
Lane = tuple[int, int, int]  # face, direction, lane

MAX_KEYS = 48 << 20
"""Maximum bytes of the key ids of all faces in a segment. The writer and all readers ignore declarations beyond that."""


@dataclass(frozen=True, slots=True)
class LogFace:
    """One recorded connection. Its name is unique: it ends with writer, epoch and a counter."""

    name: str
    protocol: str
    client: str  # the opener: host:port, a path, or the address format of the link
    server: str
    agreed: dict[str, Any] | None = field(default=None, compare=False)  # session state before the first recorded batch


class SegmentState:
    """State of all faces of a segment before some block."""

    def __init__(self) -> None:
        self.faces: list[LogFace] = []
        self.sessions: list[SessionState] = []
        self.waiting: dict[Lane, Pointer] = {}
        self.memory = KeyMemory(MAX_KEYS)

    @classmethod
    def from_head(cls, head: list[dict[str, Any]]) -> "SegmentState":
        state = cls()
        for i, of in enumerate(head):
            state.introduce(LogFace(**of["face"]))
            state.sessions[i] = _restore(of["session"], state.memory)
            state._wait(i, of["waiting"])
        return state

    def introduce(self, face: LogFace) -> None:
        self.faces.append(face)
        self.sessions.append(new_state(self.faces[-1], self.memory))

    def apply(self, changes: dict[str, Any]) -> None:
        """Apply the changes of a block. Its new faces have already been added."""
        for key, of in changes["of"].items():
            i = int(key)
            if "session" in of:
                self.sessions[i].drop_keys()
                self.sessions[i] = _restore(of["session"], self.memory)
            session = self.sessions[i]
            if "terms" in of:
                _set_terms(session, of["terms"])
            for direction, id, text in of.get("keys", ()):
                session.set_key(direction, id, None if text is None else _bytes(text))
            if "last" in of:
                for direction, last_numbers in enumerate(of["last"]):
                    session.sides[direction].lanes.restore({"last": last_numbers, "parts": {}})
            for direction, skipped in enumerate(of.get("skipped", ())):
                lanes = session.sides[direction].lanes
                lanes.restore({**lanes.save(), "skipped": skipped})
            if "waiting" in of:
                self._wait(i, of["waiting"])

    def _wait(self, i: int, waiting: Iterable[list[int]]) -> None:
        self.waiting = {lane: pointer for lane, pointer in self.waiting.items() if lane[0] != i}
        for direction, lane, *pointer in waiting:
            self.waiting[i, direction, lane] = (pointer[0], pointer[1], pointer[2], pointer[3])


class TrackedState:
    """State at the writer. It tracks every block and produces the content of heads and changes."""

    def __init__(self, before: "TrackedState | None" = None, live: Iterable[LogFace] = ()) -> None:
        """Return the state for a new segment: the faces of the previous one that still exist, renumbered."""
        self.faces: list[LogFace] = []
        self.memory = KeyMemory(MAX_KEYS)
        self.tracker = SessionTracker()
        self._index: dict[str, int] = {}
        self._waiting: dict[Lane, Pointer] = {}
        self._terms: list[dict[str, Any]] = []
        self._lasts: list[list[list[int]]] = []
        for face in live:
            old = before._index.get(face.name) if before is not None else None
            if before is not None and old is not None:
                i = self._add(face, before.tracker.sessions[old])
                for (of, direction, lane), pointer in before._waiting.items():
                    if of == old:
                        self._waiting[i, direction, lane] = pointer

    def _add(self, face: LogFace, session: SessionState) -> int:
        i = self._index[face.name] = len(self.faces)
        self.faces.append(face)
        self.tracker.sessions.append(session)
        session.charge_to(self.memory)
        self._terms.append(session.terms())
        self._lasts.append(_lasts(session))
        return i

    def index(self, face: LogFace, introduced: list[LogFace]) -> int:
        """Return the number of a face in this segment. A new face is added to the list."""
        found = self._index.get(face.name)
        if found is not None:
            return found
        introduced.append(face)
        return self._add(face, new_state(face, self.memory))

    def drop_keys(self, limit: int) -> list[tuple[LogFace, int]]:
        """Drop the key ids of the faces with the most ids, until `limit` bytes are left. Return those faces, with their ids.

        Messages that use such an id have an unresolved key from here on. Other faces are not affected.
        """
        dropped = []
        for i in sorted(range(len(self.faces)), key=lambda i: -self.tracker.sessions[i].key_cost()):
            session = self.tracker.sessions[i]
            if self.memory.used <= limit or not session.key_cost():
                break
            dropped.append((self.faces[i], sum(len(side.keys) for side in session.sides)))
            session.drop_keys()
        return dropped

    def head(self) -> list[dict[str, Any]]:
        return [
            {"face": asdict(face), "session": _save(self.tracker.sessions[i]), "waiting": self._waits(i)}
            for i, face in enumerate(self.faces)
        ]

    def follow(
        self, rows: pa.RecordBatch, introduced: list[LogFace], segment: int, block: int
    ) -> dict[str, Any] | None:
        """Return the changes of this block as JSON, or None if there are no changes."""
        tracker = self.tracker
        tracker.declared.clear()
        tracker.message_starts.clear()
        tracker.follow(rows)
        for lane, (row, message) in tracker.message_starts.items():
            self._waiting[lane] = (segment, block, row, message)
        declared: dict[int, list[tuple[int, int]]] = {}
        for i, direction, id in tracker.declared:
            declared.setdefault(i, []).append((direction, id))
        of = {}
        for i in pc.unique(rows.column("face")).to_pylist():
            if i >= 0 and (changed := self._find_changes(i, declared.get(i, []))):
                of[str(i)] = changed
        if not of and not introduced:
            return None
        return {"faces": [asdict(face) for face in introduced], "of": of}

    def _find_changes(self, i: int, declared: list[tuple[int, int]]) -> dict[str, Any]:
        session = self.tracker.sessions[i]
        found: dict[str, Any] = {}
        before, terms, last_numbers = self._terms[i], session.terms(), _lasts(session)
        if before["generation"] != terms["generation"]:
            found["session"] = _save(session)
        else:
            if before != terms:
                found["terms"] = _plain(terms)
            if declared:
                tables = [side.keys for side in session.sides]
                found["keys"] = [[d, id, _text(tables[d].get(id))] for d, id in sorted(declared)]
            if last_numbers != self._lasts[i]:
                found["last"] = last_numbers
                skipped = [side.lanes.skipped_fragments() for side in session.sides]
                if any(skipped):
                    found["skipped"] = skipped
        self._terms[i], self._lasts[i] = terms, last_numbers
        open_lanes = [(d, lane) for d, side in enumerate(session.sides) for lane in side.lanes.partial_lanes()]
        known = {lane: pointer for lane, pointer in self._waiting.items() if lane[0] == i}
        if known or open_lanes:
            for lane in known:
                if lane[1:] not in open_lanes:
                    del self._waiting[lane]
            found["waiting"] = self._waits(i)
        return found

    def _waits(self, i: int) -> list[list[int]]:
        return [[direction, lane, *p] for (of, direction, lane), p in sorted(self._waiting.items()) if of == i]


def new_state(face: LogFace, memory: KeyMemory) -> SessionState:
    """Return the session of a face before its first recorded batch."""
    if face.agreed is not None:
        return _restore({**face.agreed, "name": face.name}, memory)
    session = SessionState(face.name, memory)
    session.is_scouting = face.protocol == "scouting"
    session.is_multicast = face.protocol == "multicast"
    return session


def _lasts(session: SessionState) -> list[list[int]]:
    return [side.lanes.last_numbers() for side in session.sides]


def _text(key: bytes | None) -> str | None:
    return None if key is None else key.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _plain(terms: dict[str, Any]) -> dict[str, Any]:
    """Return the state in a form that JSON supports."""
    sides = [{**side, "zid": None if side["zid"] is None else side["zid"].hex()} for side in terms["sides"]]
    return {**terms, "sides": sides}


def _save(session: SessionState) -> dict[str, Any]:
    saved = _plain(session.terms())
    for side, of in zip(session.sides, saved["sides"], strict=True):
        of["keys"] = {id: _text(key) for id, key in side.keys.save().items()}
        of["last"] = side.lanes.last_numbers()
        of["skipped"] = side.lanes.skipped_fragments()
    if session.keys_dropped:
        saved["keys_dropped"] = True
    return saved


def negotiated_terms(session: SessionState) -> dict[str, Any] | None:
    """Return the state before OPEN of a handshake of which only OPEN will be recorded."""
    return {**_save(session), "is_open": False} if session.generation else None


def _restore(saved: dict[str, Any], memory: KeyMemory) -> SessionState:
    sides = [
        {
            **_side(of),
            "keys": {id: _bytes(text) for id, text in of["keys"].items()},
            "lanes": {"last": of["last"], "parts": {}, "skipped": of.get("skipped", ())},
        }
        for of in saved["sides"]
    ]
    session: SessionState = SessionState.restore({**saved, "sides": sides}, memory)
    return session


def _side(of: dict[str, Any]) -> dict[str, Any]:
    return {**of, "zid": None if of["zid"] is None else bytes.fromhex(of["zid"])}


def _set_terms(session: SessionState, terms: dict[str, Any]) -> None:
    """Apply negotiated parameters to a session, and keep its keys and lanes."""
    for name, value in terms.items():
        if name not in ("format", "name", "sides"):
            setattr(session, name, value)
    session.apply_negotiation()
    for side, of in zip(session.sides, map(_side, terms["sides"]), strict=True):
        side.zid, side.whatami, side.lease_ms, side.initial_sn, side.traits = (
            of["zid"], of["whatami"], of["lease_ms"], of["initial_sn"], of.get("traits", 0),
        )  # fmt: skip
