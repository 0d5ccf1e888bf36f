# SPDX-License-Identifier: Apache-2.0
"""Tap: a client that subscribes to key expressions and records all received batches unchanged.

    with Tap("lake/log", ["fleet/**"], connect=["tcp/router:7447"]) as tap:
        tap.wait(3600)

By default, a tap also records liveliness tokens. It tracks the messages of its session but decodes no payload. The recorded bytes
are a copy of the received ones. Publications during a disconnection are not recorded. After the reconnection, a row of
`events` has the duration of the disconnection.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from zenlake.core.enums import WhatAmI
from zenlake.core.keyexpr import KeyExpr
from zenlake.core.peer_limits import merge_limits
from zenlake.errors import InvalidValue
from zenlake.link import Tls
from zenlake.log.recorder import Recorder
from zenlake.log.retention import Retention
from zenlake.log.writer import Writer
from zenlake.runtime.connection import Connection, ConnectionOwner
from zenlake.runtime.connection_manager import Backoff, ConnectionManager, new_zid
from zenlake.tap.connection_recorder import ConnectionRecorder
from zenlake.transport.settings import Settings
from zenlake.transport.unicast import Closed
from zenlake.wire import message_ids
from zenlake.wire.declare import Declare, DeclareEntity, Interest

__all__ = ["Stats", "Tap"]

CONTROL, BLOCK = 0, 1  # the lane of declarations, and their congestion control
SUBSCRIBER = 0x02
CURRENT_FUTURE = 3
TOKENS_OF_A_KEY = 0x08 | 0x10

BLOCK_SIZE = (
    8 << 20
)  # larger than the default of 4 MiB, because the constant cost per block is a tenth of the work at that size
CACHED = 64 << 20  # bytes of sealed segments in the page cache, for concurrent readers


@dataclass(frozen=True, slots=True)
class Stats:
    """Counters of a tap since its start."""

    connected: bool
    messages: int
    batches: int
    bytes: int
    missing: int
    """Frames that are missing by their sequence numbers. Each may have contained many samples."""
    lost: int
    """Batches that were dropped because the disk was too slow."""
    reconnects: int
    waiting: int
    """Bytes that are not yet written to the disk."""
    trouble: str
    """The current write error, or an empty string."""
    failed: bool
    """Whether recording has ended with an error."""
    clock_steps: int
    """Number of times that the clock was set back."""
    clock_warning: str
    """The clock step of the last minute, or an empty string."""


class Tap(ConnectionOwner):
    """A client with one log writer.

    Args:
        log: Folder of the wire log.
        keys: Key expressions to subscribe to.
        connect: Endpoints of routers.
        name: Writer name in the log. Unique per tap; do not change it later.
        sync: When to sync to disk: every block, every sealed segment, or an interval in seconds.
        retention: Removal of old segments by age or size.
        when_full: Behaviour while the disk is too slow: drop batches, or apply backpressure to the router.
        metadata_only: Key expressions whose payloads are redacted.
        cached: Bytes of sealed segments to keep in the page cache for concurrent readers.
        direct: Write full blocks with O_DIRECT.
        liveliness: Record liveliness tokens too.
        transport: Settings of the transport.
        tls: TLS configuration.
        timeout: Seconds for the first connection.
        backoff: Delays between connection attempts.
        limits: Bytes by resource that a router can make the tap use. Default: `DEFAULT_LIMITS`.

    Raises:
        InvalidValue: `keys` is empty.
    """

    def __init__(
        self,
        log: str | Path,
        keys: Sequence[str],
        *,
        connect: Sequence[str],
        name: str = "tap",
        sync: Literal["block", "sealed"] | float = "block",
        retention: Retention | None = None,
        when_full: Literal["lose", "block"] = "lose",
        metadata_only: Sequence[str] = (),
        cached: int | None = CACHED,
        direct: bool = True,
        liveliness: bool = True,
        transport: dict[str, Any] | None = None,
        tls: Tls | None = None,
        timeout: float = 10.0,
        backoff: Backoff | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> None:
        if not keys:
            raise InvalidValue("keys is empty; expected at least one key expression, such as '**'")
        bounds = merge_limits(limits or {})
        self._keys = [KeyExpr(key) for key in keys]
        self._liveliness = liveliness
        self._face: Connection | None = None
        self._past = [0, 0]  # messages received and frames missed on earlier connections
        self._gone_since: float | None = None
        self._reconnects = 0
        self._ended = threading.Event()
        writer = Writer(
            log, name, sync=sync, block_size=BLOCK_SIZE, metadata_only=metadata_only, cached=cached, direct=direct
        )  # fmt: skip
        self.recorder = Recorder(writer, when_full=when_full, retention=retention)
        self._recording = ConnectionRecorder(self.recorder)
        self._runtime: ConnectionManager | None = None
        try:
            self._runtime = ConnectionManager(
                Settings(new_zid(), WhatAmI.CLIENT, **(transport or {})), self, tls, limits=bounds
            )
            self._runtime.connect_first(connect, timeout, backoff or Backoff())
        except BaseException:
            self.close()
            raise

    # From any thread

    def stats(self) -> Stats:
        face, recorder = self._face, self.recorder
        messages, missing = self._past
        if face is not None:
            messages += face.transport.rx.messages
            missing += face.transport.rx.missing
        return Stats(
            face is not None, messages, recorder.batches, recorder.bytes, missing, recorder.lost, self._reconnects,
            recorder.waiting_bytes, str(recorder.trouble or ""), recorder.has_failed, recorder.clock_steps,
            recorder.clock_warning,
        )  # fmt: skip

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the tap is closed (True) or the timeout in seconds is over (False)."""
        return self._ended.wait(timeout)

    def close(self) -> None:
        """Disconnect, write the remaining batches and seal the log."""
        if self._ended.is_set():
            return
        self._ended.set()
        if self._runtime is not None:
            self._runtime.close()
        self.recorder.close()

    def __enter__(self) -> "Tap":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # On the event loop thread

    def on_start(self, face: Connection) -> None:
        self._recording.on_start(face)

    def on_open(self, face: Connection) -> None:
        self._face = face
        if self._gone_since is not None:
            away = monotonic() - self._gone_since
            self._gone_since = None
            self._reconnects += 1
            self.recorder.note("reconnected", detail=f"disconnected for {away:.3f} s")
        for number, key in enumerate(self._keys, 1):
            subscriber = DeclareEntity(kind=SUBSCRIBER, id=number, key=str(key))
            face.send(Declare(qos=message_ids.QOS_CONTROL, body=subscriber), CONTROL, True, BLOCK)
            if self._liveliness:
                tokens = Interest(
                    mode=CURRENT_FUTURE, id=number, options=TOKENS_OF_A_KEY, key=str(key), qos=message_ids.QOS_CONTROL
                )
                face.send(tokens, CONTROL, True, BLOCK)

    def on_close(self, face: Connection, event: Closed) -> None:
        rx = face.transport.rx
        self._past = [self._past[0] + rx.messages, self._past[1] + rx.missing]
        self._face = None
        self._gone_since = face.transport.silent_since(monotonic())
        self._recording.on_close(face, event)

    def on_open_failed(self, face: Connection, event: Closed) -> None:
        self._recording.on_close(face, event)
