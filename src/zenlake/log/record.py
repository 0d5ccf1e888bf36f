# SPDX-License-Identifier: Apache-2.0
"""What a live node calls: it must never wait for a disk.

    recorder = Recorder(Writer("lake/log", "router-1"))
    tee = recorder.face("tcp", client="10.0.0.7:40112", server="10.0.0.1:7447", opener=False)
    unicast.record(tee)  # every batch from here on, both ways
    tee.note("forwarded", count=17, detail="...")
    tee.close("the link broke")

Batches are copied into the rows of a block to come, and blocks are written by a thread of the recorder's own. When too much
waits, "lose" counts what finds no room and tells it in a row; "block" lets the caller wait, and the network feel it.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

from zenlake.errors import InvalidValue, LogError
from zenlake.log.layout import NOTE
from zenlake.log.retain import Retention, retain
from zenlake.log.rows import Rows
from zenlake.log.state import Face
from zenlake.log.write import CLOCK_STEP, Writer, note_text
from zenlake.session.session import Session

__all__ = ["FaceTee", "Recorder"]

logger = logging.getLogger("zenlake.log")

LOSING = 64 << 20  # bytes that a slow disk may leave waiting until some are lost
WAITING = 32 << 20  # where nothing is lost, more would only pass through the processor's caches
AGAIN = 1.0  # seconds until a full disk is tried again
CLOCK_WARNING = 60.0  # seconds for which a step of the clock is reported


class Recorder:
    """Puts a thread and a bounded buffer before a writer, which it owns from then on.

    At most `buffer` bytes wait (64 MiB, or 32 if callers wait then). What waits is made a block every `linger` seconds, or
    when there is a block's worth of it.
    Old segments are removed as `retention` says, whenever one is sealed.
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
            raise InvalidValue(f"when_full is 'lose' or 'block', not {when_full!r}")
        self.writer = writer
        self.batches = 0
        self.bytes = 0
        self.lost = 0
        """Batches that found no room, since the beginning."""
        self.trouble: LogError | None = None
        """Why nothing is written now; None if all is well."""
        self.clock_steps = 0
        """How often the clock was set back."""
        self._clock_stepped = (0.0, "")
        writer.on_clock_step = self._note_clock_step
        self._retention = retention
        self._retained = writer.segment
        self._blocks = when_full == "block"
        self._buffer = buffer or (WAITING if self._blocks else LOSING)
        self._linger = linger
        self._now = now
        self._rows = writer.fresh_rows()
        self._full: list[Rows] = []  # before those
        self._flushes: list[threading.Event] = []
        self._asked = False  # whether somebody waits for what is not full yet
        self._held = 0
        self._untold = [0, 0]  # batches and bytes lost of which no row tells yet
        self._stopping = False
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._work = threading.Condition(self._lock)
        self._thread = threading.Thread(target=self._run, name="zenlake-log", daemon=True)
        self._thread.start()

    @property
    def has_failed(self) -> bool:
        """Whether recording has ended with an error: nothing that comes is written any more."""
        return self.writer.has_failed

    @property
    def clock_warning(self) -> str:
        """What happened to the clock in the last minute; empty if nothing."""
        when, why = self._clock_stepped
        return why if why and time.monotonic() - when < CLOCK_WARNING else ""

    def _note_clock_step(self, back: int) -> None:
        why = f"the clock was set back by {back / 1e9:.3f} s"
        self.clock_steps += 1
        self._clock_stepped = (time.monotonic(), why)
        logger.warning("%s: %s; times begin again in a new segment", self.writer.folder, why)

    @property
    def waiting(self) -> int:
        """Bytes that are not written yet."""
        return self._held

    def face(self, protocol: str, client: str, server: str, opener: bool, session: Session | None = None) -> "FaceTee":
        """A new connection; `opener` says whether we opened it, `session` what was agreed on if no INIT will be heard."""
        with self._lock:
            face = self.writer.face(protocol, client, server, session)
        return FaceTee(self, face, 0 if opener else 1)

    def note(self, kind: str, **values: Any) -> None:
        """A row of `events` about the recording as a whole."""
        note = note_text(kind, values)
        self._put(None, NOTE, note, 0, False)

    def flush(self, timeout: float | None = None) -> tuple[int, int]:
        """Wait until everything that was recorded so far is in a block (and synced, if the policy says so)."""
        done = threading.Event()
        with self._lock:
            self._flushes.append(done)
            self._asked = True
            self._work.notify()
        if not done.wait(timeout) or self.has_failed:
            raise self.trouble or LogError(f"{self.writer.folder}: not written after {timeout:g} s")
        return self.writer.acknowledged

    def close(self) -> None:
        """Write what waits, seal, and stop. What a full disk did not take by then is lost, and that is an error."""
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

    # Called by faces, in any thread

    def _put(
        self, face: Face | None, direction: int, data: bytes | memoryview, wire_size: int, compressed: bool
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

    def _gone(self, face: Face) -> None:
        """This face will say no more."""
        with self._lock:
            self._rows.leaving.append(face)
            self._asked = True
            self._work.notify()

    def _lose(self, size: int) -> None:
        self.lost += 1
        self._untold[0] += 1
        self._untold[1] += size

    # The thread

    def _run(self) -> None:
        while True:
            with self._lock:
                if not (self._full or self._asked or self._stopping):
                    self._work.wait(self._linger)
                stopping = self._stopping
                blocks, flushes = self._taken()
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

    def _taken(self) -> tuple[list[Rows], list[threading.Event]]:
        """What is to be written now, and who waits for it. Behind full blocks, what is not full yet can wait for more."""
        blocks, self._full = self._full, []
        if self._untold[0]:
            self._tell_lost(blocks[-1] if blocks else self._rows)
        if blocks and not self._asked and not self._stopping:
            return blocks, []
        self._asked = False
        if self._rows:
            blocks.append(self._rows)
            self._rows = self.writer.fresh_rows()
        flushes, self._flushes = self._flushes, []
        return blocks, flushes

    def _tell_lost(self, rows: Rows) -> None:
        count, size = self._untold
        self._untold = [0, 0]
        why = f"{size} bytes: the disk was slower than the network"
        note = note_text("log lost", {"count": count, "detail": why})
        rows.add(self._now(), None, NOTE, note, 0, False)
        self._held += len(note)

    def _attempt(self, what: Callable[..., object], *arguments: Any) -> None:
        """Do it; while the disk is full or cannot be written, wait, and let the buffer fill meanwhile."""
        while True:
            try:
                what(*arguments)
                if self.trouble is not None and not self.has_failed:
                    logger.warning("%s: writing again", self.writer.folder)
                    self.trouble = None
                return
            except (LogError, OSError) as error:
                if self.trouble is None:
                    logger.error("%s", error)
                self.trouble = error if isinstance(error, LogError) else LogError(str(error))
                if self.has_failed or what == self.writer.close:
                    return
                what, arguments = self.writer.flush, ()  # the row itself has been taken in
                with self._lock:
                    if self._stopping:
                        return
                    self._work.wait(AGAIN)


class FaceTee:
    """What one connection calls: a `transport.Tee`, and a place for notes."""

    def __init__(self, recorder: Recorder, face: Face, own: int) -> None:
        self.face = face
        self._recorder = recorder
        self.own = own
        """The direction in which we send: 0 if we opened it, else 1."""

    def received(self, data: bytes | memoryview, wire_size: int, compressed: bool) -> None:
        self._recorder._put(self.face, 1 - self.own, data, wire_size, compressed)

    def sent(self, data: bytes, wire_size: int, compressed: bool) -> None:
        self._recorder._put(self.face, self.own, data, wire_size, compressed)

    def note(self, kind: str, **values: Any) -> None:
        """A row of `events`: a drop, a request forwarded as another ... Values are columns of that table."""
        note = note_text(kind, values)
        self._recorder._put(self.face, NOTE, note, 0, False)

    def close(self, why: str = "") -> None:
        """The connection is gone; if it said no CLOSE, tell why."""
        if why:
            self.note("disconnected", detail=why)
        self._recorder._gone(self.face)
