# SPDX-License-Identifier: Apache-2.0
"""Queries: a REQUEST is passed to the queryables that its target selects. Replies return, then exactly one RESPONSE_FINAL.

A `PendingQuery` is one REQUEST of a face or of the application. It ends when every face that received it has sent its
RESPONSE_FINAL or is gone. It ends earlier after its timeout, or when its budget of replies is used up. Request ids are
allocated for each outgoing face within the negotiated range, and reused only when free.
"""

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from zenlake.core.identifiers import EntityGlobalId, ZenohId
from zenlake.core.keyexpr import includes
from zenlake.core.peer_limits import Resource
from zenlake.network.declarations import COMPLETE, STEP, Declarations, may_pass
from zenlake.network.declarations import DeclaredKey as Declared
from zenlake.network.face import QUERYABLE, Face
from zenlake.network.keyexpr_tree import MAX_SIZE, MAX_STEPS, Walk
from zenlake.network.linkstate import LinkStateRouting
from zenlake.network.remote_router import RemoteRouter
from zenlake.network.reply_fast_path import ReplyFastPath
from zenlake.network.roles import FaceRole
from zenlake.wire.cursor import Blob, Cursor
from zenlake.wire.network import Request, Response, ResponseFinal
from zenlake.wire.zenoh_body import Err

__all__ = ["Queries", "PendingQuery"]

ALL, ALL_COMPLETE = 1, 2
NOT_COMPLETE = 1 << 16
QUERY = 1000  # bytes that are charged for a pending query
MAX_TIMEOUT = 86400.0  # seconds; a longer timeout that is requested is shortened
TIMEOUT = b"Timeout"

Matches = list[tuple[Declared, bool]]
"""Resources that intersect a key, and whether they include it."""


class PendingQuery:
    """One pending query."""

    __slots__ = (
        "budget", "deadline", "fast_path", "id", "is_over", "is_timed", "outstanding", "qos", "reliable", "source",
    )  # fmt: skip

    def __init__(self, source: Face, id: int, qos: int, reliable: bool, deadline: float, budget: int) -> None:
        self.source = source
        self.id = id
        self.qos = qos
        self.reliable = reliable
        self.deadline = deadline
        self.budget = budget
        """Remaining replies; 0 means no limit."""
        self.outstanding: dict[Face, int] = {}
        self.is_over = False
        self.is_timed = False
        """Whether it is in the heap of deadlines."""
        self.fast_path: ReplyFastPath | None = None
        """Fast path of the replies, if any."""


class OutgoingMessage(NamedTuple):
    """A message for a face, to be sent when the node's lock is free."""

    face: Face
    message: bytes
    qos: int
    reliable: bool


