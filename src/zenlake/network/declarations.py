# SPDX-License-Identifier: Apache-2.0
"""Who has what: subscribers, queryables and tokens of every face, and telling those who are to know.

A declaration is told to a face under its own key expression, once however many have it, and taken back when the last of
them is gone. A face never hears of what it declared itself (the application does: it may publish to itself).
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from zenlake import limits
from zenlake.keyexpr import intersects
from zenlake.network.access import DECLARING, EGRESS
from zenlake.network.face import (
    AGGREGATE,
    CURRENT,
    DECLARATION,
    FUTURE,
    KINDS,
    QUERYABLE,
    SUBSCRIBER,
    TOKEN,
    Face,
    Interest,
    weigh_key,
)
from zenlake.network.forward import Epoch
from zenlake.network.jobs import Job, Jobs
from zenlake.network.tree import KeyTree

if TYPE_CHECKING:
    from zenlake.network.aggregation import Aggregation

__all__ = ["Declarations", "Resource", "passes"]

COMPLETE = 1

Wanting = dict[Face, tuple[dict[Interest, None], dict[Interest, None]]]
"""Interests on one key by face: plain ones, and those that want an aggregate."""
STEP = 32  # declarations in one step of a job


class Resource:
    """A key expression with declarations."""

    __slots__ = ("holders", "key")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.holders: dict[Face, dict[int, int]] = {}
        """For each face the ids under which it declared this, and what it said about each."""


def passes(source: Face, target: Face) -> bool:
    """Whether messages of one face may go to another."""
    return source.group != target.group or (source is target and source.is_application)


def merged(infos: list[int]) -> int:
    """What several queryables are together: complete if one is, at the distance of the nearest such."""
    complete = [info for info in infos if info & COMPLETE]
    return min(complete or infos)


class Declarations:
    """The tables of one node. Guarded by the node's lock."""

    def __init__(self, counters: Counter[str], jobs: Jobs) -> None:
        self.jobs = jobs
        self.faces: list[Face] = []
        self.tables: dict[int, KeyTree[Resource]] = {kind: KeyTree() for kind in KINDS}
        self.wanted: dict[int, KeyTree[Wanting]] = {kind: KeyTree() for kind in KINDS}
        """Interests in future declarations, by kind and key."""
        self.wanted_all: dict[int, Wanting] = {kind: {} for kind in KINDS}
        """Interests without a key."""
        self.epoch = Epoch()
        self.counters = counters
        self.aggregation: "Aggregation | None" = None
        """The wide keys under which the application's are declared, if there are any."""
        self.on_change: Callable[[int, bytes], None] = lambda kind, key: None

    # What a face says

    def declare(self, face: Face, kind: int, id: int, key: bytes, info: int = 0, is_news: bool = True) -> None:
        """It has that. No news if it had it before and we only now asked: then those who asked for news are not told."""
        if self.aggregation is not None and face.is_application and kind == SUBSCRIBER:
            key = self.aggregation.subscriber(key)
        known = face.declared[kind]
        if id in known and known[id] != key:
            self.undeclare(face, kind, id)
        if id not in known and not face.charge(limits.Resource.DECLARATIONS, DECLARATION + weigh_key(key)):
            return
        table = self.tables[kind]
        resource = table.get(key)
        if resource is None:
            resource = Resource(key)
            table.insert(key, resource)
        known[id] = key
        ids = resource.holders.setdefault(face, {})
        if ids.get(id) != info:
            ids[id] = info
            self._changed(kind, resource, is_news)

    def undeclare(self, face: Face, kind: int, id: int) -> None:
        key = face.declared[kind].pop(id, None)
        if key is None:
            self.counters["unknown declarations taken back"] += 1
            return
        face.refund(limits.Resource.DECLARATIONS, DECLARATION + weigh_key(key))
        resource = self.tables[kind].get(key)
        assert resource is not None
        ids = resource.holders[face]
        del ids[id]
        if not ids:
            del resource.holders[face]
        if not resource.holders:
            self.tables[kind].remove(key)
        self._changed(kind, resource, is_news=False, loser=face)

    def ended(self, face: Face, key: bytes) -> None:
        """A token is gone that the face never told us of: it was there before we asked, and we asked for news only."""
        self._changed(TOKEN, self.tables[TOKEN].get(key) or Resource(key), is_news=False, loser=face)

    def forget(self, face: Face) -> Job:
        """Remove all declarations of a face that is gone, in steps."""
        for kind, known in face.declared.items():
            for number, id in enumerate(list(known)):
                if id in known:
                    self.undeclare(face, kind, id)
                if number % STEP == STEP - 1:
                    yield None

    # Who is told

    def info(self, face: Face, kind: int, resource: Resource) -> int | None:
        """What to tell a face about a resource; None if nobody whom it could reach has it, or it may not know."""
        if self._hides(face, kind, resource.key):
            return None
        infos = [
            info for holder, ids in resource.holders.items()
            if holder.is_open and passes(face, holder) for info in ids.values()
        ]  # fmt: skip
        return merged(infos) if infos else None

    @staticmethod
    def _hides(face: Face, kind: int, key: bytes) -> bool:
        """Whether a face may not know of such a thing."""
        return face.guard is not None and not face.guard.allows(EGRESS, DECLARING[kind], key)

    def current(self, face: Face, kind: int, key: bytes | None) -> list[tuple[bytes, int]]:
        """What a face could be told now that intersects a key."""
        table = self.tables[kind]
        found = table.values() if key is None else table.matching(key)
        told = ((resource.key, self.info(face, kind, resource)) for resource in found)
        return [(key, info) for key, info in told if info is not None]

    def _changed(self, kind: int, resource: Resource, is_news: bool = True, loser: Face | None = None) -> None:
        self.epoch.number += 1
        interests: dict[Face, list[tuple[Iterable[Interest], Iterable[Interest]]]] = {}
        for by_face in self._wanting(kind, resource.key):
            for face, those in by_face.items():
                interests.setdefault(face, []).append(those)
        for face in self.faces:
            if face.is_told_all or face in interests or resource.key in face.told[kind]:
                self.tell(face, kind, resource, is_news, loser, interests.get(face, ()))
        self.on_change(kind, resource.key)

    def _wanting(self, kind: int, key: bytes) -> list[Wanting]:
        """Return the interests in declarations of a kind on a key."""
        found = self.wanted[kind].matching(key)
        everything = self.wanted_all[kind]
        return [*found, everything] if everything else found

    def want(self, interest: Interest) -> None:
        """Add an interest in future declarations to the index."""
        for kind in KINDS:
            if not interest.wants(kind):
                continue
            by_face = self.wanted_all[kind] if interest.key is None else self.wanted[kind].get(interest.key)
            if by_face is None:
                by_face = {}
                self.wanted[kind].insert(interest.key or b"", by_face)
            by_face.setdefault(interest.face, ({}, {}))[interest.wants_aggregate][interest] = None

    def unwant(self, interest: Interest) -> None:
        """Remove an interest from the index."""
        for kind in KINDS:
            if not interest.wants(kind):
                continue
            by_face = self.wanted_all[kind] if interest.key is None else self.wanted[kind].get(interest.key)
            if by_face is None or interest.face not in by_face:
                continue
            those = by_face[interest.face]
            those[interest.wants_aggregate].pop(interest, None)
            if not any(those):
                del by_face[interest.face]
            if not by_face and interest.key is not None:
                self.wanted[kind].remove(interest.key)

    def tell(
        self, face: Face, kind: int, resource: Resource, is_news: bool = True, loser: Face | None = None,
        interests: Iterable[tuple[Iterable[Interest], Iterable[Interest]]] = (),
    ) -> None:  # fmt: skip
        """Bring what a face knows of a resource up to date. `interests`: those of the face in it, by their keys."""
        key, info = resource.key, self.info(face, kind, resource)
        if face.is_told_all:
            self._settle(face, kind, key, info, True)
            return
        known = key in face.told[kind]
        asked, tells = False, is_news or known or kind != TOKEN
        for plain, aggregates in interests:
            for interest in () if asked and tells else plain:
                if interest.answered:
                    asked, tells = True, tells or interest.mode & CURRENT != 0
                    if tells:
                        break
            for interest in aggregates:
                if interest.answered and interest.key is not None:
                    self._refresh(face, kind, interest.key)
                    break
        self._settle(face, kind, key, info, asked and tells)
        if kind == TOKEN and loser is not None and info is None and asked and not known:
            self._tell_end(face, key, loser)

    def _tell_end(self, face: Face, key: bytes, loser: Face) -> None:
        """Nobody has a token any more: by key, as 1.10.2, to one who asked for news only and so never knew of it."""
        if passes(loser, face) and not self._hides(face, TOKEN, key):
            face.undeclare(TOKEN, 0, key)

    def _refresh(self, face: Face, kind: int, key: bytes) -> None:
        """Bring an aggregate up to date, soon: each costs a search in the tables."""
        face.stale[kind, key] = None
        if not face.is_refreshing:
            face.is_refreshing = True
            self.jobs.start(face, self._refresh_all(face))

    def _refresh_all(self, face: Face) -> Job:
        while face.stale:
            kind, key = next(iter(face.stale))
            del face.stale[kind, key]
            if face in (self.wanted[kind].get(key) or ()):
                self.tell_aggregate(face, kind, key)
            if face.stale:
                yield face if face.is_full else None
        face.is_refreshing = False

    def tell_aggregate(self, face: Face, kind: int, key: bytes, interest_id: int | None = None) -> None:
        """One declaration, on the interest's own key, stands for all that intersect it."""
        infos = [info for _, info in self.current(face, kind, key)]
        info = None
        if infos:  # a queryable is complete for the whole only if it covers it, which a part cannot say
            info = 0 if kind == QUERYABLE else merged(infos)
        self._settle(face, kind, key, info, True, interest_id)

    def _settle(
        self, face: Face, kind: int, key: bytes, info: int | None, wanted: bool, interest_id: int | None = None
    ) -> None:
        told = face.told[kind].get(key)
        if info is None:
            if told is not None:
                del face.told[kind][key]
                face.undeclare(kind, told[0], key)
        elif wanted and (told is None or told[1] != info or interest_id is not None):
            id = face.next_id() if told is None else told[0]
            face.told[kind][key] = (id, info)
            face.declare(kind, id, key, info, interest_id)

    def tell_all(self, face: Face) -> Job:
        """Declare everything to a new face that hears everything, in steps. Later changes are declared as they occur."""
        for kind, table in self.tables.items():
            for number, resource in enumerate(table.values()):
                self.tell(face, kind, resource)
                if number % STEP == STEP - 1:
                    yield face if face.is_full else None

    def answer(self, face: Face, interest: Interest) -> Job:
        """Reply to an interest with the current declarations, in steps.

        Later declarations are sent as they occur, like those of any other interest. The reply does not repeat these.
        """
        last_id = face.last_id
        for kind in KINDS:
            if face.is_full:
                yield face
            if not interest.wants(kind):
                continue
            if interest.options & AGGREGATE and interest.key is not None:
                if interest.mode & FUTURE:
                    self.tell_aggregate(face, kind, interest.key, interest.id)
                elif self.current(face, kind, interest.key):
                    face.declare(kind, 0, interest.key, 0, interest.id)
                continue
            table = self.tables[kind]
            found = table.values() if interest.key is None else (yield from table.walk(interest.key))
            for number, resource in enumerate(found):
                if number % STEP == STEP - 1:
                    yield face if face.is_full else None
                info = self.info(face, kind, resource)
                if info is None:
                    continue
                if not interest.mode & FUTURE:
                    face.declare(kind, 0, resource.key, info, interest.id)  # as 1.10.2 does: it cannot be taken back
                elif resource.key not in face.told[kind] or face.told[kind][resource.key][0] <= last_id:
                    self._settle(face, kind, resource.key, info, True, interest.id)

    def stop_telling(self, face: Face, interest: Interest) -> Job:
        """The interest has ended. A token that no other one asked for is known to nobody any more, nor is what stood for many;
        whatever else it was told of is still taken back when it is gone: the face may go on to believe in it, as ours do."""
        for kind, told in face.told.items():
            if not interest.wants(kind):
                continue
            keys = list(told) if kind == TOKEN else [interest.key] if interest.options & AGGREGATE else []
            for number, key in enumerate(keys):
                if number % STEP == STEP - 1:
                    yield None
                if key is None or key not in told or not (interest.key is None or intersects(interest.key, key)):
                    continue
                if not any(face in by_face for by_face in self._wanting(kind, key)):
                    del told[key]
