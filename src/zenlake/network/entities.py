# SPDX-License-Identifier: Apache-2.0
"""Records of the entities that an application declared."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from zenlake.core.enums import Locality
from zenlake.core.identifiers import EntityGlobalId, ZenohId
from zenlake.network.face import QUERYABLE, SUBSCRIBER, TOKEN
from zenlake.network.forwarding import Called, Listener
from zenlake.network.keyexpr_tree import KeyTree

if TYPE_CHECKING:
    from zenlake.network.local_face import Application

__all__ = [
    "Declared", "Deliver", "Entity", "LivelinessSubscriber", "Publisher", "Querier", "Queryable", "Subscriber", "Token",
    "Watcher", "Watching", "listed", "unlisted",
]  # fmt: skip

Deliver = Listener | Callable[..., object] | None


class Entity:
    """An entity that the application declared."""

    kind = 0

    def __init__(self, application: "Application", key: bytes) -> None:
        self.application = application
        self.key = key
        self.id = application.next_id()
        self.is_declared = True

    @property
    def global_id(self) -> EntityGlobalId:
        return EntityGlobalId(ZenohId.from_wire(self.application.node.zid), self.id)

    def undeclare(self) -> None:
        self.application.undeclare_entity(self)


class Subscriber(Entity):
    kind = SUBSCRIBER

    def __init__(self, application: "Application", key: bytes, deliver: Deliver, origin: Locality) -> None:
        super().__init__(application, key)
        self.listener = deliver if deliver is None or isinstance(deliver, Listener) else Called(deliver)
        self.origin = origin


class Queryable(Entity):
    kind = QUERYABLE

    def __init__(
        self, application: "Application", key: bytes, deliver: Callable[..., object], origin: Locality, complete: bool
    ) -> None:
        super().__init__(application, key)
        self.deliver = deliver
        self.origin = origin
        self.complete = complete


class Token(Entity):
    kind = TOKEN


class Watcher(Entity):
    """A publisher or a querier, which watches for matching subscribers or queryables."""

    def __init__(
        self, application: "Application", key: bytes, destination: Locality, complete: bool = False
    ) -> None:  # fmt: skip
        super().__init__(application, key)
        self.destination = destination
        self.complete = complete
        """Of a querier: only complete queryables match."""
        self.on_matching: Callable[[bool], object] | None = None
        """Callback with the new state at each change."""
        self.last = False
        self.witness: bytes | None = None
        """Key of a matching declaration."""

    @property
    def matching(self) -> bool:
        """Whether a matching declaration exists now."""
        return self.application.node.run(self.application.match(self)) is not None


class Publisher(Watcher):
    kind = SUBSCRIBER


class Querier(Watcher):
    kind = QUERYABLE


class LivelinessSubscriber(Entity):
    def __init__(
        self, application: "Application", key: bytes, deliver: Callable[[bytes, bool], object], history: bool
    ) -> None:  # fmt: skip
        super().__init__(application, key)
        self.deliver = deliver
        self.history = history
        """Whether current tokens are delivered. Without it, the end of a token is delivered even if its start was not."""
        self.alive: set[bytes] = set()


Declared = TypeVar("Declared", bound=Entity)
Watching = TypeVar("Watching", bound=Watcher)


def listed(tree: KeyTree[Any], entity: Any) -> None:
    those = tree.get(entity.key)
    if those is None:
        tree.insert(entity.key, [entity])
    else:
        those.append(entity)


def unlisted(tree: KeyTree[Any], entity: Any) -> None:
    those = tree.get(entity.key)
    if those is not None and entity in those:
        those.remove(entity)
        if not those:
            tree.remove(entity.key)
