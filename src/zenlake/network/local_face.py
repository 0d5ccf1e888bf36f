# SPDX-License-Identifier: Apache-2.0
"""The application as a face of its own node: its declarations, publications, queries and replies.

Threading: all methods may be called from any thread. `deliver` callbacks run without a lock and receive the live reader. The
record is valid until they return. `docs/design/network.md` lists the complete interface and its rules.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from zenlake.core import peer_limits
from zenlake.core.encoding import Encoding
from zenlake.core.enums import ConsolidationMode, Locality, WhatAmI
from zenlake.core.identifiers import SourceInfo, Timestamp
from zenlake.core.keyexpr import includes, intersects
from zenlake.errors import LocalError
from zenlake.network.consolidation import Consolidation
from zenlake.network.declarations import COMPLETE, DeclaredKey, may_pass
from zenlake.network.face import CURRENT, FUTURE, QUERYABLE, RESTRICTED, SUBSCRIBER, TOKEN, Face, TxHandle
from zenlake.network.forwarding import PushListener
from zenlake.network.jobs import Job
from zenlake.network.keyexpr_tree import MAX_STEPS, KeyExprTree, Walk
from zenlake.network.local_entities import (
    Declared,
    Deliver,
    LocalEntity,
    LocalLivelinessSubscriber,
    LocalPublisher,
    LocalQuerier,
    LocalQueryable,
    LocalSubscriber,
    LocalToken,
    MatchingEntity,
    Watcher,
    list_entity,
    unlist_entity,
)  # fmt: skip
from zenlake.network.local_queries import Get, IncomingQuery, LivelinessGet
from zenlake.network.namespace import Namespace
from zenlake.network.prepared_put import PreparedPut
from zenlake.transport.references import SharedPayload
from zenlake.wire import message_ids
from zenlake.wire.network import Push, Request
from zenlake.wire.zenoh_body import Query as QueryBody

if TYPE_CHECKING:
    from zenlake.network.node import Node

__all__ = [
    "LocalFace", "LocalLivelinessSubscriber", "LocalPublisher", "LocalQuerier", "LocalQueryable", "LocalSubscriber", "LocalToken",
]  # fmt: skip

LOCAL, REMOTE, ANY = Locality.SESSION_LOCAL, Locality.REMOTE, Locality.ANY
Buffer = bytes | bytearray | memoryview


class LocalFace(Face):
    """The face of the application in this process."""

    def __init__(self, node: "Node") -> None:
        super().__init__(TxHandle(), node.zid, WhatAmI.ROUTER, WhatAmI.CLIENT)  # its node treats it as a client
        self.is_application = True
        self.node = node
        self.subscribers: KeyExprTree[list[LocalSubscriber]] = KeyExprTree()
        self.queryables: KeyExprTree[list[LocalQueryable]] = KeyExprTree()
        self.watchers: dict[int, KeyExprTree[list[MatchingEntity]]] = {
            SUBSCRIBER: KeyExprTree(),
            QUERYABLE: KeyExprTree(),
        }
        self._stale_watchers: dict[MatchingEntity, None] = {}
        """Watchers to match again, because a declaration that they matched has ended."""
        self._is_searching = False
        self.liveliness: dict[int, LocalLivelinessSubscriber] = {}
        self.liveliness_gets: dict[int, LivelinessGet] = {}
        self.gets: dict[int, Get] = {}
        self.entities: dict[int, LocalEntity] = {}
        self.namespace = Namespace()
        self.is_closed = False
        self._pushes: list[Push] = []

    # Declarations

    def declare_subscriber(self, key: bytes, deliver: Deliver, origin: Locality = ANY) -> LocalSubscriber:
        """Declare a subscriber. Samples are in `reader.push`.

        Args:
            key: Key expression of the subscriber.
            deliver: A function `deliver(key, reader)`, or a `PushListener` whose `take` is called. With None, samples are requested
                but not delivered: a recording of the node contains them.
            origin: Locality of the samples to deliver.
        """
        key = self.namespace.add_prefix(key)
        with self.node.lock:
            subscriber = self._add(LocalSubscriber(self, key, deliver, origin))
            list_entity(self.subscribers, subscriber)
            self.node.declarations.epoch.number += 1
            if origin is not LOCAL:
                self.node.declarations.declare(self, SUBSCRIBER, subscriber.id, key)
        self.node._run_effects()
        return subscriber

    def declare_queryable(
        self, key: bytes, deliver: Callable[..., object], complete: bool = False, origin: Locality = ANY
    ) -> LocalQueryable:
        """Declare a queryable: `deliver(query, reader)` is called for each query in `reader.request`, and replies use `query`."""
        key = self.namespace.add_prefix(key)
        with self.node.lock:
            queryable = self._add(LocalQueryable(self, key, deliver, origin, complete))
            list_entity(self.queryables, queryable)
            if origin is not LOCAL:
                info = COMPLETE if complete else 0
                self.node.declarations.declare(self, QUERYABLE, queryable.id, key, info)
        self.node._run_effects()
        return queryable

    def declare_token(self, key: bytes) -> LocalToken:
        """Declare a liveliness token. The key is alive until the token is undeclared or the node is gone."""
        key = self.namespace.add_prefix(key)
        with self.node.lock:
            token = self._add(LocalToken(self, key))
            self.node.declarations.declare(self, TOKEN, token.id, key)
        self.node._run_effects()
        return token

    def declare_publisher(self, key: bytes, destination: Locality = ANY) -> LocalPublisher:
        """Declare a publisher. Puts on its key are sent only to faces with matching subscribers."""
        return self._watch(LocalPublisher(self, self.namespace.add_prefix(key), destination), 0x02)

    def declare_querier(self, key: bytes, destination: Locality = ANY, complete: bool = False) -> LocalQuerier:
        """Declare a querier, which watches the queryables on a key. With `complete`, only complete queryables match."""
        return self._watch(LocalQuerier(self, self.namespace.add_prefix(key), destination, complete), 0x04)

    def _watch(self, watcher: Watcher, option: int) -> Watcher:
        node = self.node
        with node.lock:
            self._add(watcher)
            list_entity(self.watchers[watcher.kind], watcher)
            self._search_soon(watcher)
            options = option | RESTRICTED
            node.interests.on_interest(self, watcher.id, CURRENT | FUTURE, options, watcher.key, node.now())
        node._run_effects()
        return watcher

    def declare_liveliness_subscriber(
        self, key: bytes, deliver: Callable[[bytes, bool], object], history: bool = False
    ) -> LocalLivelinessSubscriber:
        """Call `deliver(key, alive)` when a matching token appears or ends. With history, also for current tokens."""
        node, key = self.node, self.namespace.add_prefix(key)
        with node.lock:
            subscriber = self._add(LocalLivelinessSubscriber(self, key, deliver, history))
            self.liveliness[subscriber.id] = subscriber
            mode = CURRENT | FUTURE if history else FUTURE
            node.interests.on_interest(self, subscriber.id, mode, 0x08 | RESTRICTED, key, node.now())
        node._run_effects()
        return subscriber

    def liveliness_get(
        self, key: bytes, deliver: Callable[[bytes], object], done: Callable[[bool], object], timeout: float = 10.0
    ) -> LivelinessGet:
        """Call `deliver(key)` for each current token, then `done(timed_out)`."""
        node, key = self.node, self.namespace.add_prefix(key)
        with node.lock:
            self._check()
            get = LivelinessGet(self, self.next_id(), deliver, done, node.now() + timeout)
            self.liveliness_gets[get.id] = get
            node.interests.on_interest(self, get.id, CURRENT, 0x08 | RESTRICTED, key, node.now(), timeout)
        node._run_effects()
        return get

    def _check(self) -> None:
        if self.is_closed:
            raise LocalError("the session is closed")

    def _add(self, entity: Declared) -> Declared:
        self._check()
        self.entities[entity.id] = entity
        return entity

    def undeclare_entity(self, entity: LocalEntity) -> None:
        """Undeclare an entity. Repeated calls have no effect."""
        node = self.node
        with node.lock:
            if self.entities.pop(entity.id, None) is None:
                return
            entity.is_declared = False
            if isinstance(entity, MatchingEntity):
                unlist_entity(self.watchers[entity.kind], entity)
                node.interests.end(self, entity.id)
            elif isinstance(entity, LocalLivelinessSubscriber):
                del self.liveliness[entity.id]
                node.interests.end(self, entity.id)
            else:
                if isinstance(entity, LocalSubscriber):
                    unlist_entity(self.subscribers, entity)
                elif isinstance(entity, LocalQueryable):
                    unlist_entity(self.queryables, entity)
                node.declarations.epoch.number += 1
                if entity.id in self.declared_keys[entity.kind]:
                    node.declarations.undeclare(self, entity.kind, entity.id)
        node._run_effects()

    def close(self) -> None:
        """Undeclare all entities and refuse later calls. Open queries end."""
        with self.node.lock:
            entities = list(self.entities.values())
            self.is_closed = True
            gets, liveliness_gets = list(self.gets.values()), list(self.liveliness_gets.values())
        for entity in entities:
            self.undeclare_entity(entity)
        for get in gets:
            get.cancel()
        for liveliness_get in liveliness_gets:
            liveliness_get.end(True)

    # Publications

    def put(
        self, key: bytes, payload: Buffer | SharedPayload, *, encoding: Encoding | None = None, attachment: Buffer | None = None,
        timestamp: Timestamp | None = None, source: SourceInfo | None = None, priority: int = 5, congestion: int = 0,
        express: bool = False, reliable: bool = True, destination: Locality = ANY, stack: bytes | None = None,
    ) -> bool:  # fmt: skip
        """Publish a value on a key. Return False if a connection or a local subscriber had no room and dropped it."""
        if timestamp is not None and self.node.adds_timestamps and not self.node.accept_timestamp(timestamp):
            if self.node.replaces_future_timestamp():
                timestamp = None
            elif destination is REMOTE:
                return False
            else:
                destination = LOCAL
        push = self._push(True, timestamp, source, attachment, stack)
        push.put.encoding.set(encoding)
        shared = payload if isinstance(payload, SharedPayload) else None
        if shared is None:
            push.put.payload.set(payload)
        else:
            push.put.shm = True
            push.put.slices.set(shared.slices())
        return self._publish(key, push, qos_byte(priority, congestion, express), reliable, destination, shared)

    def delete(
        self, key: bytes, *, attachment: Buffer | None = None, timestamp: Timestamp | None = None,
        source: SourceInfo | None = None, priority: int = 5, congestion: int = 0, express: bool = False,
        reliable: bool = True, destination: Locality = ANY, stack: bytes | None = None,
    ) -> bool:  # fmt: skip
        """Publish the deletion of a key."""
        push = self._push(False, timestamp, source, attachment, stack)
        return self._publish(key, push, qos_byte(priority, congestion, express), reliable, destination)

    def _push(
        self, is_put: bool, timestamp: Timestamp | None, source: SourceInfo | None, attachment: Buffer | None,
        stack: bytes | None,
    ) -> Push:  # fmt: skip
        self._check()
        try:
            push = self._pushes.pop()
        except IndexError:
            push = Push(key=(0, False, None))
        push.is_put = is_put
        body = push.body
        if timestamp is None and self.node.adds_timestamps:
            timestamp = self.node.timestamp()
        body.timestamp.set(timestamp)
        body.source.set(source)
        body.attachment.set(attachment)
        push.timestamp_stack.set(stack)
        return push

    def _publish(
        self, key: bytes, push: Push, qos: int, reliable: bool, destination: Locality, shared: SharedPayload | None = None
    ) -> bool:  # fmt: skip
        push.qos = qos
        message = push.encode()
        push.put.payload.set(b"")
        if shared is not None:
            push.put.shm = False
            push.put.slices.set(None)
        self._pushes.append(push)
        has_exts = message[0] & message_ids.Z != 0
        return self.node.routes.publish(
            self.namespace.add_prefix(key), message[2:], has_exts, qos, reliable, destination is not REMOTE,
            destination is not LOCAL, push.is_put != 0, shared,
        )  # fmt: skip

    def prepare_put(
        self, key: bytes, *, encoding: Encoding | None = None, priority: int = 5, congestion: int = 0,
        express: bool = False, reliable: bool = True, destination: Locality = ANY,
    ) -> PreparedPut | None:  # fmt: skip
        """Return a handle for puts on one key that differ only in their payload, or None if each needs a timestamp of this node."""
        if self.node.adds_timestamps:
            return None
        qos = qos_byte(priority, congestion, express)
        local, remote = destination is not REMOTE, destination is not LOCAL
        return PreparedPut(self.node, self.namespace.add_prefix(key), encoding, qos, reliable, local, remote)

    def find_receivers(self, key: bytes, source: Face) -> tuple[PushListener, ...]:
        """Return the subscribers that receive a sample on a key from a face. The caller holds the lock."""
        excluded_origin = REMOTE if source is self else LOCAL
        matches = self.subscribers.find(key)
        return tuple(
            subscriber.listener
            for group in matches
            for subscriber in group
            if subscriber.origin is not excluded_origin and subscriber.listener is not None
        )

    # Queries of the application

    def get(
        self, key: bytes, deliver: Callable[..., object], done: Callable[[], object], *, parameters: str = "",
        target: int = 0, consolidation: ConsolidationMode = ConsolidationMode.AUTO, timeout: float = 10.0,
        payload: Buffer | None = None, encoding: Encoding | None = None, attachment: Buffer | None = None,
        source: SourceInfo | None = None, priority: int = 5, congestion: int = 1, express: bool = False,
        destination: Locality = ANY, accept_any: bool = False, budget: int = 0, stack: bytes | None = None,
    ) -> Get:  # fmt: skip
        """Query the queryables of a key.

        `deliver(key, reader)` is called for each reply that passes consolidation. The message is `reader.response`. `key` is None
        for an error without a key. Then `done()` is called once. With a `budget`, the query ends after this number of replies at
        the latest. If `deliver` is a `PushListener`, its `mode` is set to the consolidation mode. Unless that is Monotonic, the
        listener receives every reply.
        """
        self._check()
        node, key = self.node, self.namespace.add_prefix(key)
        qos = qos_byte(priority, congestion, express)
        listener = deliver if isinstance(deliver, PushListener) else None
        get = Get(
            self, key, deliver if listener is None else listener.take, done, parameters, consolidation, accept_any
        )
        body = QueryBody(
            consolidation=int(get.consolidation.mode), parameters=parameters.encode() if parameters else None,
            source=source, encoding=encoding, attachment=attachment,
            body=b"" if payload is None and encoding is not None else payload,
        )  # fmt: skip
        matches = node.run(node.queries.match(key)) if destination is not LOCAL else []
        with node.lock:
            get.id = self.next_get_id()
            self.gets[get.id] = get
            request = Request(
                id=get.id, key=key.decode(), qos=qos, target=target, timeout=max(1, round(timeout * 1000)), body=body,
                budget=budget, timestamp_stack=stack,
            ).encode()  # fmt: skip
            local = destination is not REMOTE and any(
                queryable.origin is not REMOTE for group in self.queryables.find(key) for queryable in group
            )
            sends, local_requests = node.queries.request(
                self, get.id, key, request, True, node.now(), matches, local, destination is not LOCAL
            )
            get.pending = self.queries.get(get.id)
            if listener is not None:
                listener.mode = get.consolidation.mode
                if listener.mode is not ConsolidationMode.MONOTONIC:
                    get.consolidation = Consolidation(ConsolidationMode.NONE)
                    get.enable_fast_path(listener)
        node._perform(sends)
        for _, id in local_requests:
            reader = node.borrow_reader(request)
            try:
                reader.next()
                self.deliver_query(id, key, reader)
            finally:
                node.return_reader(reader)
        node.wake()
        return get

    def next_get_id(self) -> int:
        id = self.next_id()
        while id in self.queries:
            id = self.next_id()
        return id

    def receive(self, message: bytes) -> None:
        """Handle a reply, or the end of replies, to a query of the application."""
        reader = self.node.borrow_reader(message)
        try:
            kind = reader.next()
            if kind == message_ids.RESPONSE:
                get = self.gets.get(reader.response.id)
                if get is not None:
                    get.on_reply(reader, message)
            else:
                get = self.gets.pop(reader.final.id, None)
                if get is not None:
                    get.end()
        finally:
            self.node.return_reader(reader)

    # Queries to the application

    def deliver_query(self, id: int, key: bytes, reader: Any) -> None:
        """Pass a query to each matching queryable of the application."""
        complete_only = reader.request.target == 2
        with self.node.lock:
            pending = self.requests.get(id)
            if pending is None:
                return
            excluded_origin = REMOTE if pending.source is self else LOCAL
            selected = [
                queryable for group in self.queryables.find(key) for queryable in group
                if queryable.origin is not excluded_origin
                and (not complete_only or (queryable.complete and includes(queryable.key, key)))
            ]  # fmt: skip
            app_key = self.namespace.strip_prefix(key) or key
            queries = [IncomingQuery(self, id, pending, app_key, queryable.global_id) for queryable in selected]
            for query in queries:
                query.siblings = queries
            any_key = b"_anyke" in (reader.request.query.parameters.value or b"")
        if not queries:
            return self.finish(id, pending)
        for query, queryable in zip(list(queries), selected, strict=True):
            query.accepts_any = any_key
            self.node.call(queryable.deliver, query, reader)

    def finish(self, id: int, pending: Any) -> None:
        """End the replies of the application to a query."""
        with self.node.lock:
            sends = self.node.queries.on_final(self, id) if self.requests.get(id) is pending else []
        self.node._perform(sends)

    # Matching

    def match(self, watcher: MatchingEntity) -> Walk[bytes | None]:
        """Find the key of a declaration that a watcher matches, or None. Each slice needs the lock."""
        matches = yield from self.node.declarations.tables[watcher.kind].walk(watcher.key)
        # Declarations often end in the order of their creation: starting in the middle makes repeated searches rare.
        middle = len(matches) // 2
        for number, resource in enumerate((*matches[middle:], *matches[:middle]), 1):
            if number % MAX_STEPS == 0:
                yield
            if self._is_match(watcher, resource):
                return resource.key
        return None

    def _is_match(self, watcher: MatchingEntity, resource: DeclaredKey) -> bool:
        if watcher.complete and not includes(resource.key, watcher.key):
            return False
        return any(
            watcher.destination is not (REMOTE if face is self else LOCAL)
            and face.is_open
            and may_pass(self, face)
            and (not watcher.complete or any(info & COMPLETE for info in infos.values()))
            for face, infos in resource.holders.items()
        )

    def update_watchers(self, kind: int, key: bytes) -> None:
        """Update the watchers after a change of the declarations on a key. The caller holds the lock.

        A matching declaration decides immediately. The end of a declaration needs a search, which a job does once per watcher.
        """
        if kind not in self.watchers:
            return
        resource = self.node.declarations.tables[kind].get(key)
        for group in self.watchers[kind].find(key):
            for watcher in group:
                if watcher.is_matching and watcher.matching_key not in (None, key):
                    continue  # the other declaration still matches
                if resource is not None and self._is_match(watcher, resource):
                    watcher.matching_key = key
                    self._set_matched(watcher, True)
                elif watcher.is_matching:
                    self._search_soon(watcher)

    def _search_soon(self, watcher: MatchingEntity) -> None:
        watcher.matching_key = None
        self._stale_watchers[watcher] = None
        if not self._is_searching:
            self._is_searching = True
            self.node.jobs.start(self, self._search(), suspend=False)

    def _search(self) -> Job:
        try:
            while self._stale_watchers:
                watcher = next(iter(self._stale_watchers))
                del self._stale_watchers[watcher]
                key = yield from self.match(watcher)
                if (
                    watcher not in self._stale_watchers and watcher.matching_key is None
                ):  # otherwise it has changed during the search
                    watcher.matching_key = key
                    self._set_matched(watcher, key is not None)
        finally:
            self._is_searching = False

    def _set_matched(self, watcher: MatchingEntity, matched: bool) -> None:
        if matched != watcher.is_matching and watcher.is_declared:
            watcher.is_matching = matched
            if watcher.on_matching is not None:
                listener = watcher.on_matching
                self.node.queue_call(lambda: listener(matched))

    def declare(
        self, kind: int, id: int, key: bytes, info: int, interest_id: int | None = None, node_id: int = 0
    ) -> None:  # fmt: skip
        """Handle a declaration to the application. Only tokens are delivered."""
        if kind != TOKEN:
            return
        app_key = self.namespace.strip_prefix(key)
        if app_key is None:
            return
        get = None if interest_id is None else self.liveliness_gets.get(interest_id)
        if get is not None:
            self.node.queue_call(lambda: get.on_token(app_key))
            return
        for subscriber in self.liveliness.values():
            if interest_id not in (None, subscriber.id) or key in subscriber.alive_keys:
                continue
            if intersects(subscriber.key, key):
                subscriber.alive_keys.add(key)
                self.node.queue_call(partial(subscriber.deliver, app_key, True))

    def undeclare(self, kind: int, id: int, key: bytes, node_id: int = 0) -> None:
        if kind != TOKEN:
            return
        app_key = self.namespace.strip_prefix(key)
        if app_key is None:
            return
        for subscriber in self.liveliness.values():
            if key in subscriber.alive_keys or (not subscriber.history and intersects(subscriber.key, key)):
                subscriber.alive_keys.discard(key)
                self.node.queue_call(partial(subscriber.deliver, app_key, False))

    def send_final(self, interest_id: int) -> None:
        get = self.liveliness_gets.pop(interest_id, None)
        if get is not None:
            late = self.node.now() >= get.deadline
            self.node.queue_call(lambda: get.end(late))

    def control(self, message: bytes) -> None:
        """Do nothing: the application has no transmit queue."""

    def charge(self, resource: peer_limits.Resource, size: int) -> bool:
        """Do nothing: memory of the application is not charged."""
        return True

    def refund(self, resource: peer_limits.Resource, size: int) -> None:
        """Do nothing: nothing was charged."""


def qos_byte(priority: int, congestion: int, express: bool) -> int:
    """Return the QoS byte. Congestion: 0 drop, 1 block, 2 block the first only."""
    return (
        priority
        | (message_ids.QOS_BLOCK if congestion == 1 else message_ids.QOS_BLOCK_FIRST if congestion == 2 else 0)
        | (message_ids.QOS_EXPRESS if express else 0)
    )
