# SPDX-License-Identifier: Apache-2.0
"""The sessions of a capture as the decoder knows them: named, remembered while they last, and bounded in memory.

A capture may hold sessions without number, and half-received messages in each of them. Those whose conversation is over
are forgotten, and where halves take too much memory together they are given up; what follows then says what it lacks.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from zenlake.capture.notes import Face, Notes
from zenlake.columns import Decoder
from zenlake.session import Session

if TYPE_CHECKING:
    from zenlake.capture.reader import Reader

MOST_NAMES = 1 << 18
MOST_FACES = 1 << 16  # whose conversation is over
MOST_HALVES = 1 << 30  # bytes of half-received messages in all sessions together
BREATH = 1 << 27  # bytes of batches after which they are counted again


class News(NamedTuple):
    """What a reader has learned of its sessions, besides their batches."""

    met: list[Face | None]
    departed: list[int]

    @classmethod
    def of(cls, reader: "Reader", known: int) -> "News":
        """What it has learned since it was asked, when there were so many faces."""
        departed, reader.departed = reader.departed, []
        return cls(reader.faces[known:], departed)


class Sessions:
    def __init__(self, decoder: Decoder, names: dict[int, str] | None = None) -> None:
        self.decoder = decoder
        self.names = names  # by face, if they are known beforehand
        self.born: dict[int, str] = {}  # the names given since `save`
        self._counts: dict[str, int] = {}
        self._leaving: list[int] = []
        self._gone: list[int] = []
        self._told: dict[int, str] = {}  # names by face, for the capture's notes
        self._seen = 0

    def introduce(self, reader: "Reader", all_decoded: bool = False) -> None:
        """Tells the decoder of the faces met since."""
        self.hear(News.of(reader, len(self.decoder.sessions)), reader, all_decoded)

    def hear(self, news: "News", reader: "Reader", all_decoded: bool = False) -> None:
        """Tells the decoder of the faces met; forgets those that left before the rows last decoded."""
        known = self.decoder.sessions
        self.meet(news.met)
        leaving, self._leaving = self._leaving, news.departed
        if all_decoded:
            leaving, self._leaving = leaving + self._leaving, []
        for id in leaving:
            if known[id] is not None:
                known[id].drop_keys()
            known[id] = None
            self._gone.append(id)
        if len(self._gone) > MOST_FACES:
            for id in self._gone[:-MOST_FACES]:
                reader.faces[id] = None
                self._told.pop(id, None)
            del self._gone[:-MOST_FACES]

    def meet(self, faces: Sequence[Face | None]) -> None:
        """Tells the decoder of further faces."""
        for face in faces:
            if face is None:
                self.decoder.sessions.append(None)
                continue
            name = self._name(face) if self.names is None else self.names.get(face.id, "")
            session = Session(name, self.decoder.memory)
            session.is_scouting = face.protocol == "scouting"
            session.is_multicast = face.protocol == "multicast"
            self.decoder.sessions.append(session)
            self.born[face.id] = self._told[face.id] = name

    def decoded(self, size: int, notes: Notes, place: tuple[int, int]) -> None:
        """Bounds what half-received messages take, after every so many bytes of batches; a note says so, and where that was."""
        self._seen += size
        if self._seen < BREATH:
            return
        self._seen = 0
        halves = [
            (side.lanes.held(), face, side.lanes)
            for face, session in enumerate(self.decoder.sessions)
            if session is not None
            for side in session.sides
        ]
        total = sum(held for held, _, _ in halves)
        for held, face, lanes in sorted(halves, key=lambda half: -half[0]):
            if total <= MOST_HALVES:
                break
            total -= held
            lanes.restore({**lanes.save(), "parts": {}})
            notes.add("limit", *place, face, held)

    def save(self) -> dict[int, tuple[dict[str, Any], bool]]:
        """The sessions that go on, by face."""
        self.born = {}
        return {
            id: (session.save(), bool(session.is_scouting))
            for id, session in enumerate(self.decoder.sessions)
            if session is not None
        }

    def restore(self, saved: dict[int, tuple[dict[str, Any], bool]], count: int) -> None:
        """`count`: of all faces so far, those that are over included."""
        known = self.decoder.sessions
        for session in known:
            if session is not None:
                session.drop_keys()
        known[:] = [None] * count
        for id, (session, is_scouting) in saved.items():
            known[id] = Session.restore(session, self.decoder.memory)
            known[id].is_scouting = is_scouting

    def name(self, face: int) -> str:
        return self._told.get(face, "")

    def _name(self, face: Face) -> str:
        """Protocol and addresses, and a count where the same addresses met again."""
        name = f"{face.protocol}/{address(face.client)}->{address(face.server)}"
        if name not in self._counts and len(self._counts) >= MOST_NAMES:
            return f"{name}#face{face.id}"  # as good as a count, and needs no memory
        self._counts[name] = self._counts.get(name, 0) + 1
        return name if self._counts[name] == 1 else f"{name}#{self._counts[name]}"


def address(of: tuple[str, int]) -> str:
    host, port = of
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
