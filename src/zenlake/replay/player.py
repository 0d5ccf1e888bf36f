# SPDX-License-Identifier: Apache-2.0
"""Publish rows when they are due, and measure their delay."""

import math
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from zenlake.core.keyexpr import KeyExpr
from zenlake.errors import InvalidValue
from zenlake.replay.source import By, Moment, SampleSource, SentBy

if TYPE_CHECKING:
    from zenlake.api.session import Session
    from zenlake.tables.paths import PATHS

__all__ = ["Outcome", "Pace", "Replay", "prefixes", "publish", "rename_key", "default_mapping"]

SENT = ["key", "payload", "kind", "encoding", "schema", "attachment", "priority", "congestion", "express", "reliable"]
STAMPS = ["ntp64", "timestamp_id"]
MAX_ROWS = 4096  # rows per put_table call, so that an interrupt is handled soon
GROWTH = math.log(1.1)  # delays are counted in a histogram; each bin is a tenth wider than the previous one


@dataclass
class Outcome:
    """Counts and delays of a replay."""

    sent: int = 0
    dropped: int = 0
    """Samples dropped because a queue was full."""
    skipped: int = 0
    """Samples that cannot be published: unknown key, or missing payload (shared memory, --metadata-only)."""
    seconds: float = 0.0
    """Duration in seconds."""
    latest: float = 0.0
    """Maximum delay in seconds."""
    _late: Counter[int] = field(default_factory=Counter, repr=False)

    def note(self, late: float, samples: int) -> None:
        self.latest = max(self.latest, late)
        self._late[round(math.log(max(late, 1e-7)) / GROWTH)] += samples

    def late(self, part: float) -> float:
        """Return the delay in seconds that this share of samples did not exceed: `late(0.5)` is the median."""
        left = part * self._late.total()
        for step in sorted(self._late):
            left -= self._late[step]
            if left <= 0:
                return min(math.exp(step * GROWTH), self.latest)
        return self.latest


@dataclass(frozen=True)
class Pace:
    """Mapping of recorded times to due times: `first` (ns) is due at `began`, by the monotonic clock."""

    first: int
    began: float
    speed: float

    def due(self, time: int) -> float:
        return self.began + (time - self.first) * 1e-9 / self.speed

    def due_time(self, now: float) -> float:
        """Return the recorded time up to which samples are due."""
        return math.inf if math.isinf(self.speed) else self.first + (now - self.began) * 1e9 * self.speed


class Replay:
    """The samples of captures, logs or lakes, to be published again.

    Args:
        path: Captures, logs or lakes.
        keys: Key expression of the samples.
        since: Start, as a time or relative to the start of the recording.
        until: End, as a time or relative to the start of the recording.
        speed: Speed-up factor. inf for no delays.
        by: Clock: "received" (the recorder's) or "timestamp" (the senders', where samples have one).
        sent_by: "opener", "acceptor" or "all". A recording beside a router contains each sample on several connections.
            Default: the samples of the nodes that opened the sessions; if they published nothing, those of the acceptors.
        rename: Pairs (old, new) of key prefixes.
        keep_timestamps: Whether to send the recorded timestamps.

    Raises:
        InvalidValue: An argument is invalid.
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
            raise InvalidValue(f"invalid speed={speed:g}; expected a number above 0, or inf for no delays")
        self._speed = speed
        self._rename = tuple(prefixes(old, new) for old, new in rename)
        self._columns = SENT + (STAMPS if keep_timestamps else [])
        self._rows = SampleSource(path, keys, since, until, by, sent_by)
        self.extent = self._rows.extent

    def run(
        self,
        session: "Session",
        stop: threading.Event | None = None,
        progress: Callable[[Outcome, float], object] = lambda outcome, seconds: None,
    ) -> Outcome:
        """Publish all samples once. `progress` is called repeatedly with the outcome and the replayed seconds of the recording."""
        stop = threading.Event() if stop is None else stop
        outcome = Outcome()
        began: float | None = None  # set with the first row, because a sort may take a while
        for rows, times, skipped in self._rows.read(self._columns):
            began = time.monotonic() if began is None else began
            outcome.skipped += skipped
            pace = Pace(self.extent.first, began, self._speed)
            publish(
                session.put_table, default_mapping(rename_key(rows, self._rename)), times, pace, stop, outcome, progress
            )
            if stop.is_set():
                break
        outcome.seconds = 0.0 if began is None else time.monotonic() - began
        return outcome


def publish(
    put: Callable[[pa.RecordBatch], int],
    rows: pa.RecordBatch,
    times: list[int],
    pace: Pace,
    stop: threading.Event,
    outcome: Outcome,
    progress: Callable[[Outcome, float], object] = lambda outcome, seconds: None,
) -> None:
    """Publish each row when it is due. Rows that are due are sent together. `put` returns the number of accepted rows."""
    at = 0
    while at < len(times) and not stop.is_set():
        due = pace.due(times[at])
        now = time.monotonic()
        if due > now:
            progress(outcome, (times[at] - pace.first) / 1e9)
            if stop.wait(due - now):
                return
            now = time.monotonic()
        end = min(bisect_right(times, pace.due_time(now), at), at + MAX_ROWS)
        end = max(end, at + 1)  # rounding of the clock must not stop it
        sent = put(rows.slice(at, end - at))
        outcome.sent += sent
        outcome.dropped += end - at - sent
        if not math.isinf(pace.speed):
            outcome.note(max(0.0, time.monotonic() - due), end - at)
        at = end
    if times:
        progress(outcome, (times[min(at, len(times) - 1)] - pace.first) / 1e9)


def rename_key(rows: pa.RecordBatch, rename: Sequence[tuple[str, str]]) -> pa.RecordBatch:
    """Return rows with renamed keys, by (old, new) pairs of prefixes; the first match applies."""
    if not rename:
        return rows
    keys = pc.dictionary_encode(rows.column("key"))
    names = pa.array([_name(key, rename) for key in keys.dictionary.to_pylist()], pa.string())
    return rows.set_column(rows.schema.get_field_index("key"), "key", names.take(keys.indices))


def default_mapping(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Replace priority 0, which is reserved for control messages, by null: the default applies."""
    priority = rows.column("priority")
    at = rows.schema.get_field_index("priority")
    return rows.set_column(at, "priority", pc.if_else(pc.equal(priority, 0), pa.scalar(None, priority.type), priority))


def _name(key: str, rename: Sequence[tuple[str, str]]) -> str:
    for old, new in rename:
        if not old or key == old or key.startswith(f"{old}/"):
            rest = key if not old else key[len(old) + 1 :]
            return "/".join(part for part in (new, rest) if part)
    return key


def prefixes(old: str, new: str) -> tuple[str, str]:
    for each in (old, new):
        if each:
            KeyExpr(each)
    return old, new
