# SPDX-License-Identifier: Apache-2.0
"""Advanced publishers and subscribers for asyncio. Their settings are those of `zenlake.ext`.

Each class wraps the class of the same name in `zenlake.ext`, as in `aio.session`.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

from zenlake.aio.handlers import Handler, as_handler
from zenlake.aio.session import PublisherBase, Receiving, Session, Subscriber
from zenlake.api import advanced_publisher, advanced_subscriber

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from zenlake.api._options import (
        AdvancedDeleteOptions,
        AdvancedPublisherOptions,
        AdvancedPutOptions,
        AdvancedSubscriberOptions,
        CallbackAndHandler,
        CallbackKind,
        ChannelKind,
        IntoKeyExpr,
        IntoPayload,
    )
    from zenlake.api.reorder_buffer import Miss
    from zenlake.api.sample import Sample

__all__ = [
    "AdvancedPublisher",
    "AdvancedSubscriber",
    "SampleMissListener",
    "declare_advanced_publisher",
    "declare_advanced_subscriber",
]

H = TypeVar("H")


class AdvancedPublisher(PublisherBase):
    """A publisher with a cache, sequence numbers, heartbeats and a liveliness token, as configured."""

    async def put(self, payload: "IntoPayload", **options: "Unpack[AdvancedPutOptions]") -> None:
        """Publish a value and store it in the cache.

        Args:
            payload: Text, bytes, or any object with the buffer protocol.
            options: As for `zenlake.ext.AdvancedPublisher.put`.

        Raises:
            ClosedError: The publisher is undeclared, or the session is closed.
        """
        await self._send(partial(self.blocking.put, payload, **options))

    async def delete(self, **options: "Unpack[AdvancedDeleteOptions]") -> None:
        """Publish a deletion and store it in the cache.

        Args:
            options: As for `zenlake.ext.AdvancedPublisher.delete`.

        Raises:
            ClosedError: The publisher is undeclared, or the session is closed.
        """
        await self._send(partial(self.blocking.delete, **options))


class SampleMissListener(Receiving[H]):
    """A listener that receives a `Miss` for each run of lost samples."""


class AdvancedSubscriber(Subscriber[H]):
    """A subscriber that orders samples, queries history and missed samples, and reports losses."""

    @overload
    async def sample_miss_listener(
        self, handler: "ChannelKind[Miss]" = None
    ) -> "SampleMissListener[Handler[Miss]]": ...
    @overload
    async def sample_miss_listener(self, handler: "CallbackAndHandler[Miss, H]") -> "SampleMissListener[H]": ...
    @overload
    async def sample_miss_listener(self, handler: "CallbackKind[Miss]") -> "SampleMissListener[None]": ...

    async def sample_miss_listener(self, handler: Any = None) -> "SampleMissListener[Any]":
        """Declare a listener for lost samples.

        Args:
            handler: A channel, a callback or a coroutine function. Default: a FIFO channel.

        Returns:
            The listener. It receives a `Miss` for each run of lost samples.
        """
        return SampleMissListener(self.blocking.sample_miss_listener(as_handler(handler, bounded=True)))

    @overload
    async def detect_publishers(
        self, handler: "ChannelKind[Sample]" = None, *, history: bool | None = None
    ) -> "Subscriber[Handler[Sample]]": ...
    @overload
    async def detect_publishers(
        self, handler: "CallbackAndHandler[Sample, H]", *, history: bool | None = None
    ) -> "Subscriber[H]": ...
    @overload
    async def detect_publishers(
        self, handler: "CallbackKind[Sample]", *, history: bool | None = None
    ) -> "Subscriber[None]": ...

    async def detect_publishers(self, handler: Any = None, *, history: bool | None = None) -> Subscriber[Any]:
        """Declare a subscriber for advanced publishers: PUT when one appears, DELETE when it disappears.

        Args:
            handler: A channel, a callback or a coroutine function. Default: a FIFO channel.
            history: Whether to receive a PUT sample for each existing publisher.

        Returns:
            The subscriber.
        """
        declare = partial(self.blocking.detect_publishers, as_handler(handler, bounded=True), history=history)
        return Subscriber(await asyncio.to_thread(declare))


async def declare_advanced_publisher(
    session: Session, key_expr: "IntoKeyExpr", **options: "Unpack[AdvancedPublisherOptions]"
) -> AdvancedPublisher:
    """Declare an advanced publisher.

    Args:
        session: The session.
        key_expr: The key expression to publish on.
        options: As for `zenlake.ext.declare_advanced_publisher`.

    Returns:
        The publisher.

    Raises:
        KeyExprError: The key expression is invalid.
        ConfigError: The cache needs timestamps, which the configuration disables.
        ClosedError: The session is closed.

    Example:
        ```python
        cache = zenlake.ext.CacheConfig(10)
        publisher = await zenlake.aio.ext.declare_advanced_publisher(session, "robots/7/pose", cache=cache)
        await publisher.put("1.0 2.0")
        ```
    """
    declare = partial(advanced_publisher.declare_advanced_publisher, session.blocking, key_expr, **options)
    return AdvancedPublisher(await asyncio.to_thread(declare))


@overload
async def declare_advanced_subscriber(
    session: Session,
    key_expr: "IntoKeyExpr",
    handler: "ChannelKind[Sample]" = None,
    **options: "Unpack[AdvancedSubscriberOptions]",
) -> "AdvancedSubscriber[Handler[Sample]]": ...
@overload
async def declare_advanced_subscriber(
    session: Session,
    key_expr: "IntoKeyExpr",
    handler: "CallbackAndHandler[Sample, H]",
    **options: "Unpack[AdvancedSubscriberOptions]",
) -> "AdvancedSubscriber[H]": ...
@overload
async def declare_advanced_subscriber(
    session: Session,
    key_expr: "IntoKeyExpr",
    handler: "CallbackKind[Sample]",
    **options: "Unpack[AdvancedSubscriberOptions]",
) -> "AdvancedSubscriber[None]": ...


async def declare_advanced_subscriber(
    session: Session, key_expr: Any, handler: Any = None, **options: Any
) -> AdvancedSubscriber[Any]:
    """Declare an advanced subscriber.

    Args:
        session: The session.
        key_expr: The key expression to subscribe to.
        handler: A channel, a callback or a coroutine function. Default: a FIFO channel.
        options: As for `zenlake.ext.declare_advanced_subscriber`.

    Returns:
        The subscriber: `await subscriber.recv()`, or `async for sample in subscriber`.

    Raises:
        KeyExprError: The key expression is invalid.
        ClosedError: The session is closed.
    """
    declare = partial(
        advanced_subscriber.declare_advanced_subscriber,
        session.blocking,
        key_expr,
        as_handler(handler, bounded=True),
        **options,
    )
    return AdvancedSubscriber(await asyncio.to_thread(declare))


def __dir__() -> list[str]:
    return sorted(__all__)
