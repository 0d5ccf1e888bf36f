# SPDX-License-Identifier: Apache-2.0
"""Records of the entities that an application declared."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from zenlake.core.enums import Locality
from zenlake.core.identifiers import EntityGlobalId, ZenohId
from zenlake.network.face import QUERYABLE, SUBSCRIBER, TOKEN
from zenlake.network.forwarding import CallbackListener, PushListener
from zenlake.network.keyexpr_tree import KeyExprTree

if TYPE_CHECKING:
    from zenlake.network.local_face import LocalFace

__all__ = [
    "Declared", "Deliver", "LocalEntity", "LocalLivelinessSubscriber", "LocalPublisher", "LocalQuerier",
    "LocalQueryable", "LocalSubscriber", "LocalToken",
    "MatchingEntity", "Watcher", "list_entity", "unlist_entity",
]  # fmt: skip

Deliver = PushListener | Callable[..., object] | None


class LocalEntity:
    """An entity that the application declared."""

    kind = 0

    def __init__(self, application: "LocalFace", key: bytes) -> None:
        self.application = application
        self.key = key
        self.id = application.next_id()
        self.is_declared = True

    @property
    def global_id(self) -> EntityGlobalId:
        return EntityGlobalId(ZenohId.from_wire(self.application.node.zid), self.id)

    def undeclare(self) -> None:
        self.application.undeclare_entity(self)


class LocalSubscriber(LocalEntity):
    kind = SUBSCRIBER

    def __init__(self, application: "LocalFace", key: bytes, deliver: Deliver, origin: Locality) -> None:
        super().__init__(application, key)
        self.listener = deliver if deliver is None or isinstance(deliver, PushListener) else CallbackListener(deliver)
        self.origin = origin


class LocalQueryable(LocalEntity):
    kind = QUERYABLE

    def __init__(
        self, application: "LocalFace", key: bytes, deliver: Callable[..., object], origin: Locality, complete: bool
    ) -> None:
        super().__init__(application, key)
        self.deliver = deliver
        self.origin = origin
        self.complete = complete


class LocalToken(LocalEntity):
    kind = TOKEN


class MatchingEntity(LocalEntity):
    """A publisher or a querier, which watches for matching subscribers or queryables."""

    def __init__(
        self, application: "LocalFace", key: bytes, destination: Locality, complete: bool = False
    ) -> None:  # fmt: skip
        super().__init__(application, key)
        self.destination = destination
        self.complete = complete
        """Of a querier: only complete queryables match."""
        self.on_matching: Callable[[bool], object] | None = None
        """Callback with the new state at each change."""
        self.is_matching = False
        self.matching_key: bytes | None = None
        """Key of a matching declaration."""

    @property
    def has_match(self) -> bool:
        """Whether a matching declaration exists now."""
        return self.application.node.run(self.application.match(self)) is not None


class LocalPublisher(MatchingEntity):
    kind = SUBSCRIBER


class LocalQuerier(MatchingEntity):
    kind = QUERYABLE


class LocalLivelinessSubscriber(LocalEntity):
    def __init__(
        self, application: "LocalFace", key: bytes, deliver: Callable[[bytes, bool], object], history: bool
    ) -> None:  # fmt: skip
        super().__init__(application, key)
        self.deliver = deliver
        self.history = history
        """Whether current tokens are delivered. Without it, the end of a token is delivered even if its start was not."""
        self.alive_keys: set[bytes] = set()


Declared = TypeVar("Declared", bound=LocalEntity)
Watcher = TypeVar("Watcher", bound=MatchingEntity)


def list_entity(tree: KeyExprTree[Any], entity: Any) -> None:
    entities = tree.get(entity.key)
    if entities is None:
        tree.insert(entity.key, [entity])
    else:
        entities.append(entity)


def unlist_entity(tree: KeyExprTree[Any], entity: Any) -> None:
    entities = tree.get(entity.key)
    if entities is not None and entity in entities:
        entities.remove(entity)
        if not entities:
            tree.remove(entity.key)
