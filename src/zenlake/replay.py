# SPDX-License-Identifier: Apache-2.0
"""Replay: publish the samples of a recording again, at the times at which they came.

A recording is read twice: once for the times alone, which tells how long it is and whether its rows lie in the order of
time, and then as it is published. Rows in order are never held in memory beyond a record batch; rows that are not (a log
of several writers, or the senders' own clocks) are sorted first, which takes memory for all of them.
"""

import math
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc

from zenlake.errors import InvalidValue
from zenlake.keyexpr import KeyExpr
from zenlake.tables.read import batches

if TYPE_CHECKING:
    from zenlake.api.session import Session
    from zenlake.tables.files import PATHS

__all__ = ["Outcome", "Replay"]

SENT = ["key", "payload", "kind", "encoding", "schema", "attachment", "priority", "congestion", "express", "reliable"]
STAMPS = ["ntp64", "timestamp_id"]
ABOUT = ["received_ns", "timestamp", "direction", "request_id", "shm"]
LONGEST = 4096  # rows that are sent in one go: whoever wants to stop does not wait for more
GROWTH = math.log(1.1)  # lateness is counted in classes, each a tenth wider than the one before

By = Literal["received", "timestamp"]
SentBy = Literal["opener", "acceptor", "all"]
Moment = datetime | timedelta  # a time, or how long after the beginning of the recording


@dataclass
class Outcome:
    """What was published, what was not, and how late it was."""

    sent: int = 0
    dropped: int = 0
    """Samples for which a queue had no room."""
    skipped: int = 0
    """Samples that cannot be sent again: the key was not seen, or the value lay in shared memory."""
    seconds: float = 0.0
    """How long it took."""
    latest: float = 0.0
    """Seconds that the latest one was late."""
    _late: Counter[int] = field(default_factory=Counter, repr=False)

    def note(self, late: float, samples: int) -> None:
        self.latest = max(self.latest, late)
        self._late[round(math.log(max(late, 1e-7)) / GROWTH)] += samples

    def late(self, part: float) -> float:
        """Seconds by which this part of all samples was late at most, to a tenth: `late(0.5)` is the median."""
        left = part * self._late.total()
        for step in sorted(self._late):
            left -= self._late[step]
            if left <= 0:
                return min(math.exp(step * GROWTH), self.latest)
        return self.latest


@dataclass(frozen=True)
class Extent:
    """What the first reading tells."""

    samples: int
    first: int
    last: int
    """Nanoseconds since 1970."""
    in_order: bool
    sent_by: SentBy

    @property
    def seconds(self) -> float:
        return (self.last - self.first) / 1e9


