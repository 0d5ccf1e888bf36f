# SPDX-License-Identifier: Apache-2.0
"""Recording of live connections into a log, common to the tap and the recording router."""

import json
from collections.abc import Callable

from zenlake.link.base import BaseLink
from zenlake.log.recorder import FaceTee, Recorder
from zenlake.runtime.connection import Connection
from zenlake.transport.unicast import Closed

__all__ = ["ConnectionRecorder"]


MAX_STORED_INITS = 256
"""Maximum number of stored datagram INITs without an OPEN. They cost the sender nothing, and their source may be forged."""
MAX_INIT_SIZE = 1024


class DeferredTee:
    """Tee of a datagram session whose INIT was answered with a cookie and is no longer stored.

    The recording begins with OPEN. The negotiated parameters are known when the first message is sent. They are written before
    the received messages.
    """

    def __init__(self, begin: Callable[[], FaceTee]) -> None:
        self._begin = begin
        self._tee: FaceTee | None = None
        self._early_batches: list[tuple[bytes, int, bool]] = []

    def on_receive(self, data: bytes | memoryview, wire_size: int, compressed: bool) -> None:
        if self._tee is None and not self._early_batches:
            self._early_batches.append((bytes(data), wire_size, compressed))
        else:
            self.begin_tee().on_receive(data, wire_size, compressed)

    def on_send(self, data: bytes, wire_size: int, compressed: bool) -> None:
        self.begin_tee().on_send(data, wire_size, compressed)

    def begin_tee(self) -> FaceTee:
        if self._tee is None:
            self._tee = self._begin()
            for init in self._early_batches:
                self._tee.on_receive(*init)
        return self._tee


class ConnectionRecorder:
    """Recorder of connections. Threading: called on the event loop thread, like a runtime's node."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._tees: dict[Connection, FaceTee | DeferredTee] = {}
        self._stateless_inits: dict[tuple[str, str], tuple[bytes, list[bytes]]] = {}
        """For each sender of datagrams: its last INIT before the session, and the reply."""

    def on_stateless_reply(self, link: BaseLink, init: bytes, replies: list[bytes]) -> None:
        """Store an INIT and its reply. They are recorded when the session starts."""
        if len(init) <= MAX_INIT_SIZE:
            self._stateless_inits.pop((link.local, link.remote), None)
            self._stateless_inits[link.local, link.remote] = init, replies
            if len(self._stateless_inits) > MAX_STORED_INITS:
                del self._stateless_inits[next(iter(self._stateless_inits))]

    def on_start(self, face: Connection) -> None:
        """Record a connection from its first byte, including the handshake."""
        opener = face.transport.is_opener
        protocol, _, other = face.link.remote.partition("/")
        own = face.link.local.partition("/")[2]
        client, server = (own, other) if opener else (other, own)
        tee: FaceTee | DeferredTee
        inits = self._stateless_inits.pop((face.link.local, face.link.remote), None)
        if opener or face.link.stream or inits is not None:
            tee = self.recorder.face(protocol, client, server, opener)
            if inits is not None:
                init, replies = inits
                tee.on_receive(init, len(init), False)
                for message in replies:
                    tee.on_send(message, len(message), False)
        else:
            session = face.transport.session
            tee = DeferredTee(lambda: self.recorder.face(protocol, client, server, opener, session))
        self._tees[face] = tee
        face.transport.record(tee)

    def _tee(self, face: Connection) -> FaceTee | None:
        tee = self._tees.get(face)
        return tee.begin_tee() if isinstance(tee, DeferredTee) else tee

    def on_close(self, face: Connection, event: Closed) -> None:
        """Record the end of a connection. A CLOSE is already in the log."""
        tee = self._tee(face)
        if tee is not None:
            del self._tees[face]
            tee.close("" if event.error is None else str(event.error))

    def on_forward(self, source: Connection, id: int, target: Connection, new: int) -> None:
        """Add a row of `events` to the session of the request: the id and session to which it was forwarded."""
        came, goes = self._tee(source), self._tee(target)
        if came is not None and goes is not None:
            hop = {
                "from_session": came.face.name, "from_id": id,
                "to_session": goes.face.name, "to_direction": goes.own, "to_id": new,
            }  # fmt: skip
            came.note("forwarded", sn=id, detail=json.dumps(hop))

    def on_drop(self, face: Connection, count: int) -> None:
        """Add a row of `events`: messages for this face that were dropped."""
        tee = self._tee(face)
        if tee is not None:
            tee.note("dropped", count=count, detail="the neighbour read too slowly")
