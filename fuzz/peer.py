# SPDX-License-Identifier: Apache-2.0
# Any bytes of a peer after the handshake give a subscriber and an Arrow channel the same samples, whether they arrive whole or
# in pieces. The connection ends with a reason, or stays open. The log has no traceback.
"""From the bytes of a client through transport and network to samples and Arrow batches."""

from logging import getLogger
from random import Random
from typing import Any

from tests.network.mesh import CLIENT, ROUTER
from tests.network.probes import Line, Stage

from fuzz.network import CORPUS as MESSAGES
from zenlake.api.arrow_listener import ArrowListener
from zenlake.api.handlers import Handler
from zenlake.columns.live_samples import LiveSamples
from zenlake.transport.handshake import Opener
from zenlake.transport.settings import Settings
from zenlake.transport.unicast import Unicast
from zenlake.wire.declare import Declare, DeclareKeyExpr
from zenlake.wire.network import Push
from zenlake.wire.zenoh_body import Del, Put

log = getLogger("zenlake.node")
NODE, PEER = b"\x01" * 16, b"\x02" * 16
Row = tuple[str, str, bytes]


def connect(stage: Stage) -> tuple[Line, Unicast]:
    """Open a session of a client with the node of a stage."""
    line = stage.accept()
    opener = Unicast(Opener(Settings(PEER, CLIENT), now=stage.mesh.now), stream=True)
    opener.start(stage.mesh.now)
    for _ in range(4):
        while view := opener.data(stage.mesh.now):
            data = bytes(view)
            opener.mark_sent(len(data), stage.mesh.now)
            line.transport.receive(data, stage.mesh.now)
        line.settle()
        for batch in line.said:
            opener.receive(len(batch).to_bytes(2, "little") + batch, stage.mesh.now)
        line.said.clear()
    assert opener.is_open
    return line, opener


def conversation(random: Random) -> bytes:
    """Return the bytes of some messages of a client."""
    stage = Stage(ROUTER, NODE)
    _, opener = connect(stage)
    messages: list[Any] = [Declare(body=DeclareKeyExpr(id=1, key="a/b"))]
    for number in range(random.randrange(1, 20)):
        key: Any = random.choice(("a/b", "c", (1, True, None), (1, True, "/d")))
        body = random.choice((Put(payload=bytes(number)), Put(payload=bytes(random.choice((0, 300)))), Del()))
        messages.append(Push(key=key, body=body))
    data = b""
    for message in [*(message.encode() for message in messages), *random.sample(MESSAGES, 2)]:
        opener.send(message, random.choice((5, 5, 5, 0, 7)), random.random() < 0.8)
        if random.random() < 0.3:
            while view := opener.data(stage.mesh.now):
                data += bytes(view)
                opener.mark_sent(len(view), stage.mesh.now)
    while view := opener.data(stage.mesh.now):
        data += bytes(view)
        opener.mark_sent(len(view), stage.mesh.now)
    return data


CORPUS = [conversation(Random(number)) for number in range(20)]


def receive(pieces: list[bytes], arrow: bool) -> tuple[list[Row], Any]:
    """Return the samples of a subscriber to everything, and the end of the connection."""
    stage = Stage(ROUTER, NODE)
    stage.node.on_error = lambda error: log.error("a callback failed", exc_info=error)  # as `LiveNode`
    rows: list[Row] = []
    channel: Handler[Any] = Handler(1 << 20)
    listener = ArrowListener(LiveSamples(["key", "kind", "payload"], rows=4), channel, 60.0)

    def deliver(key: bytes, reader: Any) -> None:
        push = reader.push
        rows.append(
            (
                key.decode(),
                "put" if push.is_put else "del",
                bytes(push.put.payload.value or b"") if push.is_put else b"",
            )
        )

    stage.app.declare_subscriber(b"**", listener if arrow else deliver)
    line, _ = connect(stage)
    for piece in pieces:
        line.transport.receive(piece, stage.mesh.now)
        line.settle()
    stage.mesh.pass_time(1)
    if arrow:
        listener.close()
        for batch in channel:
            batch.validate(full=True)
            rows += [(row["key"], row["kind"], row["payload"] or b"") for row in batch.to_pylist()]
    return rows, line.end and line.end.reason


def check(data: bytes) -> None:
    plain = receive([data], arrow=False)
    assert receive([data], arrow=True) == plain
    assert receive([data[at : at + 7] for at in range(0, len(data), 7)], arrow=True) == plain
