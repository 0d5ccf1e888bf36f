# SPDX-License-Identifier: Apache-2.0
"""Live connections' traffic into a log: what the tap and the recording router share."""

import json

from zenlake.log.record import FaceTee, Recorder
from zenlake.runtime.face import Face
from zenlake.transport.unicast import Closed

__all__ = ["Recording"]


class Recording:
    """The faces that are being recorded. Called in the loop's thread, as a runtime's node is."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._tees: dict[Face, FaceTee] = {}

    def begins(self, face: Face) -> None:
        """From its first byte on, the handshake included."""
        opener = face.transport.is_opener
        protocol, _, other = face.link.remote.partition("/")
        own = face.link.local.partition("/")[2]
        client, server = (own, other) if opener else (other, own)
        tee = self.recorder.face(protocol, client, server, opener)
        self._tees[face] = tee
        face.transport.record(tee)

    def ended(self, face: Face, event: Closed) -> None:
        """If it ended with a CLOSE, that stands in the log already."""
        tee = self._tees.pop(face, None)
        if tee is not None:
            tee.close("" if event.error is None else str(event.error))

    def forwarded(self, source: Face, id: int, target: Face, new: int) -> None:
        """A row of `events` in the session that the request came from: under which id it went on, and in which session."""
        came, goes = self._tees.get(source), self._tees.get(target)
        if came is not None and goes is not None:
            hop = {
                "from_session": came.face.name, "from_id": id,
                "to_session": goes.face.name, "to_direction": goes.own, "to_id": new,
            }  # fmt: skip
            came.note("forwarded", sn=id, detail=json.dumps(hop))

    def dropped(self, face: Face, count: int) -> None:
        """A row of `events`: messages for this face that never left."""
        tee = self._tees.get(face)
        if tee is not None:
            tee.note("dropped", count=count, detail="the other end read too slowly")
