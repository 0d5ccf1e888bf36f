# SPDX-License-Identifier: Apache-2.0
"""Session registry of a capture: names sessions for the decoder and limits their memory.

A capture may contain any number of sessions, each with incomplete messages. Ended sessions are removed. Incomplete
messages are dropped when they use too much memory together; later messages then report the missing parts.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from zenlake.capture.diagnostics import CapturedFace, Diagnostics
from zenlake.columns import Decoder
from zenlake.session import SessionState

if TYPE_CHECKING:
    from zenlake.capture.packet_loop import PacketLoop

MAX_NAMES = 1 << 18
MAX_CLOSED_FACES = 1 << 16  # limit of ended sessions
MAX_PARTIAL_BYTES = 1 << 30  # limit of the bytes of incomplete messages in all sessions together
CHECK_INTERVAL = 1 << 27  # bytes of batches between checks of that limit


class SessionEvents(NamedTuple):
    """Session changes found by a reader."""

    new_faces: list[CapturedFace | None]
    ended_faces: list[int]

    @classmethod
    def of(cls, reader: "PacketLoop", known: int) -> "SessionEvents":
        """Return the changes since the reader had `known` faces."""
        ended_faces, reader.ended_faces = reader.ended_faces, []
        return cls(reader.faces[known:], ended_faces)


class SessionRegistry:
    def __init__(self, decoder: Decoder, names: dict[int, str] | None = None) -> None:
        self.decoder = decoder
        self.names = names  # by face, if known in advance
        self.new_names: dict[int, str] = {}  # the names assigned since `save`
        self._counts: dict[str, int] = {}
        self._ending: list[int] = []
        self._ended: list[int] = []
        self._flow_names: dict[int, str] = {}  # names by face, for the capture's notes
        self._seen = 0

    def update_faces(self, reader: "PacketLoop", all_decoded: bool = False) -> None:
        """Register new faces with the decoder."""
        self.apply_events(SessionEvents.of(reader, len(self.decoder.sessions)), reader, all_decoded)

    def apply_events(self, events: "SessionEvents", reader: "PacketLoop", all_decoded: bool = False) -> None:
        """Register new faces with the decoder. Remove those that ended before the last decoded rows."""
        known = self.decoder.sessions
        self.add_faces(events.new_faces)
        ending, self._ending = self._ending, events.ended_faces
        if all_decoded:
            ending, self._ending = ending + self._ending, []
        for id in ending:
            if known[id] is not None:
                known[id].drop_keys()
            known[id] = None
            self._ended.append(id)
        if len(self._ended) > MAX_CLOSED_FACES:
            for id in self._ended[:-MAX_CLOSED_FACES]:
                reader.faces[id] = None
                self._flow_names.pop(id, None)
            del self._ended[:-MAX_CLOSED_FACES]

    def add_faces(self, faces: Sequence[CapturedFace | None]) -> None:
        """Register further faces with the decoder."""
        for face in faces:
            if face is None:
                self.decoder.sessions.append(None)
                continue
            name = self._name(face) if self.names is None else self.names.get(face.id, "")
            session = SessionState(name, self.decoder.memory)
            session.is_scouting = face.protocol == "scouting"
            session.is_multicast = face.protocol == "multicast"
            self.decoder.sessions.append(session)
            self.new_names[face.id] = self._flow_names[face.id] = name

    def enforce_limit(self, size: int, notes: Diagnostics, place: tuple[int, int]) -> None:
        """Enforce the limit of incomplete messages, at intervals of batch bytes. A note records the drop and its place."""
        self._seen += size
        if self._seen < CHECK_INTERVAL:
            return
        self._seen = 0
        halves = [
            (side.lanes.held_bytes(), face, side.lanes)
            for face, session in enumerate(self.decoder.sessions)
            if session is not None
            for side in session.sides
        ]
        total = sum(held for held, _, _ in halves)
        for held, face, lanes in sorted(halves, key=lambda half: -half[0]):
            if total <= MAX_PARTIAL_BYTES:
                break
            total -= held
            lanes.restore({**lanes.save(), "parts": {}})
            notes.add("limit", *place, face, held)

    def save(self) -> dict[int, tuple[dict[str, Any], bool]]:
        """Return the active sessions, by face."""
        self.new_names = {}
        return {
            id: (session.save(), bool(session.is_scouting))
            for id, session in enumerate(self.decoder.sessions)
            if session is not None
        }

    def restore(self, saved: dict[int, tuple[dict[str, Any], bool]], count: int) -> None:
        """Restore saved sessions. `count` is the number of all faces so far, including ended ones."""
        known = self.decoder.sessions
        for session in known:
            if session is not None:
                session.drop_keys()
        known[:] = [None] * count
        for id, (session, is_scouting) in saved.items():
            known[id] = SessionState.restore(session, self.decoder.memory)
            known[id].is_scouting = is_scouting

    def name(self, face: int) -> str:
        return self._flow_names.get(face, "")

    def _name(self, face: CapturedFace) -> str:
        """Name a session by protocol and addresses, with a counter for repeated addresses."""
        name = f"{face.protocol}/{address(face.client)}->{address(face.server)}"
        if name not in self._counts and len(self._counts) >= MAX_NAMES:
            return f"{name}#face{face.id}"  # as unique as a counter, without memory
        self._counts[name] = self._counts.get(name, 0) + 1
        return name if self._counts[name] == 1 else f"{name}#{self._counts[name]}"


def address(of: tuple[str, int]) -> str:
    host, port = of
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
