# SPDX-License-Identifier: Apache-2.0
# Any bytes of a WebSocket peer give the same messages, whether they arrive whole or byte by byte, or are refused. Refused bytes
# give no message that valid bytes before them would not give.
"""The WebSocket layer of a listener: the HTTP request and the frames after it."""

from random import Random

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from zenlake.errors import LinkError
from zenlake.link.websocket import MAX_MESSAGE, WebSocketLayer

REQUEST = b"".join((
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
))  # fmt: skip


def frames(random: Random) -> bytes:
    """Return some frames of a client, masked."""
    client = ClientProtocol(parse_uri("ws://a/"))
    found = b""
    for _ in range(random.randrange(1, 5)):
        opcode = random.choice(
            (Opcode.BINARY, Opcode.BINARY, Opcode.CONT, Opcode.PING, Opcode.PONG, Opcode.CLOSE, Opcode.TEXT)
        )
        data = b"\x03\xe8" if opcode is Opcode.CLOSE else bytes(random.randrange(100))
        final = opcode >= Opcode.CLOSE or random.random() < 0.8
        found += Frame(opcode, data, final).serialize(mask=True, extensions=client.extensions)
    return found


CORPUS = [b"", REQUEST[:40], *(REQUEST + frames(Random(number)) for number in range(20))]


def receive(pieces: list[bytes]) -> tuple[list[bytes], bool]:
    """Return the messages of a peer, and whether the layer refuses it."""
    layer = WebSocketLayer(ServerProtocol(max_size=MAX_MESSAGE))
    layer.start()
    found = []
    for piece in pieces:
        try:
            for message in layer.feed(piece):
                assert len(message) <= MAX_MESSAGE
                found.append(bytes(message))
        except LinkError:
            return found, True
        if layer.is_ended:
            return found, False
    return found, False


def check(data: bytes) -> None:
    whole, apart = receive([data]), receive([data[at : at + 1] for at in range(len(data))])
    if whole[1] or apart[1]:
        shorter, longer = sorted((whole[0], apart[0]), key=len)
        assert longer[: len(shorter)] == shorter
    else:
        assert whole == apart
