# SPDX-License-Identifier: Apache-2.0
"""Transports and links of a session, and listeners for their changes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from zenlake.api.entities import H, Receiving
from zenlake.api.handlers import Handler, Receiver
from zenlake.core.enums import Reliability, SampleKind, WhatAmI
from zenlake.core.identifiers import ZenohId

if TYPE_CHECKING:
    from zenlake.api._options import CallbackAndHandler, CallbackKind, ChannelKind
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
    """An open transport to another node.

    Attributes:
        zid: ZenohID of the other node.
        whatami: Role of the other node.
        is_qos: Whether priorities are negotiated.
        is_multicast: Whether this is a multicast transport.
        is_shm: Whether shared memory is negotiated.
    """

    zid: ZenohId
    whatami: WhatAmI
    is_qos: bool = False
    is_multicast: bool = False
    is_shm: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """A link of a transport.

    Attributes:
        zid: ZenohID of the other node.
        src: Local locator.
        dst: Remote locator.
        group: Multicast group, or None.
        mtu: Maximum size of a batch.
        is_streamed: Whether the link is a byte stream.
        interfaces: Names of the local network interfaces.
        auth_identifier: Authenticated identity of the other node, or None.
        priorities: Range of priorities of this link, or None.
        reliability: Reliability of this link, or None.
    """

    zid: ZenohId
    src: str
    dst: str
    group: str | None = None
    mtu: int = 65535
    is_streamed: bool = True
    interfaces: list[str] = field(default_factory=list)
    auth_identifier: str | None = None
    priorities: tuple[int, int] | None = None
    reliability: Reliability | None = None

    def __hash__(self) -> int:
        return hash((self.zid, self.src, self.dst))


@dataclass(frozen=True, slots=True)
class TransportEvent:
    """A transport was opened (kind PUT) or closed (kind DELETE).

    Attributes:
        kind: `SampleKind.PUT` or `SampleKind.DELETE`.
        transport: The transport.
    """

    kind: SampleKind
    transport: Transport


@dataclass(frozen=True, slots=True)
class LinkEvent:
    """A link was added (kind PUT) or removed (kind DELETE).

    Attributes:
        kind: `SampleKind.PUT` or `SampleKind.DELETE`.
        link: The link.
    """

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
    """A listener that receives a `TransportEvent` at each change."""

    _name = "transport events listener"


class LinkEventsListener(_Listener[H]):
    """A listener that receives a `LinkEvent` at each change."""

    _name = "link events listener"


class SessionInfo:
    """Information about a session and its connections. Returned by `Session.info`."""

    __slots__ = ("_session",)

    def __init__(self, session: "Session") -> None:
        self._session = session

    def zid(self, /) -> ZenohId:
        """Return the ZenohID of this session."""
        return self._session.zid()

    def routers_zid(self, /) -> list[ZenohId]:
        """Return the ZenohIDs of the connected routers."""
        return [each.zid for each in self.transports() if each.whatami is WhatAmI.ROUTER]

    def peers_zid(self, /) -> list[ZenohId]:
        """Return the ZenohIDs of the connected peers."""
        return [each.zid for each in self.transports() if each.whatami is WhatAmI.PEER]

    def transports(self, /) -> list[Transport]:
        """Return the open transports."""
        return [transport for transport, _ in self._session._live().connections()]

    def links(self, /) -> list[Link]:
        """Return the links of the open transports."""
        return [link for _, link in self._session._live().connections()]

    @overload
    def declare_transport_events_listener(
        self, /, handler: "ChannelKind[TransportEvent]" = None, *, history: bool | None = None
    ) -> "TransportEventsListener[Handler[TransportEvent]]": ...
    @overload
    def declare_transport_events_listener(
        self, /, handler: "CallbackAndHandler[TransportEvent, H]", *, history: bool | None = None
    ) -> "TransportEventsListener[H]": ...
    @overload
    def declare_transport_events_listener(
        self, /, handler: "CallbackKind[TransportEvent]", *, history: bool | None = None
    ) -> "TransportEventsListener[None]": ...

    def declare_transport_events_listener(
        self, /, handler: Any = None, *, history: bool | None = None
    ) -> TransportEventsListener[Any]:
        """Declare a listener for opened and closed transports.

        Args:
            handler: A channel from `zenlake.handlers`, a callback, or `(callback, handler)`. Default: a FIFO channel.
            history: Whether to receive an event for each open transport.

        Returns:
            The listener. It is undeclared when it is no longer referenced, unless it has a callback.
        """

        def event(kind: SampleKind, transport: Transport, link: Link) -> TransportEvent:
            return TransportEvent(kind, transport)

        return self._listen(TransportEventsListener, handler, history, event)

    @overload
    def declare_link_events_listener(
        self, /, handler: "ChannelKind[LinkEvent]" = None, *, history: bool | None = None
    ) -> "LinkEventsListener[Handler[LinkEvent]]": ...
    @overload
    def declare_link_events_listener(
        self, /, handler: "CallbackAndHandler[LinkEvent, H]", *, history: bool | None = None
    ) -> "LinkEventsListener[H]": ...
    @overload
    def declare_link_events_listener(
        self, /, handler: "CallbackKind[LinkEvent]", *, history: bool | None = None
    ) -> "LinkEventsListener[None]": ...

    def declare_link_events_listener(
        self, /, handler: Any = None, *, history: bool | None = None
    ) -> LinkEventsListener[Any]:
        """Declare a listener for added and removed links.

        Args:
            handler: A channel from `zenlake.handlers`, a callback, or `(callback, handler)`. Default: a FIFO channel.
            history: Whether to receive an event for each existing link.

        Returns:
            The listener. It is undeclared when it is no longer referenced, unless it has a callback.
        """

        def event(kind: SampleKind, transport: Transport, link: Link) -> LinkEvent:
            return LinkEvent(kind, link)

        return self._listen(LinkEventsListener, handler, history, event)

    def _listen(self, listener: Any, handler: Any, history: bool | None, event: Callable[..., Any]) -> Any:
        node = self._session._live()
        target = self._session._receiver(handler)

        def notify(kind: SampleKind, transport: Transport, link: Link) -> None:
            target.push(event(kind, transport, link))

        forget = node.watch(notify, bool(history))
        return self._session._register(listener(self._session, target, forget))
