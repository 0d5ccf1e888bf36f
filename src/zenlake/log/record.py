# SPDX-License-Identifier: Apache-2.0
"""What a live node calls: it must never wait for a disk.

    recorder = Recorder(Writer("lake/log", "router-1"))
    tee = recorder.face("tcp", client="10.0.0.7:40112", server="10.0.0.1:7447", opener=False)
    unicast.record(tee)  # every batch from here on, both ways
    tee.note("forwarded", count=17, detail="...")
    tee.close("the link broke")

Batches are put into a bounded buffer and written by a thread of the recorder's own. When the buffer is full, "lose" counts
what finds no room and tells it in a row; "block" lets the caller wait, and the network feel it.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

from zenlake.errors import InvalidValue, LogError, LogFull
from zenlake.log.layout import NOTE
from zenlake.log.retain import Retention, retain
from zenlake.log.state import Face
from zenlake.log.write import Writer, note_text
from zenlake.session.session import Session

__all__ = ["FaceTee", "Recorder"]

logger = logging.getLogger("zenlake.log")

AGAIN = 1.0  # seconds until a full disk is tried again

Row = tuple[int, Face | None, int, Any, int, bool]  # time, face, direction, batch or note, size, compressed
GONE = -2  # a direction that says: this face will say no more


class Recorder:
    """Puts a thread and a bounded buffer before a writer, which it owns from then on.

    At most `buffer` bytes wait. What waits is made a block every `linger` seconds, or when there is a block's worth of it.
    Old segments are removed as `retention` says, whenever one is sealed.
    """

    def __init__(
        self,
        writer: Writer,
        *,
        buffer: int = 64 << 20,
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
        self._retention = retention
        self._retained = writer.segment
        self._buffer = buffer
        self._linger = linger
        self._blocks = when_full == "block"
        self._now = now
        self._rows: list[Row] = []
        self._held = 0
        self._untold = [0, 0]  # batches and bytes lost of which no row tells yet
        self._stopping = False
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._work = threading.Condition(self._lock)
        self._thread = threading.Thread(target=self._run, name="zenlake-log", daemon=True)
        self._thread.start()

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
        self._put(None, NOTE, note, 0, False, len(note))

    def flush(self, timeout: float | None = None) -> tuple[int, int]:
        """Wait until everything that was recorded so far is in a block (and synced, if the policy says so)."""
        done = threading.Event()
        with self._lock:
            self._rows.append((0, None, GONE, done, 0, False))
            self._work.notify()
        if not done.wait(timeout):
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

    def _put(self, face: Face | None, direction: int, data: Any, wire_size: int, compressed: bool, size: int) -> None:
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
            self._rows.append((now, face, direction, data, wire_size, compressed))
            self._held += size
            if self._held >= self.writer.block_size:
                self._work.notify()

    def _lose(self, size: int) -> None:
        self.lost += 1
        self._untold[0] += 1
        self._untold[1] += size

    # The thread

    def _run(self) -> None:
        while True:
            with self._lock:
                if not (self._stopping or self._asked() or self._held >= self.writer.block_size):
                    self._work.wait(self._linger)
                rows, self._rows = self._rows, []
                untold, self._untold = self._untold, [0, 0]
                stopping = self._stopping
            self._write(rows, untold)
            with self._lock:
                self._held -= sum(_size(row) for row in rows)
                self._room.notify_all()
            if stopping and not self._rows:
                break
        self._attempt(self.writer.close)

    def _asked(self) -> bool:
        """Whether somebody waits for a flush, or a face has gone."""
        return bool(self._rows) and self._rows[-1][2] == GONE

    def _write(self, rows: list[Row], untold: list[int]) -> None:
        writer = self.writer
        waiting: list[threading.Event] = []
        for received, face, direction, data, wire_size, compressed in rows:
            if direction == GONE:
                if face is not None:
                    writer.forget(face)
                else:
                    waiting.append(data)
            elif direction == NOTE:
                self._attempt(writer.append_note, data, face, received)
            elif face is not None:
                self.batches += 1
                self.bytes += len(data)
                self._attempt(writer.append, face, direction, data, wire_size, compressed, received)
        if untold[0]:
            why = f"{untold[1]} bytes: the disk was slower than the network"
            self._attempt(writer.append_note, note_text("log lost", {"count": untold[0], "detail": why}))
        self._attempt(writer.flush)
        if self._retention is not None and writer.segment != self._retained:
            self._retained = writer.segment
            self._attempt(retain, writer, self._retention)
        if self.trouble is None:
            for event in waiting:
                event.set()

    def _attempt(self, what: Callable[..., object], *arguments: Any) -> None:
        """Do it; while the disk is full, wait, and let the buffer fill meanwhile."""
        while True:
            try:
                what(*arguments)
                if self.trouble is not None:
                    logger.warning("%s: writing again", self.writer.folder)
                self.trouble = None
                return
            except LogFull as error:
                if self.trouble is None:
                    logger.error("%s", error)
                self.trouble = error
                what, arguments = self.writer.flush, ()  # the row itself has been taken in
                with self._lock:
                    if self._stopping:
                        return
                    self._work.wait(AGAIN)
            except (LogError, OSError) as error:
                if self.trouble is None:
                    logger.error("%s", error)
                self.trouble = error if isinstance(error, LogError) else LogError(str(error))
                return


class FaceTee:
    """What one connection calls: a `transport.Tee`, and a place for notes."""

    def __init__(self, recorder: Recorder, face: Face, own: int) -> None:
        self.face = face
        self._recorder = recorder
        self.own = own
        """The direction in which we send: 0 if we opened it, else 1."""

    def received(self, data: bytes, wire_size: int, compressed: bool) -> None:
        self._recorder._put(self.face, 1 - self.own, data, wire_size, compressed, len(data))

    def sent(self, data: bytes, wire_size: int, compressed: bool) -> None:
        self._recorder._put(self.face, self.own, data, wire_size, compressed, len(data))

    def note(self, kind: str, **values: Any) -> None:
        """A row of `events`: a drop, a request forwarded as another ... Values are columns of that table."""
        note = note_text(kind, values)
        self._recorder._put(self.face, NOTE, note, 0, False, len(note))

    def close(self, why: str = "") -> None:
        """The connection is gone; if it said no CLOSE, tell why."""
        if why:
            self.note("disconnected", detail=why)
        self._recorder._put(self.face, GONE, None, 0, False, 0)


def _size(row: Row) -> int:
    return 0 if row[2] == GONE else len(row[3])
