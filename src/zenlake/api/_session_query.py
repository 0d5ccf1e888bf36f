# SPDX-License-Identifier: Apache-2.0
"""Session mixin for queries: `get`, `get_table`, `declare_querier`."""

from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from zenlake.api._validation import as_encoding, as_flag, as_key, as_locality, as_seconds, require_type
from zenlake.api.entities import Querier
from zenlake.api.handlers import Handler, Receiver
from zenlake.api.sample_decoder import KeyExprCache
from zenlake.api.timestamp_stack import TimestampInstrumentation, TimestampStamper
from zenlake.api.zbytes import as_buffer
from zenlake.core.encoding import Encoding
from zenlake.core.enums import (
    CongestionControl,
    ConsolidationMode,
    Locality,
    Priority,
    QueryConsolidation,
    QueryTarget,
    ReplyKeyExpr,
)
from zenlake.core.identifiers import SourceInfo
from zenlake.core.keyexpr import KeyExpr
from zenlake.errors import InvalidValue

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Unpack

    from zenlake.api._options import (
        CallbackAndHandler,
        CallbackKind,
        ChannelKind,
        GetOptions,
        IntoPayload,
        IntoSelector,
    )
    from zenlake.api.cancellation import CancellationToken
    from zenlake.api.reply import Reply
    from zenlake.api.session import Session
    from zenlake.core.selector import Selector

__all__ = ["QueryMixin"]

H = TypeVar("H")


