# SPDX-License-Identifier: Apache-2.0
"""The node: faces in, faces out. It joins the tables and the routing, and keeps their one lock.

Sans-IO: faces are opened with an outlet that takes messages, messages come in through `on_message`, time through
`now`/`wall` (functions given at birth) and `on_timeout`. Control messages are queued on their face and leave when
`flush` is called, always in the same thread; `wake` asks for that. Whatever is to be sent or called as a consequence
of a message happens after the lock is released.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from zenlake.clock import HybridClock
from zenlake.errors import CloseReason, KeyExprError
from zenlake.keyexpr import validate
from zenlake.limits import DEFAULT_LIMITS, Account, Resource
from zenlake.network.access import INGRESS
from zenlake.network.application import Application
from zenlake.network.declarations import Declarations
from zenlake.network.face import DECLARING, KEY_ID, RESTRICTED, TOKEN, Face, name_interest
from zenlake.network.forward import Reading
from zenlake.network.gossip import Gossip
from zenlake.network.interests import Interests
from zenlake.network.jobs import Job, Jobs
from zenlake.network.queries import Queries, Send
from zenlake.network.roles import Stand
from zenlake.network.routers import Routers
from zenlake.network.routes import Routes
from zenlake.network.tree import Result, Walk
from zenlake.telling import logger
from zenlake.transport.budget import Budget
from zenlake.values import Timestamp, WhatAmI, ZenohId
from zenlake.wire import ids
from zenlake.wire.linkstate import OAM_ID
from zenlake.wire.network import ResponseFinal
from zenlake.wire.reader import Reader

__all__ = ["Node"]

INTEREST, RESPONSE_FINAL, RESPONSE, REQUEST, _, DECLARE, OAM = range(0x19, 0x20)

log = logger("zenlake.node")

STUCK = 5.0  # seconds that a message which must not be dropped may wait for room


class Node:
    """One node of the network, in any of the three roles."""

    def __init__(
        self, zid: bytes, whatami: WhatAmI, *,
        now: Callable[[], float], wall: Callable[[], int],
        lock: Callable[[], AbstractContextManager[object]] = nullcontext,
        stamps: bool | None = None, drops_future: bool = False, query_timeout: float = 10.0, interest_timeout: float = 10.0,
    ) -> None:  # fmt: skip
        self.zid = zid
        self.whatami = whatami
        self.now = now
        self.wall = wall
        self.new_lock = lock
        self.lock = lock()
        self.stamps = whatami is WhatAmI.ROUTER if stamps is None else stamps
        """Whether samples that pass without a timestamp get one."""
        self.drops_future = drops_future
        """Whether those whose timestamp is too far ahead are dropped, instead of getting one of ours."""
        self.is_guarded = False
        """Whether there is access control: then faces have guards."""
        self.budget: Budget | None = None
        """What may wait in all connections together."""
        self.counters: Counter[str] = Counter()
        """What was dropped or refused, by cause."""
        self.clock = HybridClock()
        self.jobs = Jobs(self)
        self.limits: Mapping[Resource, int] = DEFAULT_LIMITS
        self.declarations = Declarations(self.counters, self.jobs)
        self.interests = Interests(self.declarations, self.counters, interest_timeout)
        self.routers = Routers(self)
        self.queries = Queries(self.declarations, self.routers, self.counters, query_timeout)
        self.routes = Routes(self)
        self.gossip = Gossip(self)
        self.application = Application(self)
        self.declarations.faces.append(self.application)
        if whatami is WhatAmI.ROUTER:
            self.declarations.faces.append(self.routers.own)
        self.declarations.on_change = self.application.changed
        self.reading = Reading()
        self.dirty: set[Face] = set()
        self.wake: Callable[[], None] = lambda: None
        """Asks for a `flush` in the thread that may send."""
        self.report: Callable[[str, object, str], None] = lambda peer, reason, cause: log.warning(
            "%s: %s (%s)", peer, reason, cause
        )
        """Reports a fault of a peer: the peer, the reason and the counter."""
        self.on_error: Callable[[Exception], None] = lambda error: None
        """Told what a callback of the application raised."""
        self.on_discover: Callable[[bytes, WhatAmI, tuple[str, ...]], None] = lambda zid, whatami, locators: None
        """Told of nodes that gossip speaks of, and where they listen."""
        self.in_a_moment: Callable[[Callable[[], None]], None] = lambda call: call()
        """Calls it with the lock held, where there is a clock a little later: a real peer's `open` waits for those that it was
        just told of only if it is not told in the same breath that this was all."""
        self._calls: deque[Callable[[], object]] = deque()
        self._calling = False
        self._readers: list[Reader] = []

    @property
    def faces(self) -> list[Face]:
        """Those of the network."""
        within = (self.application, self.routers.own)
        return [face for face in self.declarations.faces if face not in within and not face.hears_all]

    # Faces

    def opened(self, face: Face) -> None:
        """A new neighbour: tell it what it is to know at once."""
        with self.lock:
            face.dirty = self.dirty
            self.watch(face)
            self.declarations.faces.append(face)
            self.declarations.epoch.number += 1
            told_of_others = self.gossip.opened(face)
            if face.stand is Stand.TREE:
                self.routers.opened(face)
            if face.is_told_all:
                self.jobs.start(face, self._introduce(face, told_of_others), suspend=False)
            self.interests.opened(face)
        self._after()

    def watch(self, face: Face) -> None:
        """Limit the memory that a face can make this node use."""
        face.account = Account(self.limits, self.budget)
        face.on_limit = self._end
        face.on_full = self._relieve

    def _introduce(self, face: Face, told_of_others: bool) -> Job:
        """Declare everything to a face, then say so."""
        yield from self.declarations.tell_all(face)
        if face.stand is Stand.BESIDE and told_of_others:
            self.in_a_moment(lambda: self._told_all(face))
        elif face.stand is Stand.BESIDE:
            self._told_all(face)

    @staticmethod
    def _told_all(face: Face) -> None:
        if face.is_open:
            face.final(0)

    def closed(self, face: Face) -> None:
        """It is gone."""
        with self.lock:
            if face not in self.declarations.faces:
                return
            face.is_open = False
            self.declarations.faces.remove(face)
            self.declarations.epoch.number += 1
            self.gossip.closed(face)
            self.routers.closed(face)
            face.backlog.clear()
            face.routes.clear()
            face.tree_routes.clear()
            face.account.close()
            self.dirty.discard(face)
            self.jobs.drop(face)
            self.jobs.start(face, self._forget(face))
        self._release(face)
        for source in list(face.held_by):
            if isinstance(source, Face):
                source.holding.discard(face)
        self._after()

    def _forget(self, face: Face) -> Job:
        """Remove everything of a face that is gone, in steps."""
        for sends in self.queries.closed(face):
            self.later(lambda sends=sends: self._send(sends))  # type: ignore[misc]
            yield None
        yield from self.interests.closed(face)
        yield from self.declarations.forget(face)

    # Limits

    def _end(self, face: Face, resource: Resource) -> None:
        """With the lock held: close a face that has reached a limit. Nothing more of what it sends is handled."""
        self.counters[f"limit reached: {resource.value}"] += 1
        why = f"it uses its limit of {face.account.limits[resource]} bytes of {resource.value}"
        self._close(face, why, f"limit reached: {resource.value}")

    def _close(self, face: Face, why: str, counter: str) -> None:
        if face.is_ending or not face.is_open:
            return
        face.is_ending = True
        face.suspend(face)
        self.report(describe(face), f"closed: {why}", counter)
        self.later(lambda: face.outlet.close(CloseReason.UNRESPONSIVE))
        self.wake()

    # Messages

    def on_message(self, face: Face, kind: int, reader: Any) -> None:
        """One network message but PUSH (see `forward`), live in its reader, from a face."""
        if face.is_ending:
            return
        self.reading.face = face
        try:
            if not face.takes(kind, reader):
                self.counters["messages without meaning in a group"] += 1
            elif kind == DECLARE:
                self._declare(face, reader.declare)
            elif kind == REQUEST:
                self._request(face, reader)
            elif kind == RESPONSE:
                self._response(face, reader)
            elif kind == RESPONSE_FINAL:
                with self.lock:
                    sends = self.queries.final(face, reader.final.id)
                self._perform(sends)
            elif kind == INTEREST:
                self._interest(face, reader.interest)
            elif kind == OAM and reader.oam.id == OAM_ID:
                body = reader.oam.body.value
                if not isinstance(body, bytes):  # nothing, or a number
                    self.counters["link states not understood"] += 1
                    return
                with self.lock:
                    if face.stand is Stand.TREE:
                        found = []
                        self.routers.heard(face, body)
                    else:
                        found = self.gossip.heard(face, body)
                for zid, whatami, locators in found:
                    self.on_discover(zid, whatami, locators)
                self._after()
        finally:
            self.reading.face = None

    def _key(self, face: Face, wire: Any) -> bytes | None:
        """The whole key of a message; None, and counted, if there is none."""
        key = face.resolve(wire.scope, wire.sender != 0, wire.suffix.value)
        if key is None:
            self.counters["messages with an unknown key id"] += 1
            return None
        try:
            validate(key)
        except KeyExprError:
            self.counters["messages with an invalid key"] += 1
            return None
        return key

    def _denies(self, face: Face, message: str, key: bytes | None) -> bool:
        """Whether a face may not send that; if so, it is counted."""
        if face.guard is None or face.guard.allows(INGRESS, message, key):
            return False
        self.counters[f"denied: {message}"] += 1
        return True

    def _hides(self, face: Face, interest: Any, key: bytes | None) -> bool:
        """Whether a face may not ask who is alive there."""
        message = name_interest(interest.mode, interest.options)
        return message is not None and self._denies(face, message, key or b"**")

    def _declare(self, face: Face, declare: Any) -> None:
        body = declare.body
        with self.lock:
            kind = declare.body_id
            if kind == ids.D_KEYEXPR:
                self._name(face, body)
            elif kind == ids.U_KEYEXPR:
                key = face.theirs.get(body.id)
                if key is not None:
                    face.refund(Resource.KEY_IDS, KEY_ID + 3 * len(key))
                    face.theirs.forget(body.id)
                    if face.prefixes.get(key) == body.id:
                        del face.prefixes[key]
                    self._renamed(face)
            elif kind == ids.D_FINAL:
                if declare.answers:
                    self.interests.final(face, declare.interest)
            elif kind & 1:
                self._undeclare(face, body, declare.node_id)
            else:
                key = self._key(face, body.key)
                if key is None or self._denies(face, DECLARING[kind], key):
                    return
                info = body.info & 0xFFFF01
                if face.stand is Stand.TREE:
                    self.routers.declared(face, declare.node_id, kind, key, info)
                elif declare.answers and self.interests.declared(face, declare.interest, kind, key, info):
                    pass
                elif body.id or not declare.answers:
                    is_news = kind != TOKEN or not declare.answers or declare.interest not in face.asked
                    self.declarations.declare(face, kind, body.id, key, info, is_news)
        self._after()

    def _name(self, face: Face, body: Any) -> None:
        """An id for a key expression. One that is used again keeps its first meaning (probe declare_keyexpr_redefine)."""
        key = body.key.suffix.value
        if body.key.scope or key is None:
            self.counters["key ids declared in an unknown way"] += 1
            return
        if not face.theirs.known(body.id) and face.charge(Resource.KEY_IDS, KEY_ID + 3 * len(key)):
            face.theirs.declare(body.id, key)
            face.prefixes.setdefault(key, body.id)
            self._renamed(face)

    def _renamed(self, face: Face) -> None:
        self.routes.forget(face)
        self.declarations.epoch.number += 1

    def _undeclare(self, face: Face, body: Any, node_id: int) -> None:
        kind = body.kind - 1
        if face.stand is Stand.TREE:
            key = self._key(face, body.wire_expr) if body.has_key else None
            if key is not None:
                self.routers.undeclared(face, node_id, kind, key)
            return
        wire, known = body.wire_expr, face.declared[kind]
        if body.id not in known and body.has_key and (wire.scope or wire.suffix.size >= 0):
            key = self._key(face, wire)
            ids = [id for id, its in known.items() if its == key]
            if ids:
                self.declarations.undeclare(face, kind, ids[0])
            elif kind == TOKEN and key is not None and not self._denies(face, DECLARING[kind], key):
                self.declarations.ended(face, key)
            return
        self.declarations.undeclare(face, kind, body.id)

    def _interest(self, face: Face, interest: Any) -> None:
        with self.lock:
            key = self._key(face, interest.wire_expr) if interest.options & RESTRICTED else None
            if interest.mode == 0:
                self.interests.end(face, interest.id)
            elif (key is not None or not interest.options & RESTRICTED) and not self._hides(face, interest, key):
                self.interests.interest(face, interest.id, interest.mode, interest.options, key, self.now())
            else:
                face.final(interest.id)
        self._after()

    def _request(self, face: Face, reader: Any) -> None:
        request = reader.request
        reliable = reader.frame.reliable != 0
        with self.lock:
            key = self._key(face, request.key)
            if key is None:
                return
            if self._denies(face, "query", key):
                final = ResponseFinal(id=request.id, qos=request.qos).encode()
                sends, shown = [Send(face, final, request.qos, reliable)], list[tuple[Face, int]]()
            else:
                matches = self.compute(face, ("request", request.id), self.queries.match(key))
                if matches is None:
                    return
                sends, shown = self.queries.request(face, request.id, key, raw(reader), reliable, self.now(), matches)
        self._perform(sends)
        for _, id in shown:
            self.application.show(id, key, reader)

    def _response(self, face: Face, reader: Any) -> None:
        wire = reader.response.key
        with self.lock:
            key = None
            if wire.scope or wire.suffix.size >= 0:
                key = self._key(face, wire)
                if key is None:
                    return
            if self._denies(face, "reply", key):
                return
            sends = self.queries.response(face, reader.response.id, key, raw(reader))
        self._perform(sends)

    # Long computations

    def compute(self, face: Face, name: object, walk: Walk[Result]) -> Result | None:
        """With the lock held: compute the result for the message at hand of a face, which has a name.

        Returns:
            The result. None if it takes long: then the face is suspended, a job continues, and the message is handled again.
            The result is used then, even if it is old.
        """
        computed, face.computed = face.computed, None
        if computed is not None and computed[0] == name:
            walk.close()
            result: Result = computed[1]
            return result
        try:
            next(walk)
        except StopIteration as end:
            result = end.value
            return result
        if self.jobs.start(face, self._compute(face, name, walk), retry=True):
            return self.compute(face, name, walk)
        return None

    @staticmethod
    def _compute(face: Face, name: object, walk: Walk[object]) -> Job:
        face.computed = name, (yield from walk)

    def run(self, walk: Walk[Result]) -> Result:
        """Compute a result in the thread of the caller. The lock is free between slices."""
        while True:
            with self.lock:
                try:
                    next(walk)
                except StopIteration as end:
                    result: Result = end.value
                    return result

    # What follows from a message

    def _perform(self, sends: list[Send]) -> None:
        """With the lock free: send what the queries want to be sent."""
        self._send(sends)
        self._after()

    def _send(self, sends: list[Send]) -> None:
        for face, message, qos, reliable in sends:
            if face.is_application:
                self.application.receive(message)
            elif not face.send(message, qos, reliable, ordered=True):
                self.refused(face)

    def _after(self) -> None:
        """With the lock free: call whom to call, and have sent what waits."""
        self.run_calls()
        if self.dirty:
            self.wake()

    def later(self, call: Callable[[], object]) -> None:
        """With the lock held: call it when the lock is free, in the order of asking."""
        self._calls.append(call)

    def run_calls(self) -> None:
        """One thread at a time does the calls, so that they keep their order; what others add meanwhile it does too."""
        if not self._calls:
            return
        with self.lock:
            if self._calling:
                return
            self._calling = True
        try:
            while self._calls:
                self.call(self._calls.popleft())
        finally:
            self._calling = False
        if self._calls:  # added when the last had been done and nobody was told yet
            self.run_calls()

    def call(self, function: Callable[..., object], *arguments: object) -> object:
        """Call the application. Its mistakes are its own."""
        try:
            return function(*arguments)
        except Exception as error:
            self.on_error(error)
            return None

    # Congestion

    def refused(self, face: Face, source: Face | None = None) -> None:
        """A message for this face was dropped, or kept: then nothing more is read from where it came."""
        if not face.backlog:
            if face.is_open:
                poor = face.lane is not None and face.lane.is_poor
                self.counters[f"messages dropped: no {'memory' if poor else 'room'}"] += 1
            return
        self._hold(face, source or self.reading.face)

    def overfull(self, face: Face, source: Face) -> None:
        """More waits for this face than should: if writing does not help, read no more from where it came."""
        face.outlet.write()
        if face.lane is not None and face.lane.is_over:
            if face.lane.waiting > face.account.limits[Resource.TRANSMIT_QUEUE]:
                with self.lock:
                    self._end(face, Resource.TRANSMIT_QUEUE)
                self._after()
                return
            self.dirty.add(face)
            self._hold(face, source)
            if self.budget is not None and self.budget.is_full:
                self._relieve()

    def _relieve(self) -> None:
        """All faces together use the memory that they may use: close the one that uses most."""
        with self.lock:
            faces = self.faces
            if any(face.is_ending for face in faces):
                return  # its memory is about to be released
            used = {
                face: face.account.total + (0 if face.lane is None else face.lane.waiting) for face in faces
            }  # fmt: skip
            greediest = max(used, key=used.__getitem__, default=None)
            if greediest is not None and used[greediest]:
                self.counters["faces closed: no memory"] += 1
                self._close(
                    greediest, f"it uses {used[greediest]} bytes, most of a full budget", "faces closed: no memory"
                )

    def _hold(self, face: Face, source: Face | None) -> None:
        if source is not None and source is not face and not source.is_application and not face.outlet.waits():
            face.holding.add(source)
            source.held_by.add(face)
            source.outlet.pause()
        self.wake()

    def flush(self) -> None:
        """In the thread that sends: send what was queued or kept."""
        self.run_calls()
        for face in list(self.dirty):
            is_empty = face.drain()
            if not face.is_full:
                self.jobs.drained(face)
            if is_empty:
                face.stuck_since = None
                self.dirty.discard(face)
                if face.backlog:  # something came in between
                    self.dirty.add(face)
                self._release(face)
            elif face.stuck_since is None:
                face.stuck_since = self.now()
                self.queries.sooner(face.stuck_since + STUCK)
            elif face.has_progressed:
                face.stuck_since = self.now()

    def _release(self, face: Face) -> None:
        for source in list(face.holding):
            source.held_by.discard(face)
            if not source.held_by:
                source.outlet.resume()
        face.holding.clear()

    # Time

    def next_timeout(self) -> float | None:
        with self.lock:
            times = [part.next_timeout() for part in (self.queries, self.interests, self.routers)]
        times += [face.stuck_since + STUCK for face in list(self.dirty) if face.stuck_since is not None]
        return min((time for time in times if time is not None), default=None)

    def on_timeout(self, now: float) -> None:
        for face in list(self.dirty):
            if face.stuck_since is not None and now >= face.stuck_since + STUCK:
                self.counters["faces closed: no room for a message in time"] += 1
                face.stuck_since = None  # once is enough; what is held stays so until it is gone
                self.dirty.discard(face)
                self._close(face, f"it took no message for {STUCK:g} s", "faces closed: no room for a message in time")
        self._after()
        with self.lock:
            sends = self.queries.on_timeout(now)
            self.interests.on_timeout(now)
            self.routers.on_timeout(now)
        self._perform(sends)

    # Timestamps

    def timestamp(self) -> Timestamp:
        """A new one, of this node's clock."""
        return Timestamp.from_wire(self.clock.tick(self.wall()), self.zid)

    def restamp(self, put: Any) -> None:
        """Give a sample a timestamp of ours if it has none, or one that is too far ahead."""
        stamp = put.timestamp
        if stamp.id.size >= 0:
            if self.clock.merge(stamp.ntp64, self.wall()):
                return
            self.counters["timestamps replaced: too far ahead"] += 1
        stamp.set(self.timestamp())

    def believes(self, timestamp: Timestamp) -> bool:
        """Whether it is not too far ahead of our clock, which learns from it then."""
        return bool(self.clock.merge(timestamp.ntp64, self.wall()))

    # Readers for messages that did not come from a connection

    def reader(self, message: bytes) -> Reader:
        """A reader that stands before a message; give it back with `done`."""
        try:
            reader = self._readers.pop()
        except IndexError:
            reader = Reader()
        reader.bind(message)
        reader.begin_network(0, len(message))
        return reader

    def done(self, reader: Reader) -> None:
        reader.bind(b"")
        self._readers.append(reader)


def describe(face: Face) -> str:
    """Return the name of a neighbour for the log."""
    links = face.outlet.describe().get("links")
    where = f" at {links[0]['dst']}" if isinstance(links, list) and links else ""
    return f"{face.whatami.name.lower()} {ZenohId.from_wire(face.zid)}{where}"


def raw(reader: Any) -> bytes:
    """The bytes of the message that a reader has just read."""
    span = reader.cursor.span()
    span.at = reader.start
    span.size = reader.cursor.at - reader.start
    data: bytes = span.value
    return data
