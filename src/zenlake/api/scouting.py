# SPDX-License-Identifier: Apache-2.0
"""`scout`: find nodes by multicast scouting."""

import os
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from zenlake.api._validation import require_type
from zenlake.api.handlers import Handler, Receiver, make_receiver
from zenlake.api.scouting_service import group
from zenlake.config import Config
from zenlake.core.enums import WhatAmI, WhatAmIMatcher
from zenlake.core.identifiers import ZenohId
from zenlake.errors import ClosedError
from zenlake.runtime.scouting import ScoutThread
from zenlake.wire import scouting

if TYPE_CHECKING:
    from zenlake.api._options import CallbackAndHandler, CallbackKind, ChannelKind

__all__ = ["Hello", "Scout", "scout"]

H = TypeVar("H")

FORKED = "this Scout was started before a fork and belongs to the parent process; start another one in this process"
_scouts: "weakref.WeakSet[Scout[Any]]" = weakref.WeakSet()


@dataclass(frozen=True, slots=True)
class Hello:
    """A node that replied to a SCOUT.

    Attributes:
        whatami: Role of the node.
        zid: ZenohID of the node.
        locators: Locators that the node listens on.
    """

    whatami: WhatAmI
    zid: ZenohId
    locators: list[str]

    def __str__(self) -> str:
        return f"Hello {{ zid: {self.zid}, whatami: {self.whatami!s}, locators: [{', '.join(self.locators)}] }}"


class Scout(Generic[H]):
    """A running scout. It sends SCOUT messages until `stop`, the end of its `with` statement, or its last reference.

    Created by `zenlake.scout`.
    """

    def __init__(self, target: Receiver[Hello], what: WhatAmIMatcher, config: Config) -> None:
        self._receiver = target
        self._stopped = False
        self._is_parents = False
        push = target.push  # not self: a Scout without references must end

        def on_hello(hello: scouting.Hello) -> None:
            push(Hello(WhatAmI.from_wire(hello.whatami), ZenohId.from_wire(hello.zid.value), list(hello.locators)))

        self._lookout = ScoutThread(group(config), what, on_hello)
        _scouts.add(self)

    @property
    def handler(self) -> H:
        """The channel. None with a callback."""
        if self._stopped:
            raise ClosedError("Stopped scout")
        if self._is_parents:
            raise ClosedError(FORKED)
        return self._receiver.handler

    def stop(self, /) -> None:
        """Stop scouting.

        Raises:
            ClosedError: The scout is already stopped.
        """
        if self._stopped:
            raise ClosedError("Stopped scout")
        self._stop()

    def _stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            if not self._is_parents:
                self._lookout.close()
            self._receiver.close()

    def try_recv(self: "Scout[Handler[Hello]]", /) -> Hello | None:
        """Return the next `Hello`, or None if the channel is empty."""
        return self.handler.try_recv()

    def recv(self: "Scout[Handler[Hello]]", /, timeout: float | None = None) -> Hello:
        """Return the next `Hello`, blocking up to `timeout` seconds.

        Args:
            timeout: Seconds to wait. Default: no limit.

        Raises:
            TimeoutError: No reply arrived in time.
            ClosedError: The scout is stopped.
        """
        handler = self.handler
        return handler.recv() if timeout is None else handler.recv(timeout)

    def __iter__(self: "Scout[Handler[Hello]]", /) -> Iterator[Hello]:
        return iter(self.handler)

    def __enter__(self, /) -> "Scout[H]":
        return self

    def __exit__(self, /, *_args: Any, **_kwargs: Any) -> None:
        if not self._stopped:
            self.stop()

    def __del__(self) -> None:
        if not getattr(self, "_stopped", True) and not self._receiver.background:
            self._stop()

    __class_getitem__: Any = classmethod(GenericAlias)


@overload
def scout(
    handler: "ChannelKind[Hello]" = None,
    what: WhatAmIMatcher | WhatAmI | str | None = None,
    config: Config | None = None,
) -> "Scout[Handler[Hello]]": ...
@overload
def scout(
    handler: "CallbackAndHandler[Hello, H]",
    what: WhatAmIMatcher | WhatAmI | str | None = None,
    config: Config | None = None,
) -> "Scout[H]": ...
@overload
def scout(
    handler: "CallbackKind[Hello]", what: WhatAmIMatcher | WhatAmI | str | None = None, config: Config | None = None
) -> "Scout[None]": ...


def scout(
    handler: Any = None, what: WhatAmIMatcher | WhatAmI | str | None = None, config: Config | None = None
) -> Scout[Any]:
    """Scout for nodes and receive a `Hello` from each node that replies.

    Args:
        handler: A channel from `zenlake.handlers`, a callback, or `(callback, handler)`. Default: a FIFO channel.
        what: Roles to look for. Default: all.
        config: Configuration with the multicast address and interface.

    Returns:
        The running scout.

    Example:
        ```python
        with zenlake.scout(what="router|peer") as scout:
            print(scout.recv(timeout=3.0))
        ```
    """
    if isinstance(what, WhatAmI):
        what = WhatAmIMatcher.from_wire(int(what))
    matcher = what if isinstance(what, WhatAmIMatcher) else WhatAmIMatcher(what or "router|peer|client")
    return Scout(make_receiver(handler), matcher, require_type("config", config, Config, None) or Config())


def _after_fork() -> None:
    """Mark all scouts in a forked child, where their thread does not exist."""
    for each in list(_scouts):
        each._is_parents = True
        each._receiver.orphan()


os.register_at_fork(after_in_child=_after_fork)
