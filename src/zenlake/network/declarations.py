# SPDX-License-Identifier: Apache-2.0
"""Tables of subscribers, queryables and tokens by face, and their propagation to other faces.

A declaration is sent to a face under its own key expression, once for any number of holders. It is withdrawn when its last
holder is gone. A face never receives its own declarations, with two exceptions: the application, which may publish to
itself, and the tokens of a client.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING

from zenlake.core import peer_limits
from zenlake.core.enums import WhatAmI
from zenlake.core.keyexpr import includes, intersects
from zenlake.network.access_control import EGRESS
from zenlake.network.face import (
    CURRENT,
    DECLARATION,
    DECLARATION_NAMES,
    FUTURE,
    INTEREST,
    KINDS,
    SUBSCRIBER,
    TOKEN,
    Aggregate,
    Face,
    FaceInterest,
    weigh_key,
)
from zenlake.network.forwarding import RouteVersion
from zenlake.network.jobs import Job, Jobs
from zenlake.network.keyexpr_tree import KeyExprTree
from zenlake.network.roles import FaceRole

if TYPE_CHECKING:
    from zenlake.network.aggregation import Aggregation

__all__ = ["Declarations", "DeclaredKey", "may_pass"]

COMPLETE = 1

InterestsByFace = dict[Face, dict[FaceInterest, None]]
"""Plain interests on one key, by face."""
STEP = 8  # declarations in one step of a job


class DeclaredKey:
    """A key expression with declarations."""

    __slots__ = ("holders", "key")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.holders: dict[Face, dict[int, int]] = {}
        """For each face: the ids under which it declared this resource, with the info of each."""


def may_pass(source: Face, target: Face) -> bool:
    """Return whether messages may pass from one face to another."""
    return source.group != target.group or (source is target and source.is_application)


def can_share(holder: Face, face: Face, kind: int) -> bool:
    """Return whether a face may be sent the declarations of another. A client is sent its own tokens too, since 1.9."""
    if may_pass(face, holder):
        return True
    return kind == TOKEN and holder is face and face.role is FaceRole.SOUTH and face.whatami is WhatAmI.CLIENT


def merge_info(infos: list[int]) -> int:
    """Merge the infos of several queryables: complete if one is, with the distance of the nearest complete one."""
    complete = [info for info in infos if info & COMPLETE]
    return min(complete or infos)


class Declarations:
    """The tables of one node. Guarded by the node's lock."""

    def __init__(self, counters: Counter[str], jobs: Jobs) -> None:
        self.jobs = jobs
        self.faces: list[Face] = []
        self.tables: dict[int, KeyExprTree[DeclaredKey]] = {kind: KeyExprTree() for kind in KINDS}
        self.interest_index: dict[int, KeyExprTree[InterestsByFace]] = {kind: KeyExprTree() for kind in KINDS}
        """Interests in future declarations, by kind and key."""
        self.keyless_interests: dict[int, InterestsByFace] = {kind: {} for kind in KINDS}
        """Interests without a key."""
        self.aggregates: KeyExprTree[dict[Face, Aggregate]] = KeyExprTree()
        """Aggregate interests in future declarations, by key."""
        self.epoch = RouteVersion()
        self.counters = counters
        self.aggregation: "Aggregation | None" = None
        """Wide keys that replace declarations of the application, if configured."""
        self.on_change: Callable[[int, bytes], None] = lambda kind, key: None

    # Declarations received from a face

    def declare(self, face: Face, kind: int, id: int, key: bytes, info: int = 0, is_new: bool = True) -> None:
        """Add a declaration of a face.

        With `is_new` False, the declaration existed before and was only requested now. Then interests in future declarations
        do not receive it.
        """
        if self.aggregation is not None and face.is_application and kind == SUBSCRIBER:
            key = self.aggregation.widen_subscriber_key(key)
        declared_keys = face.declared_keys[kind]
        if id in declared_keys and declared_keys[id] != key:
            self.undeclare(face, kind, id)
        if id not in declared_keys and not face.charge(peer_limits.Resource.DECLARATIONS, DECLARATION + weigh_key(key)):
            return
        table = self.tables[kind]
        resource = table.get(key)
        if resource is None:
            resource = DeclaredKey(key)
            table.insert(key, resource)
        declared_keys[id] = key
        ids = resource.holders.setdefault(face, {})
        if ids.get(id) != info:
            ids[id] = info
            self._notify_change(kind, resource, is_new)

    def undeclare(self, face: Face, kind: int, id: int) -> None:
        key = face.declared_keys[kind].pop(id, None)
        if key is None:
            self.counters["undeclarations of unknown ids"] += 1
            return
        face.refund(peer_limits.Resource.DECLARATIONS, DECLARATION + weigh_key(key))
        resource = self.tables[kind].get(key)
        assert resource is not None
        ids = resource.holders[face]
        del ids[id]
        if not ids:
            del resource.holders[face]
        if not resource.holders:
            self.tables[kind].remove(key)
        self._notify_change(kind, resource, is_new=False, former_holder=face)

    def end_unknown_token(self, face: Face, key: bytes) -> None:
        """Handle the end of a token that the face never declared: it is older than our interest in future declarations."""
        self._notify_change(TOKEN, self.tables[TOKEN].get(key) or DeclaredKey(key), is_new=False, former_holder=face)

    def forget(self, face: Face) -> Job:
        """Remove all declarations of a face that is gone, in steps."""
        for kind, declared_keys in face.declared_keys.items():
            for number, id in enumerate(list(declared_keys)):
                if id in declared_keys:
                    self.undeclare(face, kind, id)
                if number % STEP == STEP - 1:
                    yield None
        for number, aggregate in enumerate(list(face.aggregates.values())):
            self._forget_aggregate(face, aggregate)
            if number % STEP == STEP - 1:
                yield None

    # Propagation to other faces

    def info_for(self, face: Face, kind: int, resource: DeclaredKey) -> int | None:
        """Return the info of a resource for a face, or None if no reachable holder has it or access control hides it."""
        if self._is_hidden(face, kind, resource.key):
            return None
        infos = [
            info for holder, ids in resource.holders.items()
            if holder.is_open and can_share(holder, face, kind) for info in ids.values()
        ]  # fmt: skip
        return merge_info(infos) if infos else None

    @staticmethod
    def _is_hidden(face: Face, kind: int, key: bytes) -> bool:
        """Return whether a deny rule hides a key from a face, also inside an aggregate. `Face.declare` checks the rest."""
        return face.guard is not None and face.guard.denies(EGRESS, DECLARATION_NAMES[kind], key)

    def _notify_change(
        self, kind: int, resource: DeclaredKey, is_new: bool = True, former_holder: Face | None = None
    ) -> None:
        self.epoch.number += 1
        interests: dict[Face, list[Iterable[FaceInterest]]] = {}
        for by_face in self._find_interests(kind, resource.key):
            for face, face_interests in by_face.items():
                interests.setdefault(face, []).append(face_interests)
        for aggregates in self.aggregates.find(resource.key):
            for face, aggregate in list(aggregates.items()):
                if kind in aggregate.kinds:
                    self._refresh(face, kind, aggregate.key)
        for face in self.faces:
            if face.receives_all_declarations or face in interests or resource.key in face.sent_declarations[kind]:
                self.update(face, kind, resource, is_new, former_holder, interests.get(face, ()))
        self.on_change(kind, resource.key)

    def _find_interests(self, kind: int, key: bytes) -> list[InterestsByFace]:
        """Return the interests in declarations of a kind on a key."""
        matches = self.interest_index[kind].find(key)
        keyless = self.keyless_interests[kind]
        return [*matches, keyless] if keyless else matches

    def add_interest(self, interest: FaceInterest) -> None:
        """Add a plain interest in future declarations to the index. `begin_aggregate` adds the others."""
        for kind in KINDS:
            if not interest.wants(kind) or interest.is_aggregate:
                continue
            by_face = (
                self.keyless_interests[kind] if interest.key is None else self.interest_index[kind].get(interest.key)
            )
            if by_face is None:
                by_face = {}
                self.interest_index[kind].insert(interest.key or b"", by_face)
            by_face.setdefault(interest.face, {})[interest] = None

    def remove_interest(self, interest: FaceInterest) -> None:
        """Remove an interest from the index."""
        for kind in KINDS:
            if not interest.wants(kind):
                continue
            by_face = (
                self.keyless_interests[kind] if interest.key is None else self.interest_index[kind].get(interest.key)
            )
            if by_face is None or interest.face not in by_face:
                continue
            by_face[interest.face].pop(interest, None)
            if not by_face[interest.face]:
                del by_face[interest.face]
            if not by_face and interest.key is not None:
                self.interest_index[kind].remove(interest.key)

    def update(
        self, face: Face, kind: int, resource: DeclaredKey, is_new: bool = True, former_holder: Face | None = None,
        interests: Iterable[Iterable[FaceInterest]] = (),
    ) -> None:  # fmt: skip
        """Update the declaration of a resource to a face. `interests` are those of the face in the resource, by their keys."""
        key, info = resource.key, self.info_for(face, kind, resource)
        if face.receives_all_declarations:
            self._sync_declaration(face, kind, key, info, True)
            return
        is_declared = key in face.sent_declarations[kind]
        has_interest, sends = False, is_new or is_declared or kind != TOKEN
        for interest in (interest for face_interests in interests for interest in face_interests):
            if interest.is_answered:
                has_interest, sends = True, sends or interest.mode & CURRENT != 0
                if sends:
                    break
        aggregate = face.aggregates.get(key)
        if aggregate is not None and kind in aggregate.kinds:
            self._refresh(face, kind, key, has_interest and sends)
        else:
            self._sync_declaration(face, kind, key, info, has_interest and sends)
        if kind == TOKEN and former_holder is not None and info is None and has_interest and not is_declared:
            self._notify_end(face, key, former_holder)

    def _notify_end(self, face: Face, key: bytes, former_holder: Face) -> None:
        """Withdraw a token by key, as 1.10.2, for an interest in future declarations that never received the token."""
        if can_share(former_holder, face, TOKEN):
            face.undeclare(TOKEN, 0, key)

    # Aggregates: one declaration, on the key of the interest, for all that intersect it

    def begin_aggregate(self, face: Face, interest: FaceInterest) -> None:
        """Count an aggregate interest in future declarations."""
        key = interest.key
        assert key is not None
        aggregate = face.aggregates.get(key)
        if aggregate is None:
            if not face.charge(peer_limits.Resource.INTERESTS, INTEREST + weigh_key(key)):
                return
            aggregate = face.aggregates[key] = Aggregate(key)
            by_face = self.aggregates.get(key)
            if by_face is None:
                by_face = {}
                self.aggregates.insert(key, by_face)
            by_face[face] = aggregate
        interest.is_counted = True
        for kind in KINDS:
            if interest.wants(kind):
                aggregate.kinds[kind] = aggregate.kinds.get(kind, 0) + 1

    def _forget_aggregate(self, face: Face, aggregate: Aggregate) -> None:
        key = aggregate.key
        if face.aggregates.pop(key, None) is None:
            return
        face.refund(peer_limits.Resource.INTERESTS, INTEREST + weigh_key(key))
        by_face = self.aggregates.get(key)
        if by_face is not None:
            by_face.pop(face, None)
            if not by_face:
                self.aggregates.remove(key)

    def _aggregate_info(self, face: Face, kind: int, key: bytes) -> Generator[Face | None, None, int | None]:
        """Merge what intersects a key, in steps. A queryable is complete for the key only if its own key includes it."""
        infos = []
        resources = yield from self.tables[kind].walk(key)
        for number, resource in enumerate(resources):
            if number % STEP == STEP - 1:
                yield None
            info = self.info_for(face, kind, resource)
            if info is not None:
                infos.append(info if includes(resource.key, key) else info & ~COMPLETE)
        return merge_info(infos) if infos else None

    def _refresh(self, face: Face, kind: int, key: bytes, is_wanted: bool = False) -> None:
        """Update the declaration of an aggregate in a job: each costs a search in the tables."""
        face.stale_aggregates[kind, key] = is_wanted or face.stale_aggregates.get((kind, key), False)
        if not face.is_refreshing:
            face.is_refreshing = True
            self.jobs.start(face, self._refresh_all(face))

    def _refresh_all(self, face: Face) -> Job:
        while face.stale_aggregates:
            kind, key = next(iter(face.stale_aggregates))
            is_wanted = face.stale_aggregates.pop((kind, key))
            yield from self._sync_aggregate(face, kind, key, is_wanted)
            if face.stale_aggregates:
                yield face if face.is_full else None
        face.is_refreshing = False

    def _sync_aggregate(
        self, face: Face, kind: int, key: bytes, is_wanted: bool, interest_id: int | None = None
    ) -> Job:  # fmt: skip
        aggregate = face.aggregates.get(key)
        if aggregate is None or kind not in aggregate.kinds:
            return
        info = yield from self._aggregate_info(face, kind, key)
        if kind not in aggregate.kinds:  # the interest ended during the search
            return
        self._sync_declaration(face, kind, key, info, is_wanted or aggregate.kinds[kind] > 0, interest_id)
        self._forget_kind(face, kind, aggregate)

    def _forget_kind(self, face: Face, kind: int, aggregate: Aggregate) -> None:
        """Forget a kind that has neither an interest nor a declaration to withdraw."""
        if not aggregate.kinds[kind] and aggregate.key not in face.sent_declarations[kind]:
            del aggregate.kinds[kind]
            if not aggregate.kinds:
                self._forget_aggregate(face, aggregate)

    def _sync_declaration(
        self, face: Face, kind: int, key: bytes, info: int | None, is_wanted: bool, interest_id: int | None = None
    ) -> None:
        previous = face.sent_declarations[kind].get(key)
        if info is None:
            if previous is not None:
                del face.sent_declarations[kind][key]
                face.undeclare(kind, previous[0], key)
        elif is_wanted and (previous is None or previous[1] != info or interest_id is not None):
            id = face.next_id() if previous is None else previous[0]
            face.sent_declarations[kind][key] = (id, info)
            face.declare(kind, id, key, info, interest_id)

    def declare_all(self, face: Face) -> Job:
        """Declare everything to a new face that receives all declarations, in steps. Later changes are declared as they occur."""
        for kind, table in self.tables.items():
            for number, resource in enumerate(table.values()):
                self.update(face, kind, resource)
                if number % STEP == STEP - 1:
                    yield face if face.is_full else None

    def send_current(self, face: Face, interest: FaceInterest) -> Job:
        """Reply to an interest with the current declarations, in steps.

        Later declarations are sent as they occur, like those of any other interest. The reply does not repeat these.
        """
        last_id = face.last_id
        for kind in KINDS:
            if face.is_full:
                yield face
            if not interest.wants(kind):
                continue
            if interest.is_aggregate and interest.key is not None:
                if interest.mode & FUTURE:
                    yield from self._sync_aggregate(face, kind, interest.key, True, interest.id)
                    continue
                info = yield from self._aggregate_info(face, kind, interest.key)
                if info is not None:
                    face.declare(kind, 0, interest.key, info, interest.id)
                continue
            table = self.tables[kind]
            resources = table.values() if interest.key is None else (yield from table.walk(interest.key))
            for number, resource in enumerate(resources):
                if number % STEP == STEP - 1:
                    yield face if face.is_full else None
                key, info = resource.key, self.info_for(face, kind, resource)
                if info is None:
                    continue
                if not interest.mode & FUTURE:
                    face.declare(kind, 0, key, info, interest.id)  # as 1.10.2: it cannot be withdrawn
                elif key not in face.sent_declarations[kind] or face.sent_declarations[kind][key][0] <= last_id:
                    if key in face.aggregates and kind in face.aggregates[key].kinds:
                        yield from self._sync_aggregate(face, kind, key, True, interest.id)
                    else:
                        self._sync_declaration(face, kind, key, info, True, interest.id)

    def end_interest(self, face: Face, interest: FaceInterest) -> Job:
        """End an interest. Tokens and aggregates that no other interest intersects are forgotten, without an undeclaration.

        All other declarations are still withdrawn when they end: the face may keep them in its tables, as our faces do.
        """
        if interest.wants(TOKEN):
            sent_tokens = face.sent_declarations[TOKEN]
            for number, key in enumerate(list(sent_tokens)):
                if number % STEP == STEP - 1:
                    yield None
                if key not in sent_tokens or not (interest.key is None or intersects(interest.key, key)):
                    continue
                if not self._has_interest(face, TOKEN, key):
                    del sent_tokens[key]
        aggregate = face.aggregates.get(interest.key) if interest.is_counted and interest.key is not None else None
        if aggregate is None:
            return
        interest.is_counted = False
        for kind in list(aggregate.kinds):
            if not interest.wants(kind) or not aggregate.kinds[kind]:
                continue
            aggregate.kinds[kind] -= 1
            if aggregate.kinds[kind]:
                continue
            if not self._has_interest(face, kind, aggregate.key):
                face.sent_declarations[kind].pop(aggregate.key, None)
            self._forget_kind(face, kind, aggregate)

    def _has_interest(self, face: Face, kind: int, key: bytes) -> bool:
        """Return whether an interest of a face in future declarations intersects a key."""
        if any(face in by_face for by_face in self._find_interests(kind, key)):
            return True
        aggregates = (by_face.get(face) for by_face in self.aggregates.find(key))
        return any(aggregate is not None and aggregate.kinds.get(kind) for aggregate in aggregates)
