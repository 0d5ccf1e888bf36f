# SPDX-License-Identifier: Apache-2.0
"""Liveliness tokens, and queries and subscribers for them."""

from typing import TYPE_CHECKING, Any, TypeVar, overload

from zenlake.api._validation import as_flag, as_key, as_seconds, require_type
from zenlake.api.cancellation import CancellationToken
from zenlake.api.entities import LivelinessToken, Subscriber
from zenlake.api.handlers import Handler, Receiver
from zenlake.api.reply import Reply, ReplyError, Sample
from zenlake.api.zbytes import ZBytes
from zenlake.core.enums import SampleKind
from zenlake.core.keyexpr import KeyExpr

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from zenlake.api._options import CallbackAndHandler, CallbackKind, ChannelKind, LivelinessGetOptions
    from zenlake.api.session import Session

__all__ = ["Liveliness"]

H = TypeVar("H")


class Liveliness:
    """The liveliness interface of a session. Returned by `Session.liveliness`."""

    __slots__ = ("_session",)

    def __init__(self, session: "Session") -> None:
        self._session = session

    def declare_token(self, /, key_expr: KeyExpr | str) -> LivelinessToken:
        """Declare a liveliness token: the key is alive until the token is undeclared or the connection ends.

        Args:
            key_expr: Key of the token.

        Returns:
            The token. It is undeclared when it is no longer referenced.

        Raises:
            KeyExprError: The key expression is invalid.
            ClosedError: The session is closed.

        Example:
            ```python
            token = session.liveliness().declare_token("robots/7")
            ```
        """
        key = as_key(key_expr)
        node = self._session._live()
        entity = node.declare_token(key.utf8)
        node.settle()
        return LivelinessToken(self._session, key, entity)

    @overload
    def get(
        self,
        /,
        key_expr: KeyExpr | str,
        handler: "ChannelKind[Reply]" = None,
        **options: "Unpack[LivelinessGetOptions]",
    ) -> "Handler[Reply]": ...
    @overload
    def get(
        self,
        /,
        key_expr: KeyExpr | str,
        handler: "CallbackAndHandler[Reply, H]",
        **options: "Unpack[LivelinessGetOptions]",
    ) -> "H": ...
    @overload
    def get(
        self, /, key_expr: KeyExpr | str, handler: "CallbackKind[Reply]", **options: "Unpack[LivelinessGetOptions]"
    ) -> "None": ...

    def get(
        self,
        /,
        key_expr: KeyExpr | str,
        handler: Any = None,
        *,
        timeout: float | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> Any:
        """Query the tokens that are alive. Receive a `Reply` for each.

        Args:
            key_expr: Key expression that tokens must match.
            handler: A channel from `zenlake.handlers`, a callback, or `(callback, handler)`. Default: a FIFO channel.
            timeout: Seconds until the query ends. Default: the configuration's `queries_default_timeout`.
            cancellation_token: Token that can cancel the query.

        Returns:
            The channel, which closes when the query is complete. None with a callback.

        Raises:
            KeyExprError: The key expression is invalid.
            ClosedError: The session is closed, or the cancellation token was cancelled.
        """
        key = as_key(key_expr)
        session = self._session
        node = session._live()
        patience = session._default_timeout if timeout is None else as_seconds("timeout", timeout)
        if cancellation_token is not None:
            require_type("cancellation_token", cancellation_token, CancellationToken, cancellation_token).check()
        target: Receiver[Reply] = session._receiver(handler)
        keys, push = session._keys, target.push
        pending: Any = None

        def deliver(alive: bytes) -> None:
            found = keys.valid(alive)
            if found is not None:
                push(Reply(Sample(found)))

        def on_done(timed_out: bool) -> None:
            if timed_out:
                push(Reply(ReplyError(ZBytes("Timeout"))))
            target.close()
            if cancellation_token is not None:
                cancellation_token.remove(target)

        def cancel() -> None:
            if pending is not None and not session._is_parents:
                pending.cancel()
            target.close(True)

        pending = node.liveliness_get(key.utf8, deliver, on_done, patience)
        if cancellation_token is not None:
            cancellation_token.add(target, cancel, target.idle)
        return target.handler

    @overload
    def declare_subscriber(
        self, /, key_expr: KeyExpr | str, handler: "ChannelKind[Sample]" = None, *, history: bool | None = None
    ) -> "Subscriber[Handler[Sample]]": ...
    @overload
    def declare_subscriber(
        self, /, key_expr: KeyExpr | str, handler: "CallbackAndHandler[Sample, H]", *, history: bool | None = None
    ) -> "Subscriber[H]": ...
    @overload
    def declare_subscriber(
        self, /, key_expr: KeyExpr | str, handler: "CallbackKind[Sample]", *, history: bool | None = None
    ) -> "Subscriber[None]": ...

    def declare_subscriber(
        self, /, key_expr: KeyExpr | str, handler: Any = None, *, history: bool | None = None
    ) -> Subscriber[Any]:
        """Declare a liveliness subscriber: receive a PUT sample for a new token, and a DELETE sample when it ends.

        Args:
            key_expr: Key expression that tokens must match.
            handler: A channel from `zenlake.handlers`, a callback, or `(callback, handler)`. Default: a FIFO channel.
            history: Whether to receive a PUT sample for each existing token.

        Returns:
            The subscriber.

        Raises:
            KeyExprError: The key expression is invalid.
            ClosedError: The session is closed.

        Example:
            ```python
            session.liveliness().declare_subscriber("robots/*", lambda sample: print(sample.kind, sample.key_expr), history=True)
            ```
        """
        key, wants_history = as_key(key_expr), as_flag("history", history)
        session = self._session
        node = session._live()
        target: Receiver[Sample] = session._receiver(handler)
        keys, push = session._keys, target.push

        def deliver(changed: bytes, alive: bool) -> None:
            found = keys.valid(changed)
            if found is not None:
                push(Sample(found, kind=SampleKind.PUT if alive else SampleKind.DELETE))

        entity = node.declare_liveliness_subscriber(key.utf8, deliver, wants_history)
        declared: Subscriber[Any] = session._register(Subscriber(session, key, target, entity))
        return declared
