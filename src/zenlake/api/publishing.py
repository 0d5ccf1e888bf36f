# SPDX-License-Identifier: Apache-2.0
"""What a session publishes: `put` (in `putting`), `try_put`, `delete`, tables, and publishers."""

from typing import TYPE_CHECKING, Any, cast

from zenlake.api.arguments import as_encoding, as_key, as_qos, as_told, given
from zenlake.api.declared import Publisher
from zenlake.api.putting import SessionPut
from zenlake.api.quality import Overwrites
from zenlake.api.stamps import Stamper, TimestampInstrumentation
from zenlake.api.zbytes import as_buffer
from zenlake.choices import CongestionControl, Locality, Priority, Reliability
from zenlake.encoding import Encoding
from zenlake.keyexpr import KeyExpr
from zenlake.values import SourceInfo, Timestamp

if TYPE_CHECKING:
    from zenlake.api.session import Session

__all__ = ["Publishing"]


class Publishing(SessionPut):
    """The half of a Session that sends."""

    _stamper: Stamper
    _overwrites: Overwrites

    def _live(self) -> Any:
        raise NotImplementedError

    def try_put(
        self,
        /,
        key_expr: KeyExpr | str,
        payload: Any,
        *,
        encoding: Encoding | str | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: Any = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
    ) -> bool:
        """As `put`, and tells whether it was queued: False if a connection, or a callback of this session, had no room for it."""
        return self._send(
            as_key(key_expr).utf8,
            as_buffer(payload),
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
        attachment: Any = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Tell whoever listens that the key's value is no more."""
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
        payload: Any,
        encoding: Encoding | None,
        attachment: Any,
        timestamp: Timestamp | None,
        instrumentation: TimestampInstrumentation | None,
        source: SourceInfo | None,
        fixed: dict[str, Any],
    ) -> bool:
        """Every put and delete comes through here. False if it was dropped."""
        node = self._live()
        given("timestamp", timestamp, Timestamp, None)
        given("timestamp_instrumentation", instrumentation, TimestampInstrumentation, None)
        given("source_info", source, SourceInfo, None)
        if self._overwrites:
            fixed = self._overwrites.of(key, fixed)
        if attachment is not None:
            attachment = as_buffer(attachment)
        options = fixed if instrumentation is None else {**fixed, "stack": self._stamper.sent(instrumentation)}
        if payload is None:
            sent = node.delete(key, attachment=attachment, timestamp=timestamp, source=source, **options)
        else:
            sent = node.put(
                key,
                payload,
                encoding=as_told(encoding),
                attachment=attachment,
                timestamp=timestamp,
                source=source,
                **options,
            )
        return sent  # type: ignore[no-any-return]

    def _post(self, key_expr: KeyExpr, encoding: Encoding | None, qos: dict[str, Any]) -> Any:
        """A short way for puts of nothing but bytes; None if the node has none, since it stamps each."""
        if self._overwrites:
            qos = self._overwrites.of(key_expr.utf8, qos)
        return self._live().post(key_expr.utf8, encoding=as_told(encoding), **qos)

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
        """Something to put with on one key expression, again and again."""
        key = as_key(key_expr)
        qos = as_qos(congestion_control, priority, express, allowed_destination)
        reliability = given("reliability", reliability, Reliability, Reliability.RELIABLE)
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
        """Send a value for each row of a table: of pyarrow, pandas, Polars, DuckDB or what else has `__arrow_c_stream__`.

        Columns are `key` and `payload` and, if they are there, `kind`, `encoding`, `attachment`, `timestamp`, `priority`,
        `congestion`, `express`, `reliable`. Returns the number of rows sent. `source_info` is that of the first row, from
        which the others count on.
        """
        given("source_info", source_info, SourceInfo, None)
        from zenlake.api.arrow import put_table

        return put_table(
            cast("Session", self), table, None, None, as_qos(congestion_control, None, None, None), source_info
        )
