# SPDX-License-Identifier: Apache-2.0
"""Session mixin for publishing: `try_put`, `delete`, `put_table`, `declare_publisher`. `_put_fast_path` has `put`."""

from typing import TYPE_CHECKING, Any, cast

from zenlake.api._put_fast_path import SessionPut
from zenlake.api._validation import as_encoding, as_key, as_qos, as_wire_encoding, require_type
from zenlake.api.entities import Publisher
from zenlake.api.publication_qos import QosOverwrites
from zenlake.api.timestamp_stack import TimestampInstrumentation, TimestampStamper
from zenlake.api.zbytes import as_buffer, as_payload
from zenlake.core.encoding import Encoding
from zenlake.core.enums import CongestionControl, Locality, Priority, Reliability
from zenlake.core.identifiers import SourceInfo, Timestamp
from zenlake.core.keyexpr import KeyExpr

if TYPE_CHECKING:
    from zenlake.api._options import IntoPayload
    from zenlake.api.session import Session

__all__ = ["PublishMixin"]


class PublishMixin(SessionPut):
    """The publishing methods of `Session`."""

    _stamper: TimestampStamper
    _overwrites: QosOverwrites

    def _live(self) -> Any:
        raise NotImplementedError

    def try_put(
        self,
        /,
        key_expr: KeyExpr | str,
        payload: "IntoPayload",
        *,
        encoding: Encoding | str | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: "IntoPayload | None" = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
    ) -> bool:
        """Publish a value like `put`, and return whether it was queued.

        Args:
            key_expr: The key to publish on.
            payload: Text, bytes, or any object with the buffer protocol.
            encoding: Encoding of the payload. Default: `zenoh/bytes`.
            congestion_control: Behaviour of a full queue. Default: `DROP`.
            priority: Priority. Default: `DATA`.
            express: Send immediately instead of batching.
            attachment: Bytes that accompany the payload.
            timestamp: Timestamp of the sample. Default: a router adds one.
            timestamp_instrumentation: Timestamps to record along the way.
            allowed_destination: Subscribers that receive the sample. Default: local and remote ones.
            source_info: Identity and sequence number of the source.

        Returns:
            False if a connection, or a callback of this session, had no room and dropped the sample.

        Raises:
            KeyExprError: The key expression is invalid.
            ClosedError: The session is closed.
        """
        return self._send(
            as_key(key_expr).utf8,
            as_payload(payload),
            as_encoding(encoding),
            attachment,
            timestamp,
            timestamp_instrumentation,
            source_info,
            as_qos(congestion_control, priority, express, allowed_destination),
        )

    def delete(
        self,
        /,
        key_expr: KeyExpr | str,
        *,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: "IntoPayload | None" = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Publish a deletion. Matching subscribers receive a `Sample` of kind DELETE.

        Args:
            key_expr: The key to delete.
            congestion_control: Behaviour of a full queue. Default: `DROP`.
            priority: Priority. Default: `DATA`.
            express: Send immediately instead of batching.
            attachment: Bytes that accompany the deletion.
            timestamp: Timestamp of the sample. Default: a router adds one.
            timestamp_instrumentation: Timestamps to record along the way.
            allowed_destination: Subscribers that receive the sample. Default: local and remote ones.
            source_info: Identity and sequence number of the source.

        Raises:
            KeyExprError: The key expression is invalid.
            ClosedError: The session is closed.
        """
        self._send(
            as_key(key_expr).utf8,
            None,
            None,
            attachment,
            timestamp,
            timestamp_instrumentation,
            source_info,
            as_qos(congestion_control, priority, express, allowed_destination),
        )

    def _send(
        self,
        key: bytes,
        payload: "bytes | memoryview | None",
        encoding: Encoding | None,
        attachment: Any,
        timestamp: Timestamp | None,
        instrumentation: TimestampInstrumentation | None,
        source: SourceInfo | None,
        fixed: dict[str, Any],
    ) -> bool:
        """Send a put or delete with any fields. Return False if it was dropped.

        `_put_fast_path` has the fast path for plain bytes.
        """
        node = self._live()
        require_type("timestamp", timestamp, Timestamp, None)
        require_type("timestamp_instrumentation", instrumentation, TimestampInstrumentation, None)
        require_type("source_info", source, SourceInfo, None)
        if self._overwrites:
            fixed = self._overwrites.of(key, fixed)
        if attachment is not None:
            attachment = as_buffer(attachment)
        options = (
            fixed if instrumentation is None else {**fixed, "stack": self._stamper.new_stack(instrumentation, True)}
        )
        if payload is None:
            sent = node.delete(key, attachment=attachment, timestamp=timestamp, source=source, **options)
        else:
            sent = node.put(
                key,
                payload,
                encoding=as_wire_encoding(encoding),
                attachment=attachment,
                timestamp=timestamp,
                source=source,
                **options,
            )
        return sent

    def _get_prepared_put(self, key_expr: KeyExpr, encoding: Encoding | None, qos: dict[str, Any]) -> Any:
        """Return the prepared put for plain bytes, or None if the node adds a timestamp to each sample."""
        if self._overwrites:
            qos = self._overwrites.of(key_expr.utf8, qos)
        return self._live().prepare_put(key_expr.utf8, encoding=as_wire_encoding(encoding), **qos)

    def declare_publisher(
        self,
        /,
        key_expr: KeyExpr | str,
        *,
        encoding: Encoding | str | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        reliability: Reliability | None = None,
        allowed_destination: Locality | None = None,
    ) -> Publisher:
        """Declare a publisher for repeated puts on one key expression.

        Args:
            key_expr: The key expression to publish on.
            encoding: Default encoding of payloads. Default: `zenoh/bytes`.
            congestion_control: Behaviour of a full queue. Default: `DROP`.
            priority: Priority. Default: `DATA`.
            express: Send immediately instead of batching.
            reliability: Reliability. Default: `RELIABLE`.
            allowed_destination: Subscribers that receive the samples. Default: local and remote ones.

        Returns:
            The publisher. It is undeclared when it is no longer referenced.

        Raises:
            KeyExprError: The key expression is invalid.
            ClosedError: The session is closed.
        """
        key = as_key(key_expr)
        qos = as_qos(congestion_control, priority, express, allowed_destination)
        reliability = require_type("reliability", reliability, Reliability, Reliability.RELIABLE)
        qos = self._overwrites.of(key.utf8, {**qos, "reliable": reliability is Reliability.RELIABLE})
        node = self._live()
        entity = node.declare_publisher(key.utf8, qos["destination"])
        node.settle()
        return Publisher(cast("Session", self), key, entity, as_encoding(encoding) or Encoding.ZENOH_BYTES, qos)

    def put_table(
        self,
        /,
        table: Any,
        *,
        congestion_control: CongestionControl | None = None,
        source_info: SourceInfo | None = None,
    ) -> int:
        """Publish one sample for each row of a table.

        Args:
            table: A pyarrow table, batch or reader, a pandas or Polars frame, a DuckDB relation, or any object with
                `__arrow_c_stream__`. Columns: `key`, `payload`, and optionally `kind`, `encoding`, `attachment`,
                `timestamp`, `priority`, `congestion`, `express`, `reliable`.
            congestion_control: Behaviour of a full queue, for rows without the column `congestion`.
            source_info: Source of the first row. The sequence number increases by one for each row.

        Returns:
            The number of rows sent.

        Raises:
            InvalidValue: A column or value is invalid. No row was sent.
            ClosedError: The session is closed.
        """
        require_type("source_info", source_info, SourceInfo, None)
        from zenlake.api.arrow import put_table

        return put_table(
            cast("Session", self), table, None, None, as_qos(congestion_control, None, None, None), source_info
        )
