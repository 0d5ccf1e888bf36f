# SPDX-License-Identifier: Apache-2.0
"""Order of samples by source, for advanced subscribers. Live samples are merged with replies of caches.

A source is a publisher that numbers its samples, or a clock that timestamps them. While a query about a source is pending, its
samples may arrive live and as replies. Samples after a gap are held, and delivered when the gap is filled or the query ends.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from zenlake.api.reply import Sample
from zenlake.core.identifiers import EntityGlobalId

__all__ = ["Miss", "ReorderBuffer"]


@dataclass(frozen=True, slots=True)
class Miss:
    """Missed samples: their publisher and number.

    Attributes:
        source: Global id of the publisher.
        nb: Number of missed samples.
    """

    source: EntityGlobalId
    nb: int


@dataclass(slots=True)
class SourceState:
    """State of one source. `last` and the keys of `held` are sequence numbers, or times."""

    last: Any = None
    held: dict[Any, Sample] = field(default_factory=dict)
    pending_queries: int = 0


class ReorderBuffer:
    """A buffer that delivers samples in order, each once, and reports missed ones."""

    def __init__(
        self, push: Callable[[Sample], None], on_miss: Callable[[Miss], None], recovers: bool, depth: int | None
    ) -> None:
        self._push = push
        self._on_miss = on_miss
        self._recovers = recovers
        self._depth = depth
        self._lock = threading.RLock()
        self._sources: dict[object, SourceState] = {}
        self._pending_queries = 0

    def sample(self, sample: Sample) -> None:
        """Process a sample, live or from a cache."""
        with self._lock:
            if sample.source_info is not None:
                self._add_numbered(sample, sample.source_info.source_id, sample.source_info.source_sn)
            elif sample.timestamp is not None:
                self._add_timestamped(sample)
            else:
                self._push(sample)

    def _add_numbered(self, sample: Sample, id: EntityGlobalId, number: int) -> None:
        source = self._sources.setdefault(id, SourceState())
        if source.last is None and (self._pending_queries or source.pending_queries):
            source.held[number] = sample
            if self._depth is not None and len(source.held) >= self._depth:
                self._flush(id, source)
        elif source.last is None or number == source.last + 1:
            self._deliver(source, number, sample)
        elif number > source.last:
            source.held[number] = sample
            if not self._recovers and not source.pending_queries:
                self._flush(id, source)

    def _deliver(self, source: SourceState, number: int, sample: Sample) -> None:
        """Deliver this sample and the held samples that follow it."""
        self._push(sample)
        source.last = number
        while (following := source.held.pop(source.last + 1, None)) is not None:
            self._push(following)
            source.last += 1

    def _flush(self, id: object, source: SourceState) -> None:
        """Deliver the held samples, with their gaps."""
        for key in sorted(source.held):
            sample = source.held.pop(key)
            if isinstance(id, EntityGlobalId) and source.last is not None and key > source.last + 1:
                self._on_miss(Miss(id, key - source.last - 1))
            if source.last is None or key > source.last:
                self._push(sample)
                source.last = key

    def _add_timestamped(self, sample: Sample) -> None:
        stamp = sample.timestamp
        assert stamp is not None
        source = self._sources.setdefault(stamp.id, SourceState())
        if source.last is not None and stamp <= source.last:
            return
        if self._pending_queries or source.pending_queries:
            source.held.setdefault(stamp, sample)
            if self._depth is not None and len(source.held) >= self._depth:
                self._flush(stamp.id, source)
        else:
            self._push(sample)
            source.last = stamp

    # Queries

    def begin_query(self, id: EntityGlobalId | None = None) -> None:
        """Register a pending query about a source, or about all sources."""
        with self._lock:
            if id is None:
                self._pending_queries += 1
            else:
                self._sources.setdefault(id, SourceState()).pending_queries += 1

    def end_query(self, id: EntityGlobalId | None = None) -> None:
        """Register the end of a query. Samples that are still missing are lost."""
        with self._lock:
            if id is None:
                self._pending_queries -= 1
            else:
                self._sources[id].pending_queries -= 1
            if self._pending_queries:
                return
            for each, source in list(self._sources.items()) if id is None else [(id, self._sources[id])]:
                if not source.pending_queries:
                    self._flush(each, source)

    def missing_range(self, id: EntityGlobalId, number: int) -> str | None:
        """Return the range to query if a source has sent up to this number, or None if nothing is missing or already queried."""
        with self._lock:
            source = self._sources.setdefault(id, SourceState())
            if source.pending_queries or self._pending_queries or (source.last is not None and number <= source.last):
                return None
            source.pending_queries += 1
            return f"..{number}" if source.last is None else f"{source.last + 1}..{number}"

    def sources(self) -> Iterator[tuple[EntityGlobalId, int]]:
        """Return the sources with sequence numbers, and the next number of each."""
        with self._lock:
            found = [(id, source.last) for id, source in self._sources.items() if isinstance(id, EntityGlobalId)]
        return ((id, 0 if last is None else last + 1) for id, last in found)