class QueryMixin:
    """The query methods of `Session`."""

    _default_timeout: float
    _keys: KeyExprCache
    _stamper: TimestampStamper

    @property
    def _is_parents(self) -> bool:
        raise NotImplementedError

    def _live(self) -> Any:
        raise NotImplementedError

    def _receiver(self, handler: Any) -> Receiver[Any]:
        raise NotImplementedError

    @overload
    def get(
        self, /, selector: "IntoSelector", handler: "ChannelKind[Reply]" = None, **options: "Unpack[GetOptions]"
    ) -> "Handler[Reply]": ...
    @overload
    def get(
        self, /, selector: "IntoSelector", handler: "CallbackAndHandler[Reply, H]", **options: "Unpack[GetOptions]"
    ) -> "H": ...
    @overload
    def get(
        self, /, selector: "IntoSelector", handler: "CallbackKind[Reply]", **options: "Unpack[GetOptions]"
    ) -> "None": ...

    def get(
        self,
        /,
        selector: "Selector | KeyExpr | str",
        handler: Any = None,
        *,
        target: QueryTarget | None = None,
        consolidation: ConsolidationMode | QueryConsolidation | None = None,
        accept_replies: ReplyKeyExpr | None = None,
        timeout: float | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        payload: "IntoPayload | None" = None,
        encoding: Encoding | str | None = None,
        attachment: "IntoPayload | None" = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
        cancellation_token: "CancellationToken | None" = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        budget: int | None = None,
    ) -> Any:
        """Send a query and receive a `Reply` for each reply.

        Args:
            selector: Key expression and parameters, for example `robots/*/battery?since=1h`.
            handler: A channel from `zenlake.handlers`, a callback, or `(callback, handler)`. Default: a FIFO channel.
            target: Queryables to query. Default: `BEST_MATCHING`.
            consolidation: Deduplication of replies. Default: `AUTO`.
            accept_replies: Whether replies may have keys that do not match the query.
            timeout: Seconds until the query ends. Default: the configuration's `queries_default_timeout`.
            congestion_control: Behaviour of a full queue. Default: `BLOCK`.
            priority: Priority. Default: `DATA`.
            express: Send immediately instead of batching.
            payload: Payload of the query.
            encoding: Encoding of the payload.
            attachment: Bytes that accompany the query.
            allowed_destination: Queryables that receive the query. Default: local and remote ones.
            source_info: Identity and sequence number of the source.
            cancellation_token: Token that can cancel the query.
            timestamp_instrumentation: Timestamps to record along the way.
            budget: Maximum number of replies.

        Returns:
            The channel, which closes when the query is complete. None with a callback.

        Raises:
            KeyExprError: The selector is invalid.
            InvalidValue: An argument is invalid.
            ClosedError: The session is closed, or the token was cancelled.

        Example:
            ```python
            for reply in session.get("robots/*/battery"):
                print(reply.ok.payload.to_string() if reply.ok else reply.err)
            ```
        """
        from zenlake.core.selector import Selector

        chosen = selector if isinstance(selector, Selector) else Selector(selector)
        fixed = self._validate_get_options(
            target, consolidation, accept_replies, timeout, congestion_control, priority, express, allowed_destination
        )
        return self._get(
            chosen.key_expr,
            str(chosen.parameters),
            handler,
            payload,
            encoding,
            attachment,
            source_info,
            cancellation_token,
            timestamp_instrumentation,
            budget,
            fixed,
        )

    def get_table(self, /, selector: "IntoSelector", **options: "Unpack[GetOptions]") -> "pa.Table":
        """Send a query, wait until it is complete, and return the replies as a table.

        Args:
            selector: Key expression and parameters.
            **options: Options of `get`, without `handler`.

        Returns:
            A `pyarrow.Table` with one row per reply.

        Raises:
            QueryError: A reply is an error, or the query timed out. Its `table` has the successful replies.
            ClosedError: The session is closed.
        """
        from zenlake.api.arrow import get_table

        self._live().check_wait()
        return get_table(cast("Session", self), selector, **options)

    def declare_querier(
        self,
        /,
        key_expr: KeyExpr | str,
        *,
        target: QueryTarget | None = None,
        consolidation: ConsolidationMode | QueryConsolidation | None = None,
        accept_replies: ReplyKeyExpr | None = None,
        timeout: float | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        allowed_destination: Locality | None = None,
    ) -> Querier:
        """Declare a querier for repeated queries on one key expression.

        Args:
            key_expr: Key expression of the queries.
            target: Matching queryables that receive a query. Default: `BEST_MATCHING`.
            consolidation: Deduplication of the replies. Default: `AUTO`.
            accept_replies: Whether replies may have keys that do not match. Default: they must match.
            timeout: Seconds after which a query ends. Default: `queries_default_timeout` of the configuration.
            congestion_control: Behaviour of a full queue. Default: `BLOCK`.
            priority: Priority. Default: `DATA`.
            express: Send immediately instead of batching.
            allowed_destination: Queryables that receive the queries. Default: local and remote ones.

        Returns:
            The querier. It is undeclared when it is no longer referenced.

        Raises:
            KeyExprError: The key expression is invalid.
            ClosedError: The session is closed.

        Example:
            ```python
            querier = session.declare_querier("robots/*/status")
            for reply in querier.get():
                print(reply.ok.payload.to_string())
            ```
        """
        key = as_key(key_expr)
        fixed = self._validate_get_options(
            target, consolidation, accept_replies, timeout, congestion_control, priority, express, allowed_destination
        )
        accepts = ReplyKeyExpr.ANY if fixed["accept_any"] else ReplyKeyExpr.MATCHING_QUERY
        node = self._live()
        complete = fixed["target"] is QueryTarget.ALL_COMPLETE
        entity = node.declare_querier(key.utf8, fixed["destination"], complete)
        node.settle()
        return Querier(cast("Session", self), key, entity, accepts, fixed)

    def _validate_get_options(
        self,
        target: QueryTarget | None,
        consolidation: ConsolidationMode | QueryConsolidation | None,
        accept_replies: ReplyKeyExpr | None,
        timeout: float | None,
        congestion_control: CongestionControl | None,
        priority: Priority | None,
        express: bool | None,
        destination: Locality | None,
    ) -> dict[str, Any]:
        mode = consolidation.mode if isinstance(consolidation, QueryConsolidation) else consolidation
        accepts = require_type("accept_replies", accept_replies, ReplyKeyExpr, ReplyKeyExpr.DEFAULT)
        return {
            "target": require_type("target", target, QueryTarget, QueryTarget.DEFAULT),
            "consolidation": require_type("consolidation", mode, ConsolidationMode, ConsolidationMode.AUTO),
            "accept_any": accepts is ReplyKeyExpr.ANY,
            "timeout": self._default_timeout if timeout is None else as_seconds("timeout", timeout),
            "congestion": require_type(
                "congestion_control", congestion_control, CongestionControl, CongestionControl.BLOCK
            ),
            "priority": require_type("priority", priority, Priority, Priority.DATA),
            "express": as_flag("express", express),
            "destination": as_locality("allowed_destination", destination),
        }

    def _get(
        self,
        key_expr: KeyExpr,
        parameters: str,
        handler: Any,
        payload: "IntoPayload | None",
        encoding: Encoding | str | None,
        attachment: Any,
        source: SourceInfo | None,
        token: "CancellationToken | None",
        instrumentation: TimestampInstrumentation | None,
        budget: int | None,
        fixed: dict[str, Any],
    ) -> Any:
        from zenlake.api.reply import reply_from_response

        if budget is not None and budget < 1:
            raise InvalidValue(f"invalid budget={budget}; expected at least 1, or None for no limit")
        node = self._live()
        require_type("source_info", source, SourceInfo, None)
        require_type("timestamp_instrumentation", instrumentation, TimestampInstrumentation, None)
        if token is not None:
            from zenlake.api.cancellation import CancellationToken

            require_type("cancellation_token", token, CancellationToken, token).check()
        if fixed["accept_any"] and "_anyke" not in parameters:
            parameters = f"{parameters};_anyke" if parameters else "_anyke"
        target: Receiver[Reply] = self._receiver(handler)
        keys, push, stamper = self._keys, target.push, self._stamper
        pending: Any = None

        def deliver(key: bytes | None, reader: Any) -> None:
            push(reply_from_response(None if key is None else keys.valid(key), reader.response, stamper))

        def on_done() -> None:
            target.close()
            if token is not None:
                token.remove(target)

        def cancel() -> None:
            if pending is not None and not self._is_parents:
                pending.cancel()
            target.close(True)

        options = fixed if instrumentation is None else {**fixed, "stack": self._stamper.new_stack(instrumentation)}
        pending = node.get(
            key_expr.utf8,
            target.deliver or deliver,
            on_done,
            parameters=parameters,
            payload=None if payload is None else bytes(as_buffer(payload)),
            encoding=as_encoding(encoding),
            attachment=None if attachment is None else bytes(as_buffer(attachment)),
            source=source,
            budget=budget or 0,
            **options,
        )
        if token is not None:
            token.add(target, cancel, target.idle)
        return target.handler
