# SPDX-License-Identifier: Apache-2.0
"""Arrow interface of a live session: `ArrowChannel`, `put_table`, `get_table`.

A channel writes each sample from the receive buffer into columns, without a Python object per sample. A record batch ends
at a number of rows, a number of bytes, or an age.
"""

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from zenlake.api._validation import as_count, as_seconds
from zenlake.api.arrow_listener import ArrowListener
from zenlake.api.handlers import Handler, Receiver
from zenlake.api.table_input import as_rows
from zenlake.api.table_publisher import TablePublisher
from zenlake.columns.live_samples import LiveSamples
from zenlake.columns.schemas import select_schema
from zenlake.core.encoding import Encoding
from zenlake.core.enums import ConsolidationMode, Locality
from zenlake.core.identifiers import SourceInfo
from zenlake.core.keyexpr import KeyExpr
from zenlake.errors import QueryError
from zenlake.network.local_face import qos_byte

if TYPE_CHECKING:
    from zenlake.api.session import Session

__all__ = ["ArrowChannel", "get_table", "put_table"]


class ArrowChannel:
    """A handler for `declare_subscriber` that receives `pyarrow.RecordBatch` objects instead of samples.

    Args:
        rows: Maximum number of rows per record batch.
        size: Maximum number of bytes per record batch.
        age: Maximum seconds between the first sample of a record batch and its completion.
        capacity: Maximum number of queued record batches. A full channel applies backpressure.
        columns: Columns of the table `samples`. Default: all.

    Raises:
        InvalidValue: An argument is out of range, or a column is unknown.
        TypeError: An argument has the wrong type.

    Example:
        ```python
        for batch in session.declare_subscriber("robots/**", ArrowChannel(10_000, age=0.5)):
            print(batch.num_rows)
        ```
    """

    def __init__(
        self,
        rows: int = 16384,
        *,
        size: int = 32 << 20,
        age: float = 0.1,
        capacity: int = 16,
        columns: list[str] | None = None,
    ) -> None:
        self.rows = as_count("rows", rows)
        self.size = as_count("size", size)
        self.age = as_seconds("age", age)
        self.capacity = as_count("capacity", capacity)
        self.columns = columns
        if isinstance(columns, str):
            raise TypeError(f"invalid columns={columns!r}; expected a list of names")
        select_schema("samples", columns)  # validates the names

    def _receiver(self) -> Receiver[Any]:
        channel: Handler[pa.RecordBatch] = Handler(self.capacity)
        filling = ArrowListener(LiveSamples(self.columns, self.rows, self.size), channel, self.age)

        def attach(source: Any) -> None:
            channel.source = source
            filling.source = source

        return Receiver(channel._push, filling.close, channel, source=attach, orphan=channel._orphan, deliver=filling)


def get_table(session: "Session", selector: Any, **options: Any) -> pa.Table:
    """Query, wait for all replies, and return them as a table. Raise QueryError, with the table, for error replies."""
    samples = LiveSamples()
    channel: Handler[pa.RecordBatch] = Handler()
    filling = ArrowListener(samples, channel, 0.0, replies=True)
    target: Receiver[Any] = Receiver(channel._push, lambda discard=False: filling.close(), None, deliver=filling)
    receiver: Any = _Given(target)
    session.get(selector, receiver, **options)
    found = pa.Table.from_batches([*channel, samples.finish()])
    if filling.mode is ConsolidationMode.LATEST:
        found = select_newest(found)
    if filling.errors:
        raise QueryError(tuple(filling.errors), found)
    return found


def select_newest(samples: pa.Table) -> pa.Table:
    """Return the newest sample of each key, by the rule of `network.consolidation`."""
    keys = samples["key"].combine_chunks().dictionary_encode()
    count = len(keys)
    if len(keys.dictionary) == count:
        return samples
    clocks = samples["timestamp_id"].combine_chunks().dictionary_encode()
    texts = clocks.dictionary.to_pylist()
    ranks = {
        text: rank for rank, text in enumerate(sorted(texts, key=lambda text: int(text, 16).to_bytes(16, "little")))
    }
    each = pa.table(
        {
            "key": keys.indices,
            "stamped": samples["ntp64"]
            .is_valid()
            .cast(pa.int8()),  # a sample without a timestamp is older than any with one
            "time": samples["ntp64"],
            "clock": pa.array([ranks[text] for text in texts], pa.int64()).take(clocks.indices),
        }
    )
    sorting = [(name, "ascending") for name in each.schema.names]  # stable: of equal rows, the last is the newest
    order = pc.sort_indices(each, sort_keys=sorting)
    of = keys.indices.take(order)
    last = pa.concat_arrays([pc.not_equal(of[:-1], of[1:]), pa.array([True])])
    return samples.take(order.filter(last))


class _Given:
    """A handler that wraps an existing receiver."""

    def __init__(self, target: Receiver[Any]) -> None:
        self._target = target

    def _receiver(self) -> Receiver[Any]:
        return self._target


def put_table(
    session: "Session",
    table: Any,
    key_expr: KeyExpr | None,
    encoding: Encoding | None,
    fixed: dict[str, Any],
    first: SourceInfo | None = None,
) -> int:
    """Publish one sample for each row. Columns of `samples` that describe the origin are ignored.

    `first` is the source of the first row. The sequence number increases by one with each row. A `timestamp` without `ntp64`
    becomes a timestamp of this node.
    """
    node = session._live().node
    taken = as_rows(table, key_expr, str(session.zid()))
    destination = fixed["destination"]
    rows = TablePublisher(node, destination is not Locality.REMOTE, destination is not Locality.SESSION_LOCAL)
    usual = {
        "priority": int(fixed["priority"]),
        "congested": qos_byte(0, fixed["congestion"], False),
        "express": fixed["express"],
        "reliable": fixed["reliable"],
        "encoding": encoding,
    }
    sent = 0
    number = 0 if first is None else first.source_sn
    for batch in taken.to_batches():
        if first is not None:
            batch = _number_rows(batch, first, number)
            number += batch.num_rows
        if key_expr is not None:
            sent += rows.send(batch, None, key_expr.utf8, **usual)
        else:
            sent += rows.send(batch, batch.column("key"), None, **usual)
    return sent


def _number_rows(batch: pa.RecordBatch, first: SourceInfo, number: int) -> pa.RecordBatch:
    """Add the source columns of each row."""
    count = batch.num_rows
    source = {
        "source_zid": pa.repeat(str(first.source_id.zid), count),
        "source_eid": pa.repeat(pa.scalar(first.source_id.eid, pa.int64()), count),
        "source_sn": pa.array(range(number, number + count), pa.int64()),
    }
    for name, column in source.items():
        batch = batch.append_column(name, column)
    return batch
