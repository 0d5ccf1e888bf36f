# SPDX-License-Identifier: Apache-2.0
"""Interests of south faces, answered from the tables of this node and of its north faces.

An interest is passed on to every north face. Its D_FINAL is sent when all of these have sent theirs, or after a timeout.
"""

import heapq
import itertools
from collections import Counter
from collections.abc import Callable

from zenlake.core.keyexpr import includes
from zenlake.core.peer_limits import Resource
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
        self.on_earlier_deadline: Callable[[float], None] = lambda deadline: None
        """Callback for a deadline that is now the earliest."""
        self.on_initial: Callable[[Face], None] = lambda face: None
        """Callback for a peer that has sent all its initial declarations."""
        self._deadlines: list[tuple[float, int, FaceInterest]] = []
        self._count = itertools.count()

    def on_interest(
        self, face: Face, id: int, mode: int, options: int, key: bytes | None, now: float, timeout: float | None = None
    ) -> FaceInterest | None:
        """Handle an interest of a face."""
        aggregation = self.declarations.aggregation
        if aggregation is not None and face.is_application and options & KINDS[SUBSCRIBER] and key is not None:
            key = aggregation.add_publisher(id, key)
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
            self.declarations.add_interest(interest)
        for north in self.declarations.faces:
            if north.needs_interests and may_pass(face, north):
                self._forward(north, interest)
        if interest.pending and mode & CURRENT:
            deadline = now + (self.timeout if timeout is None else timeout)
            heapq.heappush(self._deadlines, (deadline, next(self._count), interest))
            if self._deadlines[0][2] is interest:
                self.on_earlier_deadline(deadline)
        else:
            self._start_reply(interest)
        return interest

    def _forward(self, north: Face, interest: FaceInterest) -> None:
        id = north.next_id()
        options = interest.options & (ALL_KINDS | AGGREGATE)
        # Declarations of key ids are not requested: keys are sent in full, or with ids of the neighbour.
        options |= RESTRICTED if interest.key is not None else 0
        if not north.send_interest(id, interest.mode, options, interest.key):
            return
        sent_interest = SentInterest(north, id, interest)
        north.sent_interests[id] = sent_interest
        interest.sent_interests.append(sent_interest)
        if interest.mode & CURRENT and not interest.is_answered:
            interest.pending.add(sent_interest)

    def _start_reply(self, interest: FaceInterest) -> None:
        if not interest.is_answered and not interest.is_replying:
            interest.is_replying = True
            interest.pending.clear()
            self.jobs.start(interest.face, self._reply(interest))

    def _reply(self, interest: FaceInterest) -> Job:
        """Reply in steps, while there is room in the face's backlog."""
        face = interest.face
        if face.is_full:
            yield face
        if interest.is_answered:  # the interest has ended
            return
        interest.is_answered = True
        if interest.mode & FUTURE and interest.is_aggregate:
            self.declarations.begin_aggregate(face, interest)
        if interest.mode & CURRENT:
            yield from self.declarations.send_current(face, interest)
        if face.interests.get(interest.id) is not interest:
            return
        face.send_final(interest.id)  # 1.10.2 sends it also for interests in future declarations only
        if not interest.mode & FUTURE:
            self._remove(interest)

    def end(self, face: Face, id: int) -> None:
        """End an interest of a face."""
        aggregation = self.declarations.aggregation
        interest_id = aggregation.remove_publisher(id) if aggregation is not None and face.is_application else id
        interest = None if interest_id is None else face.interests.get(interest_id)
        if interest is None:
            return
        self._remove(interest)
        self.jobs.start(face, self.declarations.end_interest(face, interest))

    def _remove(self, interest: FaceInterest) -> None:
        interest.is_answered = True
        if interest.face.interests.pop(interest.id, None) is not None:
            interest.face.refund(Resource.INTERESTS, interest.size)
        if interest.mode & FUTURE:
            self.declarations.remove_interest(interest)
        for sent_interest in interest.sent_interests:
            if sent_interest.face.sent_interests.pop(sent_interest.id, None) is not None:
                self._uncover(sent_interest)
                if interest.mode & FUTURE:
                    sent_interest.face.send_interest_final(sent_interest.id)
        interest.sent_interests.clear()
        interest.pending.clear()

    # Declarations of north faces

    def on_declaration(self, face: Face, interest_id: int, kind: int, key: bytes, info: int) -> bool:
        """Handle a declaration in reply to an interest. Return True if it is only a reply and will not be withdrawn."""
        sent_interest = face.sent_interests.get(interest_id)
        if sent_interest is None or sent_interest.interest.mode & FUTURE:
            return False
        sent_interest.interest.face.declare(kind, 0, key, info, sent_interest.interest.id)
        return True

    def on_final(self, face: Face, interest_id: int) -> None:
        sent_interest = face.sent_interests.get(interest_id)
        if sent_interest is None:
            if interest_id == 0 and not face.has_initial_final:
                face.has_initial_final = True
                self.on_initial(face)
            return
        if not sent_interest.is_final:
            sent_interest.is_final = True
            self._cover(sent_interest)
        self._mark_final(sent_interest)

    def _mark_final(self, sent_interest: SentInterest) -> None:
        interest = sent_interest.interest
        interest.pending.discard(sent_interest)
        if not interest.pending:
            self._start_reply(interest)

    def _cover(self, sent_interest: SentInterest) -> None:
        """Record that all subscribers of a face on the key of the interest are known."""
        interest = sent_interest.interest
        if interest.mode == CURRENT | FUTURE and interest.wants(SUBSCRIBER) and interest.key is not None:
            sent_interests = sent_interest.face.covered_keys.get(interest.key)
            if sent_interests is None:
                sent_interest.face.covered_keys.insert(interest.key, [sent_interest])
            else:
                sent_interests.append(sent_interest)
            self.declarations.epoch.number += 1

    def _uncover(self, sent_interest: SentInterest) -> None:
        key = sent_interest.interest.key
        sent_interests = None if key is None else sent_interest.face.covered_keys.get(key)
        if key is not None and sent_interests is not None and sent_interest in sent_interests:
            sent_interests.remove(sent_interest)
            if not sent_interests:
                sent_interest.face.covered_keys.remove(key)
            self.declarations.epoch.number += 1

    @staticmethod
    def is_covered(face: Face, key: bytes) -> Walk[bool]:
        """Find whether all subscribers of a face that match a key are known."""
        matches = yield from face.covered_keys.walk(key)
        for number, sent_interests in enumerate(matches, 1):
            if number % MAX_STEPS == 0:
                yield
            if sent_interests and includes(sent_interests[0].interest.key or b"", key):
                return True
        return False

    # New and closed faces

    def add_face(self, north: Face) -> None:
        """Send all current interests to a new north face."""
        if not north.needs_interests:
            return
        for face in self.declarations.faces:
            for interest in list(face.interests.values()):
                if may_pass(face, north):
                    self._forward(north, interest)

    def remove_face(self, face: Face) -> Job:
        """Drop the interests of a face that is gone, and those that were passed on to it, in steps."""
        for number, interest in enumerate(list(face.interests.values())):
            self._remove(interest)
            if number % STEP == STEP - 1:
                yield None
        for number, sent_interest in enumerate(list(face.sent_interests.values())):
            face.sent_interests.pop(sent_interest.id, None)
            if sent_interest in sent_interest.interest.sent_interests:
                sent_interest.interest.sent_interests.remove(sent_interest)
            self._mark_final(sent_interest)
            if number % STEP == STEP - 1:
                yield None

    # Time

    def next_timeout(self) -> float | None:
        while self._deadlines and self._deadlines[0][2].is_answered:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def on_timeout(self, now: float) -> None:
        """Reply to interests that are due, a few at a time: `next_timeout` is then in the past."""
        for _ in range(STEP):
            if not self._deadlines or self._deadlines[0][0] > now:
                break
            interest = heapq.heappop(self._deadlines)[2]
            if not interest.is_answered:
                self.counters["interests unanswered in time"] += 1
                self._start_reply(interest)
