# SPDX-License-Identifier: Apache-2.0
"""A face: the declarations of one neighbour, the declarations sent to it, and open interests and queries.

A face does not use sockets: a `TxHandle` sends its messages. If the handle refuses a message that must not be dropped, the
face stores it in its backlog. While the backlog is not empty, faces whose messages fill it are not read from.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zenlake.core.enums import WhatAmI
from zenlake.core.peer_limits import Account, Resource
from zenlake.errors import CloseReason
from zenlake.network.access_control import EGRESS, FaceAccess
from zenlake.network.keyexpr_tree import MAX_DEPTH, KeyExprTree
from zenlake.network.roles import FaceRole, group, role_of
from zenlake.session.key_table import KeyTable
from zenlake.transport.queue_handle import QueueHandle
from zenlake.transport.rx import RETRY, SUSPEND, Sink
from zenlake.wire import message_ids
from zenlake.wire.declare import Declare, DeclareEntity, DeclareFinal, UndeclareEntity
from zenlake.wire.declare import Interest as InterestMessage

if TYPE_CHECKING:
    from zenlake.network.jobs import Job
    from zenlake.network.queries import PendingQuery

__all__ = [
    "Aggregate", "SentInterest", "DECLARATION_NAMES", "Face", "FaceInterest", "KINDS", "TxHandle", "QUERYABLE", "SUBSCRIBER",
    "TOKEN", "name_interest",
]  # fmt: skip

# Kinds of declarations, by the id of the declaration's body, and their bits in the options of an interest.
SUBSCRIBER, QUERYABLE, TOKEN = 0x02, 0x04, 0x06
KINDS = {SUBSCRIBER: 0x02, QUERYABLE: 0x04, TOKEN: 0x08}
# Names of declarations in access control.
DECLARATION_NAMES = {SUBSCRIBER: "declare_subscriber", QUERYABLE: "declare_queryable", TOKEN: "liveliness_token"}

CURRENT, FUTURE = 1, 2
AGGREGATE = 0x80
RESTRICTED = 0x10

BLOCK = 1

# Sizes in bytes of stored objects, without keys; measured by tests/network/test_limits.py.
MESSAGE = 160
"""A message of a backlog."""
INTEREST = 1000
DECLARATION = 1000
KEY_ID = 200
CHUNK = 360
"""A chunk of a key in a `KeyExprTree`."""


def weigh_key(key: bytes | None) -> int:
    """Return the bytes that a key takes in the tables and in a `KeyExprTree`, where at least two keys share each branch."""
    if key is None:
        return 0
    return 2 * len(key) + CHUNK * (2 + min(key.count(b"/"), MAX_DEPTH) + min(key.count(b"$"), MAX_DEPTH)) // 2


class TxHandle:
    """Transmit handle of a face: a connection of the runtime, or a test double."""

    def send(self, message: bytes, priority: int, reliable: bool, congestion: int, express: bool) -> bool:
        """Send a message. Return False if there is no room."""
        raise NotImplementedError

    def can_block(self) -> bool:
        """Return whether `send` on this thread waits for room by itself."""
        return False

    def write(self) -> None:
        """Write queued messages as far as possible without blocking."""

    def close(self, reason: CloseReason) -> None:
        """Close the connection immediately."""

    def describe(self) -> dict[str, object]:
        """Return a description of the connection for the admin space."""
        return {}

    def pause(self) -> None:
        """Stop reading from the connection."""

    def resume(self) -> None:
        """Resume reading from the connection."""


@dataclass(eq=False, slots=True)
class FaceInterest:
    """An interest of a neighbour or of the application."""

    face: "Face"
    id: int
    mode: int
    options: int
    key: bytes | None
    pending: set["SentInterest"] = field(default_factory=set)
    """Interests sent to other faces on its behalf that have not ended yet. It is answered after them."""
    is_answered: bool = False
    is_replying: bool = False
    is_counted: bool = False
    """Whether an `Aggregate` counts it."""
    sent_interests: list["SentInterest"] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Size in bytes to charge. The interest is in one index for each kind."""
        return INTEREST + sum(self.wants(kind) for kind in KINDS) * weigh_key(self.key)

    def wants(self, kind: int) -> bool:
        return self.options & KINDS[kind] != 0

    @property
    def is_aggregate(self) -> bool:
        """Whether one declaration, on the key of the interest, replaces all declarations that intersect it."""
        return self.options & AGGREGATE != 0 and self.key is not None