class Queries:
    """Pending queries of all faces. Guarded by the node's lock. Methods return the messages to send."""

    def __init__(
        self, declarations: Declarations, routers: LinkStateRouting, counters: Counter[str], timeout: float
    ) -> None:
        self.add_route_record: Callable[[Blob], None] = lambda stack: None
        """Adds a record of this node to a timestamp stack."""
        self.declarations = declarations
        self.routers = routers
        self.counters = counters
        self.timeout = timeout
        self.on_earlier_deadline: Callable[[float], None] = lambda deadline: None
        """Callback for a deadline that is now the earliest."""
        self.on_forward: Callable[[Face, int, Face, int], None] | None = None
        """Callback for a request passed on to another face, with both request ids."""
        self._deadlines: list[tuple[float, int, PendingQuery]] = []
        self._ended_count = 0
        """Queries in `_deadlines` that have ended."""
        self._count = itertools.count()

    # Routing of queries

    def match(self, key: bytes) -> Walk[Matches]:
        """Find the queryables that match a key. Each slice needs the lock."""
        matches: Matches = []
        for number, resource in enumerate((yield from self.declarations.tables[QUERYABLE].walk(key)), 1):
            if number % MAX_STEPS == 0 or len(key) + len(resource.key) > MAX_SIZE:
                yield
            matches.append((resource, includes(resource.key, key)))
        return matches

    def route(
        self, source: Face, root: RemoteRouter, key: bytes, target: int, matches: Matches, local: bool = True, remote: bool = True
    ) -> list[Face]:  # fmt: skip
        """Return the faces that receive a query, along the tree of a router."""
        infos: dict[Face, int] = {}  # for each face: the nearest complete queryable, otherwise any
        for resource, is_included in matches if remote else ():
            for holder, ids in resource.holders.items():
                face: Face | None = holder
                if isinstance(holder, RemoteRouter):
                    face = root.next_hops.get(holder.zid)
                elif not holder.is_open or not may_pass(source, holder):
                    continue
                if face is None or face is source or not self.routers.is_elected(source, root, holder):
                    continue
                for info in ids.values():
                    distance = int(holder.distance) if isinstance(holder, RemoteRouter) else info >> 8
                    rank = min(distance, NOT_COMPLETE - 1) if info & COMPLETE and is_included else NOT_COMPLETE
                    infos[face] = min(rank, infos.get(face, rank))
        for face in self.declarations.faces if remote else ():
            if face.needs_interests and face not in infos and may_pass(source, face):
                infos[face] = NOT_COMPLETE  # it may have queryables that no interest of ours covers
        for face in list(infos):
            if not face.allows_egress("query", key):
                del infos[face]
        own = [source] if local and source.is_application else []  # always included, as in 1.10.2
        if target == ALL:
            return own + list(infos)
        complete = [face for face, rank in infos.items() if rank < NOT_COMPLETE]
        if target == ALL_COMPLETE:
            return own + complete + [face for face in infos if face.needs_interests and face not in complete]
        if complete:
            return [*own, min(complete, key=lambda face: infos[face])]
        return own + list(infos)

    def request(
        self, source: Face, id: int, key: bytes, message: bytes, reliable: bool, now: float, matches: Matches,
        local: bool = True, remote: bool = True,
    ) -> tuple[list[OutgoingMessage], list[tuple[Face, int]]]:  # fmt: skip
        """Handle a query. Return the messages to send, and the applications that receive it with the request id."""
        request = Request().decode(Cursor(message))
        if id in source.queries:
            self.counters["requests refused: id in use"] += 1
            return [], []
        if not source.is_application and not source.account.charge(Resource.QUERIES, QUERY):
            self.counters[f"limit reached: {Resource.QUERIES.value}"] += 1
            return [OutgoingMessage(source, ResponseFinal(id=id, qos=request.qos).encode(), request.qos, reliable)], []
        timeout = min(request.timeout_ms / 1000 if request.has_timeout else self.timeout, MAX_TIMEOUT)
        pending = PendingQuery(source, id, request.qos, reliable, now + timeout, request.budget)
        sends, local_requests = [], []
        self.add_route_record(request.timestamp_stack)
        root = self.routers.find_root(source, request.node_id)
        for face in self.route(source, root, key, request.target, matches, local, remote) if root is not None else ():
            new = face.next_request()
            if new is None:
                self.counters["requests dropped: no request id free"] += 1
                continue
            face.requests[new] = pending
            pending.outstanding[face] = new
            if face.is_application:
                local_requests.append((face, new))
            else:
                if self.on_forward is not None:
                    self.on_forward(source, id, face, new)
                request.id = new
                request.node_id = root.psid if root is not None and face.role is FaceRole.TREE else 0
                request.key.set(_decode_suffix(face.wire_key(key)))
                sends.append(OutgoingMessage(face, request.encode(), pending.qos, reliable))
        source.queries[id] = pending
        if pending.outstanding:
            pending.is_timed = True
            heapq.heappush(self._deadlines, (pending.deadline, next(self._count), pending))
            if self._deadlines[0][2] is pending:
                self.on_earlier_deadline(pending.deadline)
            return sends, local_requests
        return [self._end(pending)], []

    # Replies

    def response(self, face: Face, id: int, key: bytes | None, message: bytes) -> list[OutgoingMessage]:
        """Handle a reply of a face. Return the message for the querier, with the querier's request id."""
        pending = face.requests.get(id)
        if pending is None:
            self.counters["replies to unknown queries"] += 1
            return []
        if not self._allows(pending, key):
            return []
        response = Response().decode(Cursor(message))
        response.id = pending.id
        self.add_route_record(response.timestamp_stack)
        response.err.shm = False  # eclipse-zenoh announces shared memory on errors that have none
        if key is not None:
            response.key.set((0, True, key.decode()))  # always in full: 1.7.2 and older do not know our key ids here
        sends = [OutgoingMessage(pending.source, response.encode(), pending.qos, pending.reliable)]
        if pending.budget:
            pending.budget -= 1
            if not pending.budget:
                sends.append(self._end(pending))
        return sends

    def _allows(self, pending: PendingQuery, key: bytes | None) -> bool:
        """Return whether a reply may leave to the face that sent the query. Count it if not."""
        if pending.source.allows_egress("reply", key):
            return True
        self.counters["denied: reply"] += 1
        return False

    def on_final(self, face: Face, id: int) -> list[OutgoingMessage]:
        """Handle the end of the replies of a face."""
        pending = face.requests.pop(id, None)
        if pending is None:
            self.counters["replies to unknown queries"] += 1
            return []
        pending.outstanding.pop(face, None)
        return [] if pending.outstanding else [self._end(pending)]

    def cancel(self, pending: PendingQuery) -> None:
        """End a query whose source accepts no more replies."""
        if not pending.is_over:
            self._end(pending)

    def _end(self, pending: PendingQuery) -> OutgoingMessage:
        pending.is_over = True
        if pending.is_timed:
            pending.is_timed = False
            self._ended_count += 1
            if 2 * self._ended_count > len(self._deadlines) + 64:  # remove ended queries: each is moved once
                self._deadlines = [entry for entry in self._deadlines if not entry[2].is_over]
                heapq.heapify(self._deadlines)
                self._ended_count = 0
        if pending.fast_path is not None:
            pending.fast_path.is_over = True
        for face, id in pending.outstanding.items():
            face.requests.pop(id, None)
        pending.outstanding.clear()
        if pending.source.queries.pop(pending.id, None) is not None:
            pending.source.refund(Resource.QUERIES, QUERY)
        final = ResponseFinal(id=pending.id, qos=pending.qos).encode()
        return OutgoingMessage(pending.source, final, pending.qos, pending.reliable)

    def remove_face(self, face: Face) -> Iterator[list[OutgoingMessage]]:
        """End the queries of a face that is gone, and its replies, in steps. Yields messages to send."""
        for number, pending in enumerate(list(face.queries.values())):
            self.cancel(pending)
            if number % STEP == STEP - 1:
                yield []
        for id in list(face.requests):
            if id in face.requests:
                yield self.on_final(face, id)

    # Time

    def next_timeout(self) -> float | None:
        while self._deadlines and self._deadlines[0][2].is_over:
            heapq.heappop(self._deadlines)
            self._ended_count -= 1
        return self._deadlines[0][0] if self._deadlines else None

    def on_timeout(self, now: float) -> list[OutgoingMessage]:
        """End queries that are due, a few at a time: `next_timeout` is then in the past."""
        sends: list[OutgoingMessage] = []
        while self._deadlines and self._deadlines[0][0] <= now and len(sends) < STEP:
            pending = heapq.heappop(self._deadlines)[2]
            if pending.is_over:
                self._ended_count -= 1
                continue
            pending.is_timed = False
            for face in pending.outstanding:
                self.counters["queries timed out"] += 1
                if not self._allows(pending, None):
                    continue
                responder = EntityGlobalId(ZenohId.from_wire(face.zid), 0)  # as 1.10.2: the face that did not reply
                error = Response(
                    id=pending.id, key=(0, True, None), qos=pending.qos, responder=responder, body=Err(payload=TIMEOUT)
                ).encode()  # fmt: skip
                sends.append(OutgoingMessage(pending.source, error, pending.qos, pending.reliable))
            sends.append(self._end(pending))
        return sends


def _decode_suffix(key: tuple[int, bool, bytes | None]) -> tuple[int, bool, str | None]:
    scope, sender, suffix = key
    return scope, sender, None if suffix is None else suffix.decode()
