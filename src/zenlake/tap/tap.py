# SPDX-License-Identifier: Apache-2.0
"""The tap: a client that subscribes to some keys and records everything it is sent, as it came.

    with Tap("lake/log", ["fleet/**"], connect=["tcp/router:7447"]) as tap:
        tap.wait(3600)

It decodes nothing but the envelopes of batches: a message costs it what a copy costs. Besides samples it asks for liveliness
tokens. While it is not connected it misses what is published; when it is connected again, a row of `events` says for
how long that was.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from zenlake.errors import InvalidValue
from zenlake.keyexpr import KeyExpr
from zenlake.limits import merge_limits
from zenlake.link import Tls
from zenlake.log.record import Recorder
from zenlake.log.retain import Retention
from zenlake.log.write import Writer
from zenlake.runtime.face import Face, Node
from zenlake.runtime.runtime import Backoff, Runtime, new_zid
from zenlake.tap.recording import Recording
from zenlake.transport.config import Settings
from zenlake.transport.unicast import Closed
from zenlake.values import WhatAmI
from zenlake.wire.declare import Declare, DeclareEntity, Interest

__all__ = ["Stats", "Tap"]

CONTROL, BLOCK = 0, 1  # the lane of declarations, and how they behave when it is full
CONTROL_QOS = 0x08
SUBSCRIBER = 0x02
CURRENT_FUTURE = 3
TOKENS_OF_A_KEY = 0x08 | 0x10

BLOCK_SIZE = 8 << 20  # what is done once a block is a tenth of the work where blocks of 4 MiB are full
CACHED = 64 << 20  # bytes, besides the segment that is written, for those who read along


@dataclass(frozen=True, slots=True)
class Stats:
    """What a tap has done since it began."""

    connected: bool
    messages: int
    batches: int
    bytes: int
    missing: int
    """Frames that the router numbered and that never came: each may have held many samples."""
    lost: int
    """Batches that came and found no room because the disk was too slow."""
    reconnects: int
    waiting: int
    """Bytes that are not on the disk yet."""
    trouble: str
    """Why nothing is written now; empty if all is well."""


class Tap(Node):
    """One client, one log writer. The writer's `name` is the tap's for ever: give each tap its own."""

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
            raise InvalidValue("a tap needs a key expression to subscribe to, like '**'")
        bounds = merge_limits(limits or {})
        self._keys = [KeyExpr(key) for key in keys]
        self._liveliness = liveliness
        self._face: Face | None = None
        self._past = [0, 0]  # messages received and frames missed on connections that are gone
        self._gone_since: float | None = None
        self._reconnects = 0
        self._ended = threading.Event()
        writer = Writer(
            log, name, sync=sync, block_size=BLOCK_SIZE, metadata_only=metadata_only, cached=cached, direct=direct
        )  # fmt: skip
        self.recorder = Recorder(writer, when_full=when_full, retention=retention)
        self._recording = Recording(self.recorder)
        self._runtime: Runtime | None = None
        try:
            self._runtime = Runtime(Settings(new_zid(), WhatAmI.CLIENT, **(transport or {})), self, tls, limits=bounds)
            self._runtime.connect_first(connect, timeout, backoff or Backoff())
        except BaseException:
            self.close()
            raise

    # From any thread

    def stats(self) -> Stats:
        face, recorder = self._face, self.recorder
        messages, missing = self._past
        if face is not None:
            messages += face.transport.inbox.messages
            missing += face.transport.inbox.missing
        return Stats(
            face is not None, messages, recorder.batches, recorder.bytes, missing, recorder.lost, self._reconnects,
            recorder.waiting, str(recorder.trouble or ""),
        )  # fmt: skip

    def wait(self, timeout: float | None = None) -> bool:
        """Until somebody closes the tap: True; or for that many seconds: False."""
        return self._ended.wait(timeout)

    def close(self) -> None:
        """Leave the network, write what is left, seal the log."""
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

    # In the loop's thread

    def begins(self, face: Face) -> None:
        self._recording.begins(face)

    def opened(self, face: Face) -> None:
        self._face = face
        if self._gone_since is not None:
            away = monotonic() - self._gone_since
            self._gone_since = None
            self._reconnects += 1
            self.recorder.note("reconnected", detail=f"nothing was heard for {away:.3f} s")
        for number, key in enumerate(self._keys, 1):
            subscriber = DeclareEntity(kind=SUBSCRIBER, id=number, key=str(key))
            face.send(Declare(qos=CONTROL_QOS, body=subscriber), CONTROL, True, BLOCK)
            if self._liveliness:
                tokens = Interest(
                    mode=CURRENT_FUTURE, id=number, options=TOKENS_OF_A_KEY, key=str(key), qos=CONTROL_QOS
                )
                face.send(tokens, CONTROL, True, BLOCK)

    def closed(self, face: Face, event: Closed) -> None:
        inbox = face.transport.inbox
        self._past = [self._past[0] + inbox.messages, self._past[1] + inbox.missing]
        self._face = None
        self._gone_since = monotonic()
        self._recording.ended(face, event)

    def failed(self, face: Face, event: Closed) -> None:
        self._recording.ended(face, event)
