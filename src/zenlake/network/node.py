# SPDX-License-Identifier: Apache-2.0
"""The node: connects the faces, the tables and the routing, and owns their single lock.

Sans-IO: a face is opened with a `TxHandle` that sends messages. Received messages enter through `on_message`, time through
`now`/`wall` (functions given to the constructor) and `on_timeout`. Control messages are queued on their face. `flush` sends
them, always on the same thread; `wake` requests it. Messages that result from a message are sent, and calls are made, after
the lock is released.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from logging import getLogger
from typing import Any

from zenlake.core.enums import WhatAmI
from zenlake.core.identifiers import Timestamp, ZenohId
from zenlake.core.keyexpr import validate
from zenlake.core.ntp64 import HybridClock
from zenlake.core.peer_limits import DEFAULT_LIMITS, Account, Resource
from zenlake.errors import CloseReason, KeyExprError
from zenlake.network.access_control import INGRESS
from zenlake.network.declarations import Declarations
from zenlake.network.face import DECLARATION_NAMES, KEY_ID, RESTRICTED, TOKEN, Face, name_interest
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
from zenlake.wire import timestamp_stack
from zenlake.wire.batch_reader import BatchReader
from zenlake.wire.cursor import Blob
from zenlake.wire.linkstate import OAM_ID
from zenlake.wire.network import ResponseFinal

__all__ = ["Node"]

INTEREST, RESPONSE_FINAL, RESPONSE, REQUEST, _, DECLARE, OAM = range(0x19, 0x20)

log = getLogger("zenlake.node")

MAX_BLOCKED = 5.0  # seconds that a message which must not be dropped may wait for room


class Node:
    """One node of the network, in any of the three roles."""

    def __init__(
        self, zid: bytes, whatami: WhatAmI, *,
        now: Callable[[], float], wall: Callable[[], int],
        lock: Callable[[], AbstractContextManager[object]] = nullcontext,
        adds_timestamps: bool | None = None, drops_future: bool = False, query_timeout: float = 10.0,
        interest_timeout: float = 10.0,
    ) -> None:  # fmt: skip
        self.zid = zid
        self.whatami = whatami
        self.now = now
        self.wall = wall
        self.new_lock = lock
        self.lock = lock()
        self.adds_timestamps = whatami is WhatAmI.ROUTER if adds_timestamps is None else adds_timestamps
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
        self.queries.add_route_record = self.add_route_record
        self.routes = Routing(self)
        self.gossip = Gossip(self)
        self.application = LocalFace(self)
        self.declarations.faces.append(self.application)
        if whatami is WhatAmI.ROUTER:
            self.declarations.faces.append(self.routers.own)
        self.declarations.on_change = self.application.update_watchers
        self.current_message = CurrentMessage()
        self.dirty_faces: set[Face] = set()
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
        self.call_with_delay: Callable[[Callable[[], None]], None] = lambda call: call()
        """Runs a call with the lock held, a little later if there is a clock.

        `open` of a 1.10.2 peer waits for the nodes that gossip announced only if the end of the declarations does not arrive
        together with the gossip.
        """
        self._calls: deque[Callable[[], object]] = deque()
        self._is_calling = False
        self._readers: list[BatchReader] = []

    @property
    def faces(self) -> list[Face]:
        """Faces of the network, without the application, our own router and groups."""
        internal = (self.application, self.routers.own)
        return [face for face in self.declarations.faces if face not in internal and not face.receives_all_samples]

    # Faces

    def add_face(self, face: Face) -> None:
        """Add a face and send its initial declarations."""
        with self.lock:
            face.dirty_faces = self.dirty_faces
            self.set_limits(face)
            self.declarations.faces.append(face)
            self.declarations.epoch.number += 1
            has_sent_nodes = self.gossip.add_face(face)
            if face.role is FaceRole.TREE:
                self.routers.add_face(face)
            if face.receives_all_declarations:
                self.jobs.start(face, self._declare_initial(face, has_sent_nodes), suspend=False)
            self.interests.add_face(face)
        self._run_effects()

    def set_limits(self, face: Face) -> None:
        """Limit the memory that a face can make this node use."""
        face.account = Account(self.limits, self.budget)
        face.on_limit = self._close_over_limit
        face.on_full = self._close_largest_face

    def _declare_initial(self, face: Face, has_sent_nodes: bool) -> Job:
        """Declare everything to a face, then send the end of the declarations."""
        yield from self.declarations.declare_all(face)
        if face.role is FaceRole.BESIDE and has_sent_nodes:
            self.call_with_delay(lambda: self._send_initial_final(face))
        elif face.role is FaceRole.BESIDE:
            self._send_initial_final(face)

    @staticmethod
    def _send_initial_final(face: Face) -> None:
        if face.is_open:
            face.send_final(0)

    def remove_face(self, face: Face) -> None:
        """Remove a face."""
        with self.lock:
            if face not in self.declarations.faces:
                return
            face.is_open = False
            self.declarations.faces.remove(face)
            self.declarations.epoch.number += 1
            self.gossip.remove_face(face)
            self.routers.remove_face(face)
            face.backlog.clear()
            face.routes.clear()
            face.tree_routes.clear()
            face.account.close()
            self.dirty_faces.discard(face)
            self.jobs.drop(face)
            self.jobs.start(face, self._forget_face(face))
        self._resume_sources(face)
        for source in list(face.pause_reasons):
            if isinstance(source, Face):
                source.paused_faces.discard(face)
        self._run_effects()

    def _forget_face(self, face: Face) -> Job:
        """Remove everything of a face that is gone, in steps."""
        for sends in self.queries.remove_face(face):
            self.queue_call(partial(self._send, sends))
            yield None
        yield from self.interests.remove_face(face)
        yield from self.declarations.forget(face)

    # Limits

    def _close_over_limit(self, face: Face, resource: Resource) -> None:
        """Close a face that has reached a limit. The caller holds the lock. Further messages of the face are not handled."""
        self.counters[f"limit reached: {resource.value}"] += 1
        reason = f"limit of {face.account.limits[resource]} bytes of {resource.value} reached"
        self._close(face, reason, f"limit reached: {resource.value}")

    def _close(self, face: Face, reason: str, counter: str) -> None:
        if face.is_ending or not face.is_open:
            return
        face.is_ending = True
        face.suspend(face)
        self.report(describe(face), f"closed: {reason}", counter)
        self.queue_call(lambda: face.tx.close(CloseReason.UNRESPONSIVE))
        self.wake()

    # Messages

    def on_message(self, face: Face, kind: int, reader: Any) -> None:
        """Handle one network message of a face, except PUSH (see `forwarding`). The reader holds it."""
        if face.is_ending:
            return
        self.current_message.face = face
        try:
            if not face.accepts(kind, reader):
                self.counters["unsupported messages in a multicast group"] += 1
            elif kind == DECLARE:
                self._declare(face, reader.declare)
            elif kind == REQUEST:
                self._request(face, reader)
            elif kind == RESPONSE:
                self._response(face, reader)
            elif kind == RESPONSE_FINAL:
                with self.lock:
                    sends = self.queries.on_final(face, reader.final.id)
                self._perform(sends)
            elif kind == INTEREST:
                self._interest(face, reader.interest)
            elif kind == OAM and reader.oam.id == OAM_ID:
                body = reader.oam.body.value
                if not isinstance(body, bytes):  # body: absent, or a number
                    self.counters["invalid link states"] += 1
                    return
                with self.lock:
                    if face.role is FaceRole.TREE:
                        discovered = []
                        self.routers.receive(face, body)
                    else:
                        discovered = self.gossip.receive(face, body)
                for zid, whatami, locators in discovered:
                    self.on_discover(zid, whatami, locators)
                self._run_effects()
        finally:
            self.current_message.face = None

    def _resolve_key(self, face: Face, wire: Any) -> bytes | None:
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

    def _is_denied(self, face: Face, message: str, key: bytes | None) -> bool:
        """Return whether access control denies a message of a face. Count it if so."""
        if face.guard is None or face.guard.allows(INGRESS, message, key):
            return False
        self.counters[f"denied: {message}"] += 1
        return True

    def _hides_tokens(self, face: Face, interest: Any, key: bytes | None) -> bool:
        """Return whether access control denies an interest of a face in tokens."""
        message = name_interest(interest.mode, interest.options)
        return message is not None and self._is_denied(face, message, key or b"**")

    def _declare(self, face: Face, declare: Any) -> None:
        body = declare.body
        with self.lock:
            kind = declare.body_id
            if kind == ids.D_KEYEXPR:
                self._declare_key_id(face, body)
            elif kind == ids.U_KEYEXPR:
                key = face.remote_keys.get(body.id)
                if key is not None:
                    face.refund(Resource.KEY_IDS, KEY_ID + 3 * len(key))
                    face.remote_keys.forget(body.id)
                    if face.prefixes.get(key) == body.id:
                        del face.prefixes[key]
                    self._invalidate_routes(face)
            elif kind == ids.D_FINAL:
                if declare.answers:
                    self.interests.on_final(face, declare.interest)
            elif kind & 1:
                self._undeclare(face, body, declare.node_id)
            else:
                key = self._resolve_key(face, body.key)
                if key is None or self._is_denied(face, DECLARATION_NAMES[kind], key):
                    return
                info = body.info & 0xFFFF01
                if face.role is FaceRole.TREE:
                    self.routers.declare(face, declare.node_id, kind, key, info)
                elif declare.answers and self.interests.on_declaration(face, declare.interest, kind, key, info):
                    pass
                elif body.id or not declare.answers or declare.interest in face.sent_interests:  # 1.0 begins with id 0
                    is_new = kind != TOKEN or not declare.answers or declare.interest not in face.sent_interests
                    self.declarations.declare(face, kind, body.id, key, info, is_new)
        self._run_effects()

    def _declare_key_id(self, face: Face, body: Any) -> None:
        """Declare a key id of a face. A redeclared id keeps its first key (probe declare_keyexpr_redefine)."""
        key = body.key.suffix.value
        if body.key.scope or key is None:
            self.counters["invalid declarations of key ids"] += 1
            return
        if not face.remote_keys.contains(body.id) and face.charge(Resource.KEY_IDS, KEY_ID + 3 * len(key)):
            face.remote_keys.declare(body.id, key)
            face.prefixes.setdefault(key, body.id)
            self._invalidate_routes(face)

    def _invalidate_routes(self, face: Face) -> None:
        self.routes.forget(face)
        self.declarations.epoch.number += 1

    def _undeclare(self, face: Face, body: Any, node_id: int) -> None:
        kind = body.kind - 1
        if face.role is FaceRole.TREE:
            key = self._resolve_key(face, body.wire_expr) if body.has_key else None
            if key is not None:
                self.routers.undeclare(face, node_id, kind, key)
            return
        wire, declared_keys = body.wire_expr, face.declared_keys[kind]
        if body.id not in declared_keys and body.has_key and (wire.scope or wire.suffix.size >= 0):
            key = self._resolve_key(face, wire)
            ids = [id for id, declared_key in declared_keys.items() if declared_key == key]
            if ids:
                self.declarations.undeclare(face, kind, ids[0])
            elif kind == TOKEN and key is not None and not self._is_denied(face, DECLARATION_NAMES[kind], key):
                self.declarations.end_unknown_token(face, key)
            return
        self.declarations.undeclare(face, kind, body.id)

    def _interest(self, face: Face, interest: Any) -> None:
        with self.lock:
            key = self._resolve_key(face, interest.wire_expr) if interest.options & RESTRICTED else None
            if interest.mode == 0:
                self.interests.end(face, interest.id)
            elif (key is not None or not interest.options & RESTRICTED) and not self._hides_tokens(face, interest, key):
                self.interests.on_interest(face, interest.id, interest.mode, interest.options, key, self.now())
            else:
                face.send_final(interest.id)
        self._run_effects()

    def _request(self, face: Face, reader: Any) -> None:
        request = reader.request
        reliable = reader.frame.reliable != 0
        with self.lock:
            key = self._resolve_key(face, request.key)
            if key is None:
                return
            if self._is_denied(face, "query", key):
                final = ResponseFinal(id=request.id, qos=request.qos).encode()
                sends, local_requests = [OutgoingMessage(face, final, request.qos, reliable)], list[tuple[Face, int]]()
            else:
                matches = self.compute(face, ("request", request.id), self.queries.match(key))
                if matches is None:
                    return
                sends, local_requests = self.queries.request(
                    face, request.id, key, copy_message(reader), reliable, self.now(), matches
                )
        self._perform(sends)
        for _, id in local_requests:
            self.application.deliver_query(id, key, reader)

    def _response(self, face: Face, reader: Any) -> None:
        wire = reader.response.key
        with self.lock:
            key = None
            if wire.scope or wire.suffix.size >= 0:
                key = self._resolve_key(face, wire)
                if key is None:
                    return
            if self._is_denied(face, "reply", key):
                return
            sends = self.queries.response(face, reader.response.id, key, copy_message(reader))
        self._perform(sends)

    # Long computations

    def compute(self, face: Face, name: object, walk: Walk[Result]) -> Result | None:
        """Compute the result for the current message of a face. The message has a name. The caller holds the lock.

        Returns:
            The result, or None if the computation takes long. Then the face is suspended, a job continues, and the message is
            handled again. That time the result is used even if it is outdated.
        """
        job_result, face.job_result = face.job_result, None
        if job_result is not None and job_result[0] == name:
            walk.close()
            result: Result = job_result[1]
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
        face.job_result = name, (yield from walk)

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
        self._run_effects()

    def _send(self, sends: list[OutgoingMessage]) -> None:
        for face, message, qos, reliable in sends:
            if face.is_application:
                self.application.receive(message)
            elif not face.send(message, qos, reliable, ordered=True):
                self.handle_refusal(face)

    def _run_effects(self) -> None:
        """Run the pending calls and request a flush of queued messages. The caller does not hold the lock."""
        self.run_calls()
        if self.dirty_faces:
            self.wake()

    def queue_call(self, call: Callable[[], object]) -> None:
        """Append a call to run when the lock is free. Calls keep their order. The caller holds the lock."""
        self._calls.append(call)

    def run_calls(self) -> None:
        """Run pending calls.

        Threading: one thread at a time runs them, including calls that other threads add meanwhile. This keeps their order.
        """
        if not self._calls:
            return
        with self.lock:
            if self._is_calling:
                return
            self._is_calling = True
        try:
            while self._calls:
                self.call(self._calls.popleft())
        finally:
            self._is_calling = False
        if self._calls:  # added after the last call, before `_is_calling` was reset
            self.run_calls()

    def call(self, function: Callable[..., object], *arguments: object) -> object:
        """Call the application. Exceptions go to `on_error`."""
        try:
            return function(*arguments)
        except Exception as error:
            self.on_error(error)
            return None

    # Congestion

    def handle_refusal(self, face: Face, source: Face | None = None) -> None:
        """Handle a message for a face that was dropped or stored. If stored, stop reading from its source."""
        if not face.backlog:
            if face.is_open:
                is_memory_full = face.queue_handle is not None and face.queue_handle.is_memory_full
                self.counters[f"messages dropped: no {'memory' if is_memory_full else 'room'}"] += 1
            return
        self._pause_source(face, source or self.current_message.face)

    def handle_full_queue(self, face: Face, source: Face) -> None:
        """Handle a transmit queue over its limit: write, and if that does not help, stop reading from the source."""
        face.tx.write()
        if face.queue_handle is not None and face.queue_handle.is_over:
            if face.queue_handle.queued_bytes > face.account.limits[Resource.TRANSMIT_QUEUE]:
                with self.lock:
                    self._close_over_limit(face, Resource.TRANSMIT_QUEUE)
                self._run_effects()
                return
            self.dirty_faces.add(face)
            self._pause_source(face, source)
            if self.budget is not None and self.budget.is_full:
                self._close_largest_face()

    def _close_largest_face(self) -> None:
        """Close the face that uses most memory, because all faces together have reached the limit."""
        with self.lock:
            faces = self.faces
            if any(face.is_ending for face in faces):
                return  # its memory is about to be released
            used = {
                face: face.account.total + (0 if face.queue_handle is None else face.queue_handle.queued_bytes) for face in faces
            }  # fmt: skip
            largest = max(used, key=used.__getitem__, default=None)
            if largest is not None and used[largest]:
                self.counters["faces closed: no memory"] += 1
                self._close(
                    largest,
                    f"memory limit of all faces reached; this face uses most: {used[largest]} bytes",
                    "faces closed: no memory",
                )

    def _pause_source(self, face: Face, source: Face | None) -> None:
        if source is not None and source is not face and not source.is_application and not face.tx.can_block():
            face.paused_faces.add(source)
            source.pause_reasons.add(face)
            source.tx.pause()
        self.wake()

    def flush(self) -> None:
        """Send queued messages and backlogs. Called on the thread that sends."""
        self.run_calls()
        for face in list(self.dirty_faces):
            is_empty = face.drain()
            if not face.is_full:
                self.jobs.resume_blocked(face)
            if is_empty:
                face.blocked_since = None
                self.dirty_faces.discard(face)
                if face.backlog:  # added during the drain
                    self.dirty_faces.add(face)
                self._resume_sources(face)
            elif face.blocked_since is None:
                face.blocked_since = self.now()
                self.queries.on_earlier_deadline(face.blocked_since + MAX_BLOCKED)
            elif face.has_progress:
                face.blocked_since = self.now()

    def _resume_sources(self, face: Face) -> None:
        for source in list(face.paused_faces):
            source.pause_reasons.discard(face)
            if not source.pause_reasons:
                source.tx.resume()
        face.paused_faces.clear()

    # Time

    def next_timeout(self) -> float | None:
        with self.lock:
            times = [part.next_timeout() for part in (self.queries, self.interests, self.routers)]
        times += [face.blocked_since + MAX_BLOCKED for face in list(self.dirty_faces) if face.blocked_since is not None]
        return min((time for time in times if time is not None), default=None)

    def on_timeout(self, now: float) -> None:
        for face in list(self.dirty_faces):
            if face.blocked_since is not None and now >= face.blocked_since + MAX_BLOCKED:
                self.counters["faces closed: no room for a message in time"] += 1
                face.blocked_since = None  # report once; sources stay paused until the face is closed
                self.dirty_faces.discard(face)
                self._close(
                    face, f"no message accepted for {MAX_BLOCKED:g} s", "faces closed: no room for a message in time"
                )
        self._run_effects()
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

    def add_route_record(self, stack: Blob) -> None:
        """Add a record of this node to the timestamp stack of a message, if it asks for one (1.10)."""
        if stack.size > 0:
            added = timestamp_stack.add_route_record(stack.value or b"", self.zid, self.timestamp)
            if added is not None:
                stack.set(added)

    def accept_timestamp(self, timestamp: Timestamp) -> bool:
        """Return whether a timestamp is not too far in the future. If so, update the clock from it."""
        return bool(self.clock.merge(timestamp.ntp64, self.wall()))

    def replaces_future_timestamp(self) -> bool:
        """Count a put with a timestamp too far ahead. Return True to replace it, False to send the put to no other node."""
        result = "samples dropped: their timestamp is" if self.drops_future else "timestamps replaced:"
        self.counters[f"{result} too far ahead"] += 1
        return not self.drops_future

    # Readers for messages that were not received on a connection

    def borrow_reader(self, message: bytes) -> BatchReader:
        """Return a reader positioned before a message. Give it back with `return_reader`."""
        try:
            reader = self._readers.pop()
        except IndexError:
            reader = BatchReader()
        reader.bind(message)
        reader.begin_network(0, len(message))
        return reader

    def return_reader(self, reader: BatchReader) -> None:
        reader.bind(b"")
        reader.shared = None
        self._readers.append(reader)


def describe(face: Face) -> str:
    """Return the name of a neighbour for the log."""
    links = face.tx.describe().get("links")
    where = f" at {links[0]['dst']}" if isinstance(links, list) and links else ""
    return f"{face.whatami.name.lower()} {ZenohId.from_wire(face.zid)}{where}"


def copy_message(reader: Any) -> bytes:
    """Return the bytes of the message that a reader has just decoded."""
    span = reader.cursor.span()
    span.at = reader.start
    span.size = reader.cursor.at - reader.start
    data: bytes = span.value
    return data