class Aggregate:
    """The key of aggregate interests of one face, and the number of these interests by kind.

    A kind with no interest left stays until its declaration is withdrawn.
    """

    __slots__ = ("key", "kinds")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.kinds: dict[int, int] = {}


@dataclass(eq=False, slots=True)
class SentInterest:
    """An interest sent to a neighbour on behalf of another interest."""

    face: "Face"
    id: int
    interest: FaceInterest
    is_final: bool = False


def name_interest(mode: int, options: int) -> str | None:
    """Return the name of an interest in access control, which judges interests in tokens only."""
    if not options & KINDS[TOKEN]:
        return None
    return "liveliness_query" if mode == CURRENT else "declare_liveliness_subscriber"


class Face:
    """One neighbour.

    Threading: guarded by the node's lock, except `send`.
    """

    receives_all_samples = False
    """Whether every sample is sent to it, without regard to its declarations."""

    def __init__(
        self, tx: TxHandle, zid: bytes, own: WhatAmI, whatami: WhatAmI,
        remote_keys: KeyTable | None = None, local_keys: KeyTable | None = None, request_ids: int = 0xFFFFFFFF,
        is_gateway: bool = False,
    ) -> None:  # fmt: skip
        self.tx = tx
        self.zid = zid
        self.whatami = whatami
        self.role = role_of(own, whatami, is_gateway)
        self.group: object = group(own, whatami, is_gateway) or self
        self.is_application = False
        self.is_open = True
        self.account = Account()
        """Memory that the neighbour makes this node use."""
        self.on_limit: Callable[[Face, Resource], None] = lambda face, resource: None
        self.on_full: Callable[[], None] = lambda: None
        """Called when the memory of all faces together is used up."""
        self.is_ending = False
        """Whether it is being closed because of a limit. Further messages from it are not handled."""
        self.guard: FaceAccess | None = None
        """Its permissions, or None if everything is allowed."""
        # Key ids: declared by the neighbour, by id and by key; declared by this node.
        self.remote_keys = remote_keys or KeyTable()
        self.local_keys = local_keys or KeyTable()
        self.prefixes: dict[bytes, int] = {}
        self.declared_keys: dict[int, dict[int, bytes]] = {kind: {} for kind in KINDS}
        self.sent_declarations: dict[int, dict[bytes, tuple[int, int]]] = {kind: {} for kind in KINDS}
        self.interests: dict[int, FaceInterest] = {}
        self.aggregates: dict[bytes, Aggregate] = {}
        self.stale_aggregates: dict[tuple[int, bytes], bool] = {}
        """Aggregates to update: kind and key, and whether a plain interest wants the declaration too."""
        self.is_refreshing = False
        self.sent_interests: dict[int, SentInterest] = {}
        self.covered_keys: KeyExprTree[list[SentInterest]] = KeyExprTree()
        """Of a neighbour that receives our interests: keys for which it has declared all of its subscribers."""
        self.requests: dict[int, PendingQuery] = {}
        self.queries: dict[int, PendingQuery] = {}
        self.request_ids = request_ids
        self.routes: dict[Any, Any] = {}
        self.tree_routes: dict[int, dict[Any, Any]] = {}
        """Of a router: routes of samples that follow the tree of another router, by the neighbour's number for that router."""
        self.queue_handle: QueueHandle | None = None
        """Fast path for samples, if the connection has one."""
        self.backlog: deque[tuple[bytes, int, bool, int, bool]] = deque()
        self.blocked_since: float | None = None
        self.has_progress = False
        """Whether the last `drain` sent anything."""
        self.paused_faces: set[Face] = set()
        """Faces that are not read from until the backlog of this face is empty."""
        self.pause_reasons: set[object] = set()
        """Reasons not to read from it: faces whose backlog it fills, and those given to `suspend`."""
        self.sink: Sink | None = None
        """Receiver of its messages, if it can be suspended."""
        self.jobs: deque[Job] = deque()
        self.job_result: tuple[object, Any] | None = None
        """Result of a job for the message that is handled again: name of the message, and the result."""
        self.dirty_faces: set[Face] = set()
        """Set of the node: faces with queued messages."""
        self.dropped = 0
        self.has_initial_final = False
        self.psids: dict[int, bytes] = {}
        """Its numbers for the nodes of the link state."""
        self.gateways: frozenset[bytes] = frozenset()
        """Of a peer: the routers that it reports as connected."""
        self._last_request = 0
        self.last_id = 0

    @property
    def receives_all_declarations(self) -> bool:
        """Whether it receives all declarations without an interest."""
        return self.role is FaceRole.NORTH or self.role is FaceRole.BESIDE

    @property
    def needs_interests(self) -> bool:
        """Whether it sends declarations only in reply to interests."""
        return self.role is FaceRole.NORTH

    def next_id(self) -> int:
        """Return the next id for declarations and interests: one counter for both, as in 1.10.2."""
        self.last_id += 1
        return self.last_id

    def next_request(self) -> int | None:
        """Return a free request id, or None if all are in use."""
        if len(self.requests) >= self.request_ids:
            return None
        while True:
            self._last_request = self._last_request % self.request_ids + 1
            if self._last_request not in self.requests:
                return self._last_request

    def accepts(self, kind: int, reader: Any) -> bool:
        """Return whether the neighbour may send the message of this kind that is live in its reader."""
        return True

    # Receive path

    def suspend(self, reason: object, retry: bool = False) -> None:
        """Handle no further messages of the neighbour until `release`, including messages that were read already.

        Args:
            reason: Any object; give the same to `release`.
            retry: Whether the current message is handled again afterwards.
        """
        self.pause_reasons.add(reason)
        if self.sink is not None and self.sink.suspended != RETRY:
            self.sink.suspended = RETRY if retry else SUSPEND
        self.tx.pause()

    def release(self, reason: object) -> None:
        """End a suspension. Messages are handled again when no reason is left."""
        if reason in self.pause_reasons:
            self.pause_reasons.discard(reason)
            if not self.pause_reasons:
                self.tx.resume()

    # Memory

    def charge(self, resource: Resource, size: int) -> bool:
        """Charge memory to this neighbour. At its limit, have it closed and return False."""
        account = self.account
        if not account.charge(resource, size):
            self.on_limit(self, resource)
            return False
        if account.budget is not None and account.budget.is_full:
            self.on_full()
        return True

    def refund(self, resource: Resource, size: int) -> None:
        """Release charged memory."""
        if self.is_open:  # otherwise the account is closed
            self.account.release(resource, size)

    @property
    def is_full(self) -> bool:
        """Whether its backlog is so large that replies to it must wait."""
        return self.account.is_above(Resource.CONTROL_BACKLOG, 0.5)

    # Keys

    def resolve(self, scope: int, by_sender: bool, suffix: bytes | None) -> bytes | None:
        """Return the whole key of a message from the neighbour, or None if its key id is unknown."""
        if not scope:
            return suffix or b""
        prefix: bytes | None = (self.remote_keys if by_sender else self.local_keys).get(scope)
        return None if prefix is None else prefix + (suffix or b"")

    def wire_key(self, key: bytes) -> tuple[int, bool, bytes | None]:
        """Return the key as it is sent: with an id that the neighbour declared if possible, otherwise in full."""
        if self.prefixes:
            end = len(key)
            while end > 0:
                id = self.prefixes.get(key[:end])
                if id is not None:
                    return id, False, key[end:] or None
                end = key.rfind(b"/", 0, end)
        return 0, True, key

    # Transmit path, overridden by the application. Each message on a key passes access control here.

    def allows_egress(self, message: str, key: bytes | None) -> bool:
        """Return whether access control lets a message on a key leave to this neighbour."""
        return self.guard is None or self.guard.allows(EGRESS, message, key)

    def declare(
        self, kind: int, id: int, key: bytes, info: int, interest_id: int | None = None, node_id: int = 0
    ) -> None:  # fmt: skip
        """Send a declaration. `node_id` is the root of the tree that it follows, between routers."""
        if not self.allows_egress(DECLARATION_NAMES[kind], key):
            return
        scope, sender, suffix = self.wire_key(key)
        text = None if suffix is None else suffix.decode()
        body = DeclareEntity(kind=kind, id=id, key=(scope, sender, text), info=info)
        self.control(Declare(interest_id=interest_id, qos=message_ids.QOS_CONTROL, node_id=node_id, body=body).encode())

    def undeclare(self, kind: int, id: int, key: bytes, node_id: int = 0) -> None:
        """Withdraw a declaration by its id, or by its key if the id is 0."""
        if not self.allows_egress(DECLARATION_NAMES[kind], key):
            return
        wire_key: tuple[int, bool, str | None] | None = None
        if id == 0:
            scope, sender, suffix = self.wire_key(key)
            wire_key = scope, sender, None if suffix is None else suffix.decode()
        elif kind != SUBSCRIBER:
            wire_key = 0, False, None  # as 1.10.2: an empty extension
        body = UndeclareEntity(kind=kind + 1, id=id, key=wire_key)
        self.control(Declare(qos=message_ids.QOS_CONTROL, node_id=node_id, body=body).encode())

    def send_final(self, interest_id: int) -> None:
        self.control(Declare(interest_id=interest_id, qos=message_ids.QOS_CONTROL, body=DeclareFinal()).encode())

    def send_interest(self, id: int, mode: int, options: int, key: bytes | None) -> bool:
        """Send an interest. Return False if access control stops it."""
        message = name_interest(mode, options)
        if message is not None and not self.allows_egress(message, key or b"**"):
            return False
        text = None if key is None else key.decode()
        self.control(InterestMessage(mode=mode, id=id, options=options, key=text, qos=message_ids.QOS_CONTROL).encode())
        return True

    def send_interest_final(self, id: int) -> None:
        self.control(InterestMessage(mode=0, id=id, qos=message_ids.QOS_CONTROL).encode())

    def control(self, message: bytes) -> None:
        """Queue a message of the control lane; the node's `flush` sends it."""
        self.enqueue((message, 0, True, BLOCK, False))

    def enqueue(self, entry: tuple[bytes, int, bool, int, bool]) -> None:
        """Append a message to the backlog. A neighbour whose backlog is at its limit is closed."""
        if self.is_open and self.charge(Resource.CONTROL_BACKLOG, MESSAGE + len(entry[0])):
            self.backlog.append(entry)
            self.dirty_faces.add(self)

    def send(self, message: bytes, qos: int, reliable: bool, ordered: bool = False) -> bool:
        """Send a message now. Return False if it was dropped or stored. With `ordered`, it never overtakes the backlog."""
        congestion = BLOCK if qos & message_ids.QOS_BLOCK else 2 if qos & message_ids.QOS_BLOCK_FIRST else 0
        priority, express = qos & message_ids.QOS_PRIORITY, qos & message_ids.QOS_EXPRESS != 0
        if not self.is_open:
            return False
        droppable = congestion == 0 or not reliable
        may_send_now = not self.backlog or droppable or (not ordered and self.tx.can_block())
        if may_send_now and self.tx.send(message, priority, reliable, congestion, express):
            return True
        if droppable:
            self.dropped += 1
        else:
            self.enqueue((message, priority, reliable, congestion, express))
        return False

    def drain(self) -> bool:
        """Send the backlog. Return True if it is empty and the handle is not over its limit."""
        backlog, send = self.backlog, self.tx.send
        size = 0
        try:
            while backlog:
                if not self.is_open:
                    backlog.clear()
                    break
                if not send(*backlog[0]):
                    return False
                size += MESSAGE + len(backlog.popleft()[0])
        finally:
            self.has_progress = size > 0
            if size:
                self.refund(Resource.CONTROL_BACKLOG, size)
        return self.queue_handle is None or not self.is_open or not self.queue_handle.is_over
