# SPDX-License-Identifier: Apache-2.0
"""Two ends of a connection in one test, with a clock that the test sets."""

from collections.abc import Iterator

from zenlake.core.enums import WhatAmI
from zenlake.transport.handshake import Acceptor, Opener
from zenlake.transport.rx import Sink
from zenlake.transport.settings import Settings
from zenlake.transport.unicast import Closed, Opened, Unicast
from zenlake.wire.network import Push
from zenlake.wire.zenoh_body import Put

OPENER = bytes(range(1, 17))
ACCEPTOR = bytes(range(17, 33))
SECRET = b"a secret of the acceptor"
LINK = b"tcp/one tcp/two"


def push(key: str, payload: bytes, **values: object) -> Push:
    return Push(key=key, body=Put(payload=payload), **values)


class Collector(Sink):
    """A sink that stores (key, payload, lane) of every PUSH, in order."""

    def __init__(self) -> None:
        self.got: list[tuple[str, bytes]] = []
        self.lanes: list[tuple[int, bool]] = []

    def on_message(self, kind: int, reader: object) -> int:
        message = reader.record(kind)
        if isinstance(message, Push):
            self.got.append((message.key.suffix.text, message.put.payload.value))
            self.lanes.append((reader.frame.priority, bool(reader.frame.reliable)))
        return 0


class Pair:
    """An opener and an acceptor. `pump` passes bytes between them until both have none."""

    def __init__(self, stream: bool = True, acceptor: dict[str, object] | None = None, **settings: object) -> None:
        self.now = 100.0
        theirs = settings if acceptor is None else acceptor
        self.stream = stream
        self.heard_by_opener, self.heard = Collector(), Collector()
        self.opener = Unicast(
            Opener(Settings(**{"zid": OPENER, **settings}), now=self.now),
            stream=stream,
            sink=self.heard_by_opener,
        )
        accepting = Settings(**{"zid": ACCEPTOR, "whatami": WhatAmI.ROUTER, **theirs})
        self.acceptor = Unicast(
            Acceptor(accepting, secret=SECRET, context=LINK, now=self.now), stream=stream, sink=self.heard
        )

    def open(self) -> "Pair":
        self.opener.start(self.now)
        self.pump()
        assert [type(event) for event in (*self.opener.events(), *self.acceptor.events())] == [Opened, Opened]
        return self

    def pump(self, piece: int = 1 << 30) -> None:
        """Pass at most `piece` bytes at once (on a stream)."""
        while any([self.carry(self.opener, self.acceptor, piece), self.carry(self.acceptor, self.opener, piece)]):
            pass

    def carry(self, one: Unicast, other: Unicast, piece: int = 1 << 30) -> bool:
        moved = False
        for data in self.batches(one):
            moved = True
            for at in range(0, len(data), piece if self.stream else len(data)):
                other.receive(data[at : at + piece if self.stream else len(data)], self.now)
        return moved

    def batches(self, one: Unicast) -> Iterator[bytes]:
        """Return the pending batches of this end."""
        while (view := one.data(self.now)) is not None:
            data = bytes(view)
            one.mark_sent(len(data), self.now)
            yield data

    def ends(self) -> list[Closed]:
        """Return the end of the session at the opener, then at the acceptor."""
        return [event for end in (self.opener, self.acceptor) for event in end.events() if isinstance(event, Closed)]


def framed(batch: bytes) -> bytes:
    return len(batch).to_bytes(2, "little") + batch
