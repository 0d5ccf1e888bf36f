# SPDX-License-Identifier: Apache-2.0
"""Recorder of a live node, which must never wait for a disk.

    recorder = Recorder(Writer("lake/log", "router-1"))
    tee = recorder.face("tcp", client="10.0.0.7:40112", server="10.0.0.1:7447", opener=False)
    unicast.record(tee)  # every further batch, in both directions
    tee.note("forwarded", count=17, detail="...")
    tee.close("the link broke")

Batches are copied into the rows of the next block. A thread of the recorder writes the blocks. When the buffer is full,
when_full="lose" drops batches and counts them in a row of `events`. when_full="block" blocks the caller, which applies
backpressure to the network.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

from zenlake.errors import InvalidValue, LogError
from zenlake.log.block_builder import BlockBuilder
from zenlake.log.layout import NOTE
from zenlake.log.retention import Retention, retain
from zenlake.log.session_state import LogFace
from zenlake.log.writer import CLOCK_STEP, Writer, note_text
from zenlake.session.state import SessionState

__all__ = ["FaceTee", "Recorder"]

logger = logging.getLogger("zenlake.log")

LOSING = 64 << 20  # bytes that may be buffered for a slow disk before batches are lost
WAITING = 32 << 20  # with when_full='block', a larger buffer would only exceed the CPU caches
AGAIN = 1.0  # seconds until a full disk is tried again
CLOCK_WARNING = 60.0  # seconds for which a step of the clock is reported


class Recorder:
    """A thread and a bounded buffer before a writer, which the recorder then owns.

    The buffer holds at most `buffer` bytes (default 64 MiB, or 32 MiB with when_full="block"). Its content becomes a
    block every `linger` seconds, or when a block is full. Whenever a segment is sealed, old segments are removed
    according to `retention`.
    """

    def __init__(
        self,
        writer: Writer,
        *,
        buffer: int | None = None,
        linger: float = 0.1,
        when_full: Literal["lose", "block"] = "lose",
        retention: Retention | None = None,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        if when_full not in ("lose", "block"):
            raise InvalidValue(f"invalid when_full={when_full!r}; expected 'lose' or 'block'")
        self.writer = writer
        self.batches = 0
        self.bytes = 0
        self.lost = 0
        """Total number of lost batches."""
        self.trouble: LogError | None = None
        """Reason why nothing is written at present, or None."""
        self.clock_steps = 0
        """Number of times the clock was set back."""
        self._clock_stepped = (0.0, "")
        writer.on_clock_step = self._note_clock_step
        self._retention = retention
        self._retained = writer.segment
        self._blocks = when_full == "block"
        self._buffer = buffer or (WAITING if self._blocks else LOSING)
        self._linger = linger
        self._now = now
        self._rows = writer.fresh_rows()
        self._full: list[BlockBuilder] = []  # full rows, before `_rows`
        self._flushes: list[threading.Event] = []
        self._write_requested = False  # whether a flush or a closed face requires writing incomplete rows
        self._held = 0
        self._unreported = [0, 0]  # lost batches and bytes that are not yet in a row of `events`
        self._stopping = False
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._work = threading.Condition(self._lock)
        self._thread = threading.Thread(target=self._run, name="zenlake-log", daemon=True)
        self._thread.start()

    @property
    def has_failed(self) -> bool:
        """Whether recording has ended with an error. Later batches are not written."""
        return self.writer.has_failed

    @property
    def clock_warning(self) -> str:
        """Description of clock steps in the last minute, or an empty text."""
        when, why = self._clock_stepped
        return why if why and time.monotonic() - when < CLOCK_WARNING else ""

    def _note_clock_step(self, back: int) -> None:
        why = f"the clock was set back by {back / 1e9:.3f} s"
        self.clock_steps += 1
        self._clock_stepped = (time.monotonic(), why)
        logger.warning("%s: %s; received times restart in a new segment", self.writer.folder, why)

    @property
    def waiting_bytes(self) -> int:
        """Number of bytes that are not written yet."""
        return self._held

    def face(
        self, protocol: str, client: str, server: str, opener: bool, session: SessionState | None = None
    ) -> "FaceTee":
        """Register a connection.

        `opener` is true if we opened it. `session` has its negotiated parameters, if no INIT will be recorded.
        """
        with self._lock:
            face = self.writer.face(protocol, client, server, session)
        return FaceTee(self, face, 0 if opener else 1)

    def note(self, kind: str, **values: Any) -> None:
        """Add a row of `events` about the recording as a whole."""
        note = note_text(kind, values)
        self._append(None, NOTE, note, 0, False)

    def flush(self, timeout: float | None = None) -> tuple[int, int]:
        """Wait until everything recorded so far is in a block (and synced, if the policy requires it)."""
        done = threading.Event()
        with self._lock:
            self._flushes.append(done)
            self._write_requested = True
            self._work.notify()
        if not done.wait(timeout) or self.has_failed:
            raise self.trouble or LogError(f"{self.writer.folder}: not written after {timeout:g} s")
        return self.writer.acknowledged

    def close(self) -> None:
        """Write the buffer, seal the segment and stop. Batches that a full disk did not accept are lost, which is an error."""
        with self._lock:
            if self._stopping:
                return
            self._stopping = True
            self._work.notify()
            self._room.notify_all()
        self._thread.join()
        if self.trouble is not None:
            raise self.trouble

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Threading: called by faces, on any thread

    def _append(
        self, face: LogFace | None, direction: int, data: bytes | memoryview, wire_size: int, compressed: bool
    ) -> None:
        size = len(data)
        now = self._now()
        with self._lock:
            if self._held + size > self._buffer and self._held:
                if self._blocks and not self._stopping:
                    self._work.notify()
                    self._room.wait_for(lambda: self._held + size <= self._buffer or not self._held or self._stopping)
                    now = self._now()
                else:
                    self._lose(size)
                    return
            if self._stopping:
                self._lose(size)
                return
            times = self._rows.times
            if times and now < times[-1] - CLOCK_STEP:
                self._full.append(self._rows)
                self._rows = self.writer.fresh_rows()
            full = self._rows.add(now, face, direction, data, wire_size, compressed)
            self._held += size
            if direction != NOTE:
                self.batches += 1
                self.bytes += size
            if full:
                self._full.append(self._rows)
                self._rows = self.writer.fresh_rows()
                self._work.notify()

    def _on_face_end(self, face: LogFace) -> None:
        """Record that this face has ended."""
        with self._lock:
            self._rows.leaving.append(face)
            self._write_requested = True
            self._work.notify()

    def _lose(self, size: int) -> None:
        self.lost += 1
        self._unreported[0] += 1
        self._unreported[1] += size

    # Threading: the recorder thread

    def _run(self) -> None:
        while True:
            with self._lock:
                if not (self._full or self._write_requested or self._stopping):
                    self._work.wait(self._linger)
                stopping = self._stopping
                blocks, flushes = self._take_work()
            for rows in blocks:
                size, count = rows.size, len(rows) - rows.notes
                self._attempt(self.writer.append_rows, rows)
                with self._lock:
                    self._held -= size
                    self.lost += count if self.has_failed else 0
                    self._room.notify_all()
            self._attempt(self.writer.flush)
            if self._retention is not None and self.writer.segment != self._retained:
                self._retained = self.writer.segment
                self._attempt(retain, self.writer, self._retention)
            if self.trouble is None or self.has_failed:
                for event in flushes:
                    event.set()
            if stopping:
                break
        self._attempt(self.writer.close)

    def _take_work(self) -> tuple[list[BlockBuilder], list[threading.Event]]:
        """Return the rows to write and the flush events to set. After full blocks, incomplete rows wait for more batches."""
        blocks, self._full = self._full, []
        if self._unreported[0]:
            self._report_lost(blocks[-1] if blocks else self._rows)
        if blocks and not self._write_requested and not self._stopping:
            return blocks, []
        self._write_requested = False
        if self._rows:
            blocks.append(self._rows)
            self._rows = self.writer.fresh_rows()
        flushes, self._flushes = self._flushes, []
        return blocks, flushes

    def _report_lost(self, rows: BlockBuilder) -> None:
        count, size = self._unreported
        self._unreported = [0, 0]
        why = f"{size} bytes: the disk was slower than the network"
        note = note_text("log lost", {"count": count, "detail": why})
        rows.add(self._now(), None, NOTE, note, 0, False)
        self._held += len(note)

    def _attempt(self, what: Callable[..., object], *arguments: Any) -> None:
        """Run a step. While the disk is full or not writable, wait and let the buffer fill."""
        while True:
            try:
                what(*arguments)
                if self.trouble is not None and not self.has_failed:
                    logger.warning("%s: writing has resumed", self.writer.folder)
                    self.trouble = None
                return
            except (LogError, OSError) as error:
                if self.trouble is None:
                    logger.error("%s", error)
                self.trouble = error if isinstance(error, LogError) else LogError(str(error))
                if self.has_failed or what == self.writer.close:
                    return
                what, arguments = self.writer.flush, ()  # the writer already holds the rows
                with self._lock:
                    if self._stopping:
                        return
                    self._work.wait(AGAIN)


class FaceTee:
    """Recorder interface of one connection: a `transport.Tee`, and a place for notes."""

    def __init__(self, recorder: Recorder, face: LogFace, own: int) -> None:
        self.face = face
        self._recorder = recorder
        self.own = own
        """Direction of sent batches: 0 if we opened the connection, else 1."""

    def on_receive(self, data: bytes | memoryview, wire_size: int, compressed: bool) -> None:
        self._recorder._append(self.face, 1 - self.own, data, wire_size, compressed)

    def on_send(self, data: bytes, wire_size: int, compressed: bool) -> None:
        self._recorder._append(self.face, self.own, data, wire_size, compressed)

    def note(self, kind: str, **values: Any) -> None:
        """Add a row of `events`, such as a drop or a forwarded request. Values are columns of that table."""
        note = note_text(kind, values)
        self._recorder._append(self.face, NOTE, note, 0, False)

    def close(self, why: str = "") -> None:
        """End the recording of the connection. Give the reason if there was no CLOSE."""
        if why:
            self.note("disconnected", detail=why)
        self._recorder._on_face_end(self.face)