class Replay:
    """The samples of captures, logs or lakes, to be published as they came.

    `keys`, `since` and `until` choose. `by` says which clock: the recorder's, or the senders' own where samples are stamped.
    A recording of several sessions has a sample on its way in and again on its way out: `sent_by` says whose to take, those of
    the nodes that opened the sessions, of those that accepted them, or all; if it is None, the openers', and if they published
    nothing (as in the log of a tap, which only listens) the acceptors'. `rename` is (old, new) pairs of key prefixes.
    """

    def __init__(
        self,
        path: "PATHS",
        *,
        keys: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        by: By = "received",
        sent_by: SentBy | None = None,
        speed: float = 1.0,
        rename: Sequence[tuple[str, str]] = (),
        keep_timestamps: bool = False,
    ) -> None:
        if not speed > 0:
            raise InvalidValue(f"a speed of {speed:g}: it is a number above 0, inf for as fast as it goes")
        self._path = path
        self._keys = keys
        self._by = by
        self._speed = speed
        self._rename = tuple(_prefixes(old, new) for old, new in rename)
        self._columns = SENT + (STAMPS if keep_timestamps else [])
        self._since, self._until = self._bounds(since, until)
        self.extent = self._measure(sent_by)

    def run(
        self,
        session: "Session",
        stop: threading.Event | None = None,
        progress: Callable[[Outcome, float], object] = lambda outcome, seconds: None,
    ) -> Outcome:
        """Publish all of it, once. `progress` is told now and then how many seconds of the recording are done."""
        stop = threading.Event() if stop is None else stop
        outcome = Outcome()
        began = time.monotonic()
        for rows, times in self._rows(outcome):
            self._publish(session, rows, times, began, stop, outcome, progress)
            if stop.is_set():
                break
        outcome.seconds = time.monotonic() - began
        return outcome

    def _publish(
        self,
        session: "Session",
        rows: pa.RecordBatch,
        times: list[int],
        began: float,
        stop: threading.Event,
        outcome: Outcome,
        progress: Callable[[Outcome, float], object],
    ) -> None:
        """Each row when it is due; all that are due go together."""
        first, scale = self.extent.first, 1e-9 / self._speed
        at = 0
        while at < len(times) and not stop.is_set():
            due = began + (times[at] - first) * scale
            now = time.monotonic()
            if due > now:
                progress(outcome, (times[at] - first) / 1e9)
                if stop.wait(due - now):
                    return
                now = time.monotonic()
            reached = math.inf if math.isinf(self._speed) else first + (now - began) / scale
            end = min(bisect_right(times, reached, at), at + LONGEST)
            end = max(end, at + 1)  # a clock's last digit must not stop it
            sent = session.put_table(rows.slice(at, end - at))
            outcome.sent += sent
            outcome.dropped += end - at - sent
            if not math.isinf(self._speed):
                outcome.note(max(0.0, time.monotonic() - due), end - at)
            at = end
        if times:
            progress(outcome, (times[min(at, len(times) - 1)] - first) / 1e9)

    # Reading

    def _measure(self, sent_by: SentBy | None) -> Extent:
        """The first reading: times and directions only."""
        found = {0: _Extremes(), 1: _Extremes(), None: _Extremes()}
        for batch in self._read(["key", *ABOUT]):
            published = batch.filter(pc.is_null(batch.column("request_id")))
            times = self._times(published)
            directions = published.column("direction")
            for direction in (0, 1):
                found[direction].add(times.filter(pc.equal(directions, direction)))
            found[None].add(times)
        chosen: SentBy = sent_by or ("opener" if found[0].samples else "acceptor")
        extremes = found[{"opener": 0, "acceptor": 1, "all": None}[chosen]]
        if not extremes.samples:
            raise InvalidValue("nothing to replay: there is no sample of that key, that time and that side in it")
        return Extent(extremes.samples, extremes.first, extremes.last, extremes.in_order, chosen)

    def _rows(self, outcome: Outcome) -> Iterator[tuple[pa.RecordBatch, list[int]]]:
        """The second reading: what is sent, and when each row came."""
        if self.extent.in_order:
            parts = self._read([*self._columns, *ABOUT])
        else:
            whole = pa.Table.from_batches(list(self._read([*self._columns, *ABOUT]))).combine_chunks()
            [part] = whole.to_batches() or [None]
            parts = iter([part.take(pc.sort_indices(self._times(part)))])
        for batch in parts:
            wanted = batch.filter(self._wanted(batch))
            sendable = pc.and_(pc.is_valid(wanted.column("key")), pc.is_null(wanted.column("shm")))
            rows = wanted.filter(sendable)
            outcome.skipped += wanted.num_rows - rows.num_rows
            if rows.num_rows:
                yield self._renamed(rows.select(self._columns)), self._times(rows).to_pylist()

    def _wanted(self, batch: pa.RecordBatch) -> pa.Array:
        published = pc.is_null(batch.column("request_id"))
        if self.extent.sent_by == "all":
            return published
        direction = 0 if self.extent.sent_by == "opener" else 1
        return pc.and_(published, pc.equal(batch.column("direction"), direction))

    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        return batches(self._path, "samples", columns=columns, keys=self._keys, since=self._since, until=self._until)

    def _times(self, batch: pa.RecordBatch) -> pa.Array:
        received = batch.column("received_ns")
        if self._by == "received":
            return received
        stamped = pc.multiply(batch.column("timestamp").cast(pa.int64()), 1000)
        return pc.coalesce(stamped, received)

    def _bounds(self, since: Moment | None, until: Moment | None) -> tuple[datetime | None, datetime | None]:
        """Times; what is told from the beginning needs to know when that was."""
        beginning: datetime | None = None
        if isinstance(since, timedelta) or isinstance(until, timedelta):
            for batch in batches(self._path, "samples", columns=["received"], keys=self._keys):
                first: datetime = pc.min(batch.column("received")).as_py()
                beginning = first if beginning is None else min(beginning, first)

        def moment(given: Moment | None) -> datetime | None:
            if not isinstance(given, timedelta):
                return given
            return (beginning or datetime.fromtimestamp(0, UTC)) + given

        return moment(since), moment(until)

    def _renamed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if not self._rename:
            return rows
        keys = pc.dictionary_encode(rows.column("key"))
        names = pa.array([self._name(key) for key in keys.dictionary.to_pylist()], pa.string())
        return rows.set_column(rows.schema.get_field_index("key"), "key", names.take(keys.indices))

    def _name(self, key: str) -> str:
        for old, new in self._rename:
            if not old or key == old or key.startswith(f"{old}/"):
                rest = key if not old else key[len(old) + 1 :]
                return "/".join(part for part in (new, rest) if part)
        return key


class _Extremes:
    """The first and last of some times, and whether they never go back."""

    def __init__(self) -> None:
        self.samples = 0
        self.first = self.last = 0
        self.in_order = True

    def add(self, times: pa.Array) -> None:
        if not len(times):
            return
        bounds = pc.min_max(times).as_py()
        begins = times[0].as_py()
        self.in_order &= not self.samples or begins >= self.last
        self.in_order &= not pc.any(pc.less(times.slice(1), times.slice(0, len(times) - 1))).as_py()
        self.first = bounds["min"] if not self.samples else min(self.first, bounds["min"])
        self.last = bounds["max"] if not self.samples else max(self.last, bounds["max"])
        self.samples += len(times)


def _prefixes(old: str, new: str) -> tuple[str, str]:
    for each in (old, new):
        if each:
            KeyExpr(each)
    return old, new
