# SPDX-License-Identifier: Apache-2.0
"""Who a session is connected to: transports, links, and being told when that changes."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from zenlake.api.declared import H, Receiving
from zenlake.api.handlers import Receiver
from zenlake.choices import Reliability, SampleKind, WhatAmI
from zenlake.record import dataclass
from zenlake.values import ZenohId

if TYPE_CHECKING:
    from zenlake.api.session import Session

__all__ = [
    "Link",
    "LinkEvent",
    "LinkEventsListener",
    "SessionInfo",
    "Transport",
    "TransportEvent",
    "TransportEventsListener",
]


@dataclass(frozen=True, slots=True)
class Transport:
    """An open connection with another node."""

    zid: ZenohId
    whatami: WhatAmI
    is_qos: bool = False
    is_multicast: bool = False
    is_shm: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """What a transport runs over."""

    zid: ZenohId
    src: str
    dst: str
    group: str | None = None
    mtu: int = 65535
    is_streamed: bool = True
    interfaces: list[str] = None  # type: ignore[assignment]
    auth_identifier: str | None = None
    priorities: tuple[int, int] | None = None
    reliability: Reliability | None = None

    def __hash__(self) -> int:
        return hash((self.zid, self.src, self.dst))


@dataclass(frozen=True, slots=True)
class TransportEvent:
    """A transport was opened (PUT) or is gone (DELETE)."""

    kind: SampleKind
    transport: Transport


@dataclass(frozen=True, slots=True)
class LinkEvent:
    """A link was made (PUT) or is gone (DELETE)."""

    kind: SampleKind
    link: Link


class _Listener(Receiving[H]):
    def __init__(self, session: "Session", receiver: Receiver[Any], forget: Callable[[], None]) -> None:
        self._session = session
        self._receiver = receiver
        self._entity = forget
        self._background = receiver.background

    def _end(self, entity: Any) -> None:
        entity()
        self._receiver.close()

    def __del__(self) -> None:
        if self._entity is not None and not self._background:
            self._entity()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._receiver.handler!r})"


class TransportEventsListener(_Listener[H]):
    """Receives a TransportEvent at each change."""

    _name = "transport events listener"


class LinkEventsListener(_Listener[H]):
    """Receives a LinkEvent at each change."""

    _name = "link events listener"


class SessionInfo:
    """`session.info`."""

    __slots__ = ("_session",)

    def __init__(self, session: "Session") -> None:
        self._session = session

    def zid(self, /) -> ZenohId:
        """The id of our own node."""
        return self._session.zid()

    def routers_zid(self, /) -> list[ZenohId]:
        """The ids of the routers that it is connected to."""
        return [each.zid for each in self.transports() if each.whatami is WhatAmI.ROUTER]

    def peers_zid(self, /) -> list[ZenohId]:
        """The ids of the peers that it is connected to."""
        return [each.zid for each in self.transports() if each.whatami is WhatAmI.PEER]

    def transports(self, /) -> list[Transport]:
        """The transports of now."""
        return [transport for transport, _ in self._session._live().connections()]

    def links(self, /) -> list[Link]:
        """The links of now."""
        return [link for _, link in self._session._live().connections()]

    def declare_transport_events_listener(
        self, /, handler: Any = None, *, history: bool | None = None
    ) -> TransportEventsListener[Any]:
        """Be told of each transport that opens or is gone; with `history`, of those that are open too."""

        def event(kind: SampleKind, transport: Transport, link: Link) -> TransportEvent:
            return TransportEvent(kind, transport)

        return self._listen(TransportEventsListener, handler, history, event)

    def declare_link_events_listener(
        self, /, handler: Any = None, *, history: bool | None = None
    ) -> LinkEventsListener[Any]:
        """Be told of each link that is made or is gone; with `history`, of those that are there too."""

        def event(kind: SampleKind, transport: Transport, link: Link) -> LinkEvent:
            return LinkEvent(kind, link)

        return self._listen(LinkEventsListener, handler, history, event)

    def _listen(self, listener: Any, handler: Any, history: bool | None, event: Callable[..., Any]) -> Any:
        node = self._session._live()
        target = self._session._receiver(handler)

        def tell(kind: SampleKind, transport: Transport, link: Link) -> None:
            target.push(event(kind, transport, link))

        forget = node.watch(tell, bool(history))
        return self._session._declared(listener(self._session, target, forget))
