# SPDX-License-Identifier: Apache-2.0
"""Who has what: subscribers, queryables and tokens of every face, and telling those who are to know.

A declaration is told to a face under its own key expression, once however many have it, and taken back when the last of
them is gone. A face never hears of what it declared itself, with two exceptions: the application, which may publish to itself,
and the tokens of a client.
"""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from zenlake.keyexpr import includes, intersects
from zenlake.network.access import EGRESS
from zenlake.network.face import (
    CURRENT,
    DECLARING,
    FUTURE,
    KINDS,
    SUBSCRIBER,
    TOKEN,
    Aggregate,
    Face,
    Interest,
)
from zenlake.network.forward import Epoch
from zenlake.network.roles import Stand
from zenlake.network.tree import KeyTree
from zenlake.values import WhatAmI

if TYPE_CHECKING:
    from zenlake.network.aggregation import Aggregation

__all__ = ["Declarations", "Resource", "passes"]

COMPLETE = 1
MOST = 1_000_000  # declarations of one face


class Resource:
    """A key expression that somebody declared something on."""

    __slots__ = ("holders", "key")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.holders: dict[Face, dict[int, int]] = {}
        """For each face the ids under which it declared this, and what it said about each."""


def passes(source: Face, target: Face) -> bool:
    """Whether messages of one face may go to another."""
    return source.group != target.group or (source is target and source.is_application)


def shares(holder: Face, face: Face, kind: int) -> bool:
    """Return whether a face may be sent the declarations of another. A client is sent its own tokens too, since 1.9."""
    if passes(face, holder):
        return True
    return kind == TOKEN and holder is face and face.stand is Stand.SOUTH and face.whatami is WhatAmI.CLIENT


def merged(infos: list[int]) -> int:
    """What several queryables are together: complete if one is, at the distance of the nearest such."""
    complete = [info for info in infos if info & COMPLETE]
    return min(complete or infos)


