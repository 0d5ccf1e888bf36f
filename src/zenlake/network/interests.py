# SPDX-License-Identifier: Apache-2.0
"""Interests of south faces, answered from the tables of this node and of its north faces.

An interest is passed on to every north face. Its D_FINAL is sent when all of these have sent theirs, or after a timeout.
"""

import heapq
import itertools
from collections import Counter
from collections.abc import Callable

from zenlake.core.keyexpr import includes
from zenlake.core.limits import Resource
from zenlake.network.declarations import STEP, Declarations, may_pass
from zenlake.network.face import (
    AGGREGATE,
    CURRENT,
    FUTURE,
    KINDS,
    RESTRICTED,
    SUBSCRIBER,
    TOKEN,
    Face,
    FaceInterest,
    SentInterest,
)
from zenlake.network.jobs import Job
from zenlake.network.keyexpr_tree import MAX_STEPS, Walk

__all__ = ["Interests"]

ALL_KINDS = 0x0E
K = 0x01


class Interests:
    """Interests of all faces. Guarded by the node's lock."""

    def __init__(self, declarations: Declarations, counters: Counter[str], timeout: float) -> None:
        self.declarations = declarations
        self.jobs = declarations.jobs
        self.counters = counters
        self.timeout = timeout
        self.sooner: Callable[[float], None] = lambda deadline: None
        """Callback for a deadline that is now the earliest."""
        self.on_initial: Callable[[Face], None] = lambda face: None
        """Callback for a peer that has sent all its initial declarations."""
        self._late: list[tuple[float, int, FaceInterest]] = []
        self._count = itertools.count()

    def interest(
        self, face: Face, id: int, mode: int, options: int, key: bytes | None, now: float, timeout: float | None = None
    ) -> FaceInterest | None:
        """Handle an interest of a face."""
        aggregation = self.declarations.aggregation
        if aggregation is not None and face.is_application and options & KINDS[SUBSCRIBER] and key is not None:
            key = aggregation.join(id, key)
            if key is None:
                return None
        if id in face.interests:
            self.end(face, id)
        if (
            options & KINDS[TOKEN]
        ):  # tokens are declared one by one, and all other kinds with them (probe interest_restricted_ASQT_...)
            options &= ~AGGREGATE
        interest = FaceInterest(face, id, mode, options, key)
        if not face.charge(Resource.INTERESTS, interest.size):
            return None
        face.interests[id] = interest
        if mode & FUTURE:
            self.declarations.want(interest)
        for north in self.declarations.faces:
            if north.is_asked and may_pass(face, north):
                self._ask(north, interest)
        if interest.waiting and mode & CURRENT:
            deadline = now + (self.timeout if timeout is None else timeout)
            heapq.heappush(self._late, (deadline, next(self._count), interest))
            if self._late[0][2] is interest:
                self.sooner(deadline)
        else:
            self._answer(interest)
        return interest

    def _ask(self, north: Face, interest: FaceInterest) -> None:
        id = north.next_id()
        options = interest.options & (ALL_KINDS | AGGREGATE)
        # Declarations of key ids are not requested: keys are sent in full, or with ids of the neighbour.
        options |= RESTRICTED if interest.key is not None else 0
        if not north.ask(id, interest.mode, options, interest.key):
            return
        asked = SentInterest(north, id, interest)
        north.asked[id] = asked
        interest.asked.append(asked)
        if interest.mode & CURRENT and not interest.answered:
            interest.waiting.add(asked)

    def _answer(self, interest: FaceInterest) -> None:
        if not interest.answered and not interest.replying:
            interest.replying = True
            interest.waiting.clear()
            self.jobs.start(interest.face, self._reply(interest))

    def _reply(self, interest: FaceInterest) -> Job:
        """Reply in steps, while there is room in the face's backlog."""
        face = interest.face
        if face.is_full:
            yield face
        if interest.answered:  # the interest has ended
            return
        interest.answered = True
        if interest.mode & FUTURE and interest.is_aggregate:
            self.declarations.begin_aggregate(face, interest)
        if interest.mode & CURRENT:
            yield from self.declarations.answer(face, interest)
        if face.interests.get(interest.id) is not interest:
            return
        face.final(interest.id)  # 1.10.2 sends it also for interests in future declarations only
        if not interest.mode & FUTURE:
            self._drop(interest)

    def end(self, face: Face, id: int) -> None:
        """End an interest of a face."""
        aggregation = self.declarations.aggregation
        known = aggregation.leave(id) if aggregation is not None and face.is_application else id
        interest = None if known is None else face.interests.get(known)
        if interest is None:
            return
        self._drop(interest)
        self.jobs.start(face, self.declarations.end_interest(face, interest))

    def _drop(self, interest: FaceInterest) -> None:
        interest.answered = True
        if interest.face.interests.pop(interest.id, None) is not None:
            interest.face.refund(Resource.INTERESTS, interest.size)
        if interest.mode & FUTURE:
            self.declarations.unwant(interest)
        for asked in interest.asked:
            if asked.face.asked.pop(asked.id, None) is not None:
                self._uncover(asked)
                if interest.mode & FUTURE:
                    asked.face.unask(asked.id)
        interest.asked.clear()
        interest.waiting.clear()

    # Declarations of north faces

    def declared(self, face: Face, interest_id: int, kind: int, key: bytes, info: int) -> bool:
        """Handle a declaration in reply to an interest. Return True if it is only a reply and will not be withdrawn."""
        asked = face.asked.get(interest_id)
        if asked is None or asked.interest.mode & FUTURE:
            return False
        asked.interest.face.declare(kind, 0, key, info, asked.interest.id)
        return True

    def final(self, face: Face, interest_id: int) -> None:
        asked = face.asked.get(interest_id)
        if asked is None:
            if interest_id == 0 and not face.initial_final:
                face.initial_final = True
                self.on_initial(face)
            return
        if not asked.final:
            asked.final = True
            self._cover(asked)
        self._heard(asked)

    def _heard(self, asked: SentInterest) -> None:
        interest = asked.interest
        interest.waiting.discard(asked)
        if not interest.waiting:
            self._answer(interest)

    def _cover(self, asked: SentInterest) -> None:
        """Record that all subscribers of a face on the key of the interest are known."""
        interest = asked.interest
        if interest.mode == CURRENT | FUTURE and interest.wants(SUBSCRIBER) and interest.key is not None:
            those = asked.face.covered.get(interest.key)
            if those is None:
                asked.face.covered.insert(interest.key, [asked])
            else:
                those.append(asked)
            self.declarations.epoch.number += 1

    def _uncover(self, asked: SentInterest) -> None:
        key = asked.interest.key
        those = None if key is None else asked.face.covered.get(key)
        if key is not None and those is not None and asked in those:
            those.remove(asked)
            if not those:
                asked.face.covered.remove(key)
            self.declarations.epoch.number += 1

    @staticmethod
    def covers(face: Face, key: bytes) -> Walk[bool]:
        """Find whether all subscribers of a face that match a key are known."""
        found = yield from face.covered.walk(key)
        for number, those in enumerate(found, 1):
            if number % MAX_STEPS == 0:
                yield
            if those and includes(those[0].interest.key or b"", key):
                return True
        return False

    # New and closed faces

    def opened(self, north: Face) -> None:
        """Send all current interests to a new north face."""
        if not north.is_asked:
            return
        for face in self.declarations.faces:
            for interest in list(face.interests.values()):
                if may_pass(face, north):
                    self._ask(north, interest)

    def closed(self, face: Face) -> Job:
        """Drop the interests of a face that is gone, and those that were passed on to it, in steps."""
        for number, interest in enumerate(list(face.interests.values())):
            self._drop(interest)
            if number % STEP == STEP - 1:
                yield None
        for number, asked in enumerate(list(face.asked.values())):
            face.asked.pop(asked.id, None)
            if asked in asked.interest.asked:
                asked.interest.asked.remove(asked)
            self._heard(asked)
            if number % STEP == STEP - 1:
                yield None

    # Time

    def next_timeout(self) -> float | None:
        while self._late and self._late[0][2].answered:
            heapq.heappop(self._late)
        return self._late[0][0] if self._late else None

    def on_timeout(self, now: float) -> None:
        while self._late and self._late[0][0] <= now:
            interest = heapq.heappop(self._late)[2]
            if not interest.answered:
                self.counters["interests unanswered in time"] += 1
                self._answer(interest)
