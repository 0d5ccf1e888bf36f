# SPDX-License-Identifier: Apache-2.0
"""The node: connects the faces, the tables and the routing, and owns their single lock.

Sans-IO: a face is opened with a `TxHandle` that sends messages. Received messages enter through `on_message`, time through
`now`/`wall` (functions given to the constructor) and `on_timeout`. Control messages are queued on their face. `flush` sends
them, always on the same thread; `wake` requests it. Messages and calls that result from a message are sent and made after
the lock is released.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from logging import getLogger
from typing import Any

from zenlake.core.enums import WhatAmI
from zenlake.core.identifiers import Timestamp, ZenohId
from zenlake.core.keyexpr import validate
from zenlake.core.limits import DEFAULT_LIMITS, Account, Resource
from zenlake.core.ntp64 import HybridClock
from zenlake.errors import CloseReason, KeyExprError
from zenlake.network.access_control import INGRESS
from zenlake.network.declarations import Declarations
from zenlake.network.face import DECLARING, KEY_ID, RESTRICTED, TOKEN, Face, name_interest
from zenlake.network.forwarding import CurrentMessage
from zenlake.network.gossip import Gossip
from zenlake.network.interests import Interests
from zenlake.network.jobs import Job, Jobs
from zenlake.network.keyexpr_tree import Result, Walk
from zenlake.network.linkstate import LinkStateRouting
from zenlake.network.local_face import LocalFace
from zenlake.network.queries import OutgoingMessage, Queries
from zenlake.network.roles import FaceRole
from zenlake.network.routing import Routing
from zenlake.transport.memory_budget import MemoryBudget
from zenlake.wire import message_ids as ids
from zenlake.wire.batch_reader import BatchReader
from zenlake.wire.linkstate import OAM_ID
from zenlake.wire.network import ResponseFinal

__all__ = ["Node"]

INTEREST, RESPONSE_FINAL, RESPONSE, REQUEST, _, DECLARE, OAM = range(0x19, 0x20)

log = getLogger("zenlake.node")

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
        """Whether forwarded samples without a timestamp receive one."""
        self.drops_future = drops_future
        """Whether samples with a timestamp too far in the future are dropped instead of receiving a new timestamp."""
        self.is_guarded = False
        """Whether access control is configured. Faces then have guards."""
        self.budget: MemoryBudget | None = None
        """Memory limit of all connections together."""
        self.counters: Counter[str] = Counter()
        """Counters of dropped and refused messages, by cause."""
        self.clock = HybridClock()
        self.jobs = Jobs(self)
        self.limits: Mapping[Resource, int] = DEFAULT_LIMITS
        self.declarations = Declarations(self.counters, self.jobs)
        self.interests = Interests(self.declarations, self.counters, interest_timeout)
        self.routers = LinkStateRouting(self)
        self.queries = Queries(self.declarations, self.routers, self.counters, query_timeout)
        self.routes = Routing(self)
        self.gossip = Gossip(self)
        self.application = LocalFace(self)
        self.declarations.faces.append(self.application)
        if whatami is WhatAmI.ROUTER:
            self.declarations.faces.append(self.routers.own)
        self.declarations.on_change = self.application.changed
        self.reading = CurrentMessage()
        self.dirty: set[Face] = set()
        self.wake: Callable[[], None] = lambda: None
        """Requests a `flush` on the thread that may send."""
        self.report: Callable[[str, object, str], None] = lambda peer, reason, cause: log.warning(
            "%s: %s (%s)", peer, reason, cause
        )
        """Callback for faults of a peer: the peer, the reason and the counter."""
        self.on_error: Callable[[Exception], None] = lambda error: None
        """Callback for exceptions of application callbacks."""
        self.on_discover: Callable[[bytes, WhatAmI, tuple[str, ...]], None] = lambda zid, whatami, locators: None
        """Callback for nodes discovered by gossip, with their locators."""
        self.in_a_moment: Callable[[Callable[[], None]], None] = lambda call: call()
        """Runs a call with the lock held, a little later if there is a clock.

        `open` of a 1.10.2 peer waits for the nodes that gossip announced only if the end of the declarations does not arrive
        together with the gossip.
        """
        self._calls: deque[Callable[[], object]] = deque()
        self._calling = False
        self._readers: list[BatchReader] = []

    @property
    def faces(self) -> list[Face]:
        """Faces of the network, without the application, our own router and groups."""
        within = (self.application, self.routers.own)
        return [face for face in self.declarations.faces if face not in within and not face.hears_all]

    # Faces

    def opened(self, face: Face) -> None:
        """Add a face and send its initial declarations."""
        with self.lock:
            face.dirty = self.dirty
            self.watch(face)
            self.declarations.faces.append(face)
            self.declarations.epoch.number += 1
            told_of_others = self.gossip.opened(face)
            if face.stand is FaceRole.TREE:
                self.routers.opened(face)
            if face.is_sent_all:
                self.jobs.start(face, self._introduce(face, told_of_others), suspend=False)
            self.interests.opened(face)
        self._after()

    def watch(self, face: Face) -> None:
        """Limit the memory that a face can make this node use."""
        face.account = Account(self.limits, self.budget)
        face.on_limit = self._end
        face.on_full = self._relieve

    def _introduce(self, face: Face, told_of_others: bool) -> Job:
        """Declare everything to a face, then send the end of the declarations."""
        yield from self.declarations.declare_all(face)
        if face.stand is FaceRole.BESIDE and told_of_others:
            self.in_a_moment(lambda: self._declared_to_all(face))
        elif face.stand is FaceRole.BESIDE:
            self._declared_to_all(face)

    @staticmethod
    def _declared_to_all(face: Face) -> None:
        if face.is_open:
            face.final(0)

    def closed(self, face: Face) -> None:
        """Remove a face."""
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
        """Close a face that has reached a limit. The caller holds the lock. Further messages of the face are not handled."""
        self.counters[f"limit reached: {resource.value}"] += 1
        why = f"limit of {face.account.limits[resource]} bytes of {resource.value} reached"
        self._close(face, why, f"limit reached: {resource.value}")

    def _close(self, face: Face, why: str, counter: str) -> None:
        if face.is_ending or not face.is_open:
            return
        face.is_ending = True
        face.suspend(face)
        self.report(describe(face), f"closed: {why}", counter)
        self.later(lambda: face.tx.close(CloseReason.UNRESPONSIVE))
        self.wake()

    # Messages

    def on_message(self, face: Face, kind: int, reader: Any) -> None:
        """Handle one network message of a face, except PUSH (see `forwarding`). The reader holds it."""
        if face.is_ending:
            return
        self.reading.face = face
        try:
            if not face.takes(kind, reader):
                self.counters["unsupported messages in a multicast group"] += 1
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
                if not isinstance(body, bytes):  # body: absent, or a number
                    self.counters["invalid link states"] += 1
                    return
                with self.lock:
                    if face.stand is FaceRole.TREE:
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
        """Return the whole key of a message, or None if it is unknown or invalid. The error is counted."""
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
        """Return whether access control denies a message of a face. Count it if so."""
        if face.guard is None or face.guard.allows(INGRESS, message, key):
            return False
        self.counters[f"denied: {message}"] += 1
        return True

    def _hides(self, face: Face, interest: Any, key: bytes | None) -> bool:
        """Return whether access control denies an interest of a face in tokens."""
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
                if face.stand is FaceRole.TREE:
                    self.routers.declared(face, declare.node_id, kind, key, info)
                elif declare.answers and self.interests.declared(face, declare.interest, kind, key, info):
                    pass
                elif body.id or not declare.answers:
                    is_news = kind != TOKEN or not declare.answers or declare.interest not in face.asked
                    self.declarations.declare(face, kind, body.id, key, info, is_news)
        self._after()

    def _name(self, face: Face, body: Any) -> None:
        """Declare a key id of a face. A redeclared id keeps its first key (probe declare_keyexpr_redefine)."""
        key = body.key.suffix.value
        if body.key.scope or key is None:
            self.counters["invalid declarations of key ids"] += 1
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
        if face.stand is FaceRole.TREE:
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
                sends, shown = [OutgoingMessage(face, final, request.qos, reliable)], list[tuple[Face, int]]()
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
        """Compute the result for the current message of a face. The message has a name. The caller holds the lock.

        Returns:
            The result, or None if the computation takes long. Then the face is suspended, a job continues, and the message is
            handled again. That time the result is used even if it is outdated.
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
        """Compute a result on the calling thread. The lock is free between slices."""
        while True:
            with self.lock:
                try:
                    next(walk)
                except StopIteration as end:
                    result: Result = end.value
                    return result

    # Consequences of a message

    def _perform(self, sends: list[OutgoingMessage]) -> None:
        """Send the messages of queries. The caller does not hold the lock."""
        self._send(sends)
        self._after()

    def _send(self, sends: list[OutgoingMessage]) -> None:
        for face, message, qos, reliable in sends:
            if face.is_application:
                self.application.receive(message)
            elif not face.send(message, qos, reliable, ordered=True):
                self.refused(face)

    def _after(self) -> None:
        """Run the pending calls and request a flush of queued messages. The caller does not hold the lock."""
        self.run_calls()
        if self.dirty:
            self.wake()

    def later(self, call: Callable[[], object]) -> None:
        """Append a call to run when the lock is free. Calls keep their order. The caller holds the lock."""
        self._calls.append(call)

    def run_calls(self) -> None:
        """Run pending calls.

        Threading: one thread at a time runs them, including calls that other threads add meanwhile. This keeps their order.
        """
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
        if self._calls:  # added after the last call, before `_calling` was reset
            self.run_calls()

    def call(self, function: Callable[..., object], *arguments: object) -> object:
        """Call the application. Exceptions go to `on_error`."""
        try:
            return function(*arguments)
        except Exception as error:
            self.on_error(error)
            return None

    # Congestion

    def refused(self, face: Face, source: Face | None = None) -> None:
        """Handle a message for a face that was dropped or stored. If stored, stop reading from its source."""
        if not face.backlog:
            if face.is_open:
                poor = face.lane is not None and face.lane.is_poor
                self.counters[f"messages dropped: no {'memory' if poor else 'room'}"] += 1
            return
        self._hold(face, source or self.reading.face)

    def is_overfull(self, face: Face, source: Face) -> None:
        """Handle a transmit queue over its limit: write, and if that does not help, stop reading from the source."""
        face.tx.write()
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
        """Close the face that uses most memory, because all faces together have reached the limit."""
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
                    greediest,
                    f"memory limit of all faces reached; this face uses most: {used[greediest]} bytes",
                    "faces closed: no memory",
                )

    def _hold(self, face: Face, source: Face | None) -> None:
        if source is not None and source is not face and not source.is_application and not face.tx.waits():
            face.holding.add(source)
            source.held_by.add(face)
            source.tx.pause()
        self.wake()

    def flush(self) -> None:
        """Send queued messages and backlogs. Called on the thread that sends."""
        self.run_calls()
        for face in list(self.dirty):
            is_empty = face.drain()
            if not face.is_full:
                self.jobs.drained(face)
            if is_empty:
                face.stuck_since = None
                self.dirty.discard(face)
                if face.backlog:  # added during the drain
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
                source.tx.resume()
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
                face.stuck_since = None  # report once; sources stay paused until the face is closed
                self.dirty.discard(face)
                self._close(face, f"no message accepted for {STUCK:g} s", "faces closed: no room for a message in time")
        self._after()
        with self.lock:
            sends = self.queries.on_timeout(now)
            self.interests.on_timeout(now)
            self.routers.on_timeout(now)
        self._perform(sends)

    # Timestamps

    def timestamp(self) -> Timestamp:
        """Return a new timestamp of this node's clock."""
        return Timestamp.from_wire(self.clock.tick(self.wall()), self.zid)

    def restamp(self, put: Any) -> None:
        """Set a timestamp of this node on a sample without one, or with one too far in the future."""
        stamp = put.timestamp
        if stamp.id.size >= 0:
            if self.clock.merge(stamp.ntp64, self.wall()):
                return
            self.counters["timestamps replaced: too far ahead"] += 1
        stamp.set(self.timestamp())

    def believes(self, timestamp: Timestamp) -> bool:
        """Return whether a timestamp is not too far in the future. If so, update the clock from it."""
        return bool(self.clock.merge(timestamp.ntp64, self.wall()))

    # Readers for messages that were not received on a connection

    def reader(self, message: bytes) -> BatchReader:
        """Return a reader positioned before a message. Return it with `done`."""
        try:
            reader = self._readers.pop()
        except IndexError:
            reader = BatchReader()
        reader.bind(message)
        reader.begin_network(0, len(message))
        return reader

    def done(self, reader: BatchReader) -> None:
        reader.bind(b"")
        reader.shared = None
        self._readers.append(reader)


def describe(face: Face) -> str:
    """Return the name of a neighbour for the log."""
    links = face.tx.describe().get("links")
    where = f" at {links[0]['dst']}" if isinstance(links, list) and links else ""
    return f"{face.whatami.name.lower()} {ZenohId.from_wire(face.zid)}{where}"


def raw(reader: Any) -> bytes:
    """Return the bytes of the message that a reader has just decoded."""
    span = reader.cursor.span()
    span.at = reader.start
    span.size = reader.cursor.at - reader.start
    data: bytes = span.value
    return data