class Declarations:
    """The tables of one node. Guarded by the node's lock."""

    def __init__(self, counters: Counter[str]) -> None:
        self.faces: list[Face] = []
        self.tables: dict[int, KeyTree[Resource]] = {kind: KeyTree() for kind in KINDS}
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
        elif len(known) >= MOST:
            self.counters["too many declarations"] += 1
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

    def forget(self, face: Face) -> None:
        """It is gone, and all that it had."""
        for kind, known in face.declared.items():
            for id in list(known):
                self.undeclare(face, kind, id)

    # Who is told

    def info(self, face: Face, kind: int, resource: Resource) -> int | None:
        """What to tell a face about a resource; None if nobody whom it could reach has it, or it may not know."""
        if self._hides(face, kind, resource.key):
            return None
        infos = [
            info for holder, ids in resource.holders.items() if shares(holder, face, kind) for info in ids.values()
        ]  # fmt: skip
        return merged(infos) if infos else None

    @staticmethod
    def _hides(face: Face, kind: int, key: bytes) -> bool:
        """Return whether a deny rule hides a key from a face, also inside an aggregate. `Face.declare` checks the rest."""
        return face.guard is not None and face.guard.denies(EGRESS, DECLARING[kind], key)

    def current(self, face: Face, kind: int, key: bytes | None) -> list[tuple[bytes, int]]:
        """What a face could be told now that intersects a key."""
        table = self.tables[kind]
        found = table.values() if key is None else table.matching(key)
        told = ((resource.key, self.info(face, kind, resource)) for resource in found)
        return [(key, info) for key, info in told if info is not None]

    def _changed(self, kind: int, resource: Resource, is_news: bool = True, loser: Face | None = None) -> None:
        self.epoch.number += 1
        for face in self.faces:
            if face.is_told_all or face.interests or resource.key in face.told[kind]:
                self.tell(face, kind, resource, is_news, loser)
        self.on_change(kind, resource.key)

    def tell(
        self, face: Face, kind: int, resource: Resource, is_news: bool = True, loser: Face | None = None
    ) -> None:  # fmt: skip
        """Bring what a face knows of a resource up to date."""
        key, info = resource.key, self.info(face, kind, resource)
        if face.is_told_all:
            self._settle(face, kind, key, info, True)
            return
        known = key in face.told[kind]
        asked, tells = False, is_news or known or kind != TOKEN
        for interest in face.interests.values():
            if not (interest.answered and interest.mode & FUTURE and interest.wants(kind)) or interest.is_aggregate:
                continue
            if interest.key is None or intersects(interest.key, key):
                asked, tells = True, tells or interest.mode & CURRENT != 0
        for aggregate in face.aggregates.matching(key):
            if kind in aggregate.kinds and aggregate.key != key:
                self._settle_aggregate(face, kind, aggregate, False)
        self._settle_own(face, kind, key, info, asked and tells)
        if kind == TOKEN and loser is not None and info is None and asked and not known:
            self._tell_end(face, key, loser)

    def _tell_end(self, face: Face, key: bytes, loser: Face) -> None:
        """Nobody has a token any more: by key, as 1.10.2, to one who asked for news only and so never knew of it."""
        if shares(loser, face, TOKEN):
            face.undeclare(TOKEN, 0, key)

    # Aggregates: one declaration, on the key of the interest, for all that intersect it

    def begin_aggregate(self, face: Face, interest: Interest) -> None:
        """Remember the key of an aggregate interest, for news."""
        assert interest.key is not None
        aggregate = face.aggregates.get(interest.key)
        if aggregate is None:
            aggregate = Aggregate(interest.key)
            face.aggregates.insert(interest.key, aggregate)
        for kind in KINDS:
            if interest.wants(kind):
                aggregate.kinds[kind] = True

    def aggregate_info(self, face: Face, kind: int, key: bytes) -> int | None:
        """Merge what intersects a key. A queryable is complete for the key only if its own key includes it."""
        infos = []
        for resource in self.tables[kind].matching(key):
            info = self.info(face, kind, resource)
            if info is not None:
                infos.append(info if includes(resource.key, key) else info & ~COMPLETE)
        return merged(infos) if infos else None

    def _settle_own(
        self, face: Face, kind: int, key: bytes, info: int | None, wanted: bool, interest_id: int | None = None
    ) -> None:
        """Settle a declaration under its own key, which may be the key of an aggregate too: then the aggregate's info holds."""
        aggregate = face.aggregates.get(key)
        if aggregate is not None and kind in aggregate.kinds:
            self._settle_aggregate(face, kind, aggregate, wanted, interest_id)
        else:
            self._settle(face, kind, key, info, wanted, interest_id)

    def _settle_aggregate(
        self, face: Face, kind: int, aggregate: Aggregate, wanted: bool, interest_id: int | None = None
    ) -> None:
        key, is_asked = aggregate.key, aggregate.kinds[kind]
        self._settle(face, kind, key, self.aggregate_info(face, kind, key), wanted or is_asked, interest_id)
        if not is_asked and key not in face.told[kind]:
            self._forget_aggregate(face, kind, aggregate)

    @staticmethod
    def _forget_aggregate(face: Face, kind: int, aggregate: Aggregate) -> None:
        del aggregate.kinds[kind]
        if not aggregate.kinds:
            face.aggregates.remove(aggregate.key)

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

    def tell_all(self, face: Face) -> None:
        """All that there is, to a new face that hears everything."""
        for kind, table in self.tables.items():
            for resource in table.values():
                self.tell(face, kind, resource)

    def answer(self, face: Face, interest: Interest) -> None:
        """The current declarations that an interest asked for."""
        for kind in KINDS:
            if not interest.wants(kind):
                continue
            if interest.is_aggregate and interest.key is not None:
                info = self.aggregate_info(face, kind, interest.key)
                if interest.mode & FUTURE:
                    self._settle(face, kind, interest.key, info, True, interest.id)
                elif info is not None:
                    face.declare(kind, 0, interest.key, info, interest.id)
                continue
            for key, info in self.current(face, kind, interest.key):
                if interest.mode & FUTURE:
                    self._settle_own(face, kind, key, info, True, interest.id)
                else:
                    face.declare(kind, 0, key, info, interest.id)  # as 1.10.2 does: it cannot be taken back

    def stop_telling(self, face: Face, interest: Interest) -> None:
        """End an interest. Tokens and aggregates that no other interest intersects are forgotten, without an undeclaration.

        All other declarations are still withdrawn when they end: the face may go on to believe in them, as ours do.
        """
        others = [other for other in face.interests.values() if other is not interest and other.mode & FUTURE]

        def is_wanted(kind: int, key: bytes) -> bool:
            return any(o.wants(kind) and (o.key is None or intersects(o.key, key)) for o in others)

        if interest.wants(TOKEN):
            told = face.told[TOKEN]
            for key in list(told):
                if (interest.key is None or intersects(interest.key, key)) and not is_wanted(TOKEN, key):
                    del told[key]
        aggregate = face.aggregates.get(interest.key) if interest.is_aggregate and interest.key is not None else None
        if aggregate is None:
            return
        same = [other for other in others if other.is_aggregate and other.key == aggregate.key and other.answered]
        for kind in list(aggregate.kinds):
            if not interest.wants(kind) or any(other.wants(kind) for other in same):
                continue
            aggregate.kinds[kind] = False
            if not is_wanted(kind, aggregate.key):
                face.told[kind].pop(aggregate.key, None)
            if aggregate.key not in face.told[kind]:
                self._forget_aggregate(face, kind, aggregate)
