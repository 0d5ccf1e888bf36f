# SPDX-License-Identifier: Apache-2.0
"""A hostile client: raw handshakes in any role, and raw bytes, over every stream link.

The client uses the encoders of `zenlake.wire` and no other part of the package. It obeys no limit and no timer.
"""

import base64
import itertools
import os
import socket
import ssl
from collections.abc import Iterable
from typing import Any

from zenlake.errors import CloseReason
from zenlake.wire.batch_reader import messages
from zenlake.wire.handshake import Close, Init, Open
from zenlake.wire.message_base import Message
from zenlake.wire.transport import Frame

PATIENCE = 10.0
ROUTER, PEER, CLIENT = 0, 1, 2
DATA, CONTROL = 5, 0
MAX_BATCH = 60_000
LEASE = 600_000  # ms: no attack needs a keep-alive


def connect(where: str, timeout: float = PATIENCE) -> socket.socket:
    """Connect to the address of an endpoint. No byte is sent."""
    scheme, _, address = where.partition("/")
    if scheme == "unixsock-stream":
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(timeout)
        sock.connect(address)
        return sock
    host, _, port = address.partition("#")[0].rpartition(":")
    sock = socket.create_connection((host.strip("[]"), int(port)), timeout)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def frame_batch(batch: bytes) -> bytes:
    """Return a batch with its length prefix."""
    return len(batch).to_bytes(2, "little") + batch


def encode(message: Message | bytes) -> bytes:
    """Return the bytes of a message."""
    return message if isinstance(message, bytes) else bytes(message.encode())


class Raw:
    """A connection without a protocol stack: the caller decides about every byte.

    Args:
        where: Endpoint of the node, with the scheme tcp, tls, ws, wss or unixsock-stream.
        timeout: Seconds that one send or receive may block.
    """

    def __init__(self, where: str, timeout: float = PATIENCE) -> None:
        self.socket = connect(where, timeout)
        scheme = where.partition("/")[0]
        self.websocket = scheme in ("ws", "wss")
        self.zid = os.urandom(15) + b"\x01"
        self.next_sn: dict[tuple[int, bool], int] = {}
        if scheme in ("tls", "wss"):
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            self.socket = context.wrap_socket(self.socket)
        if self.websocket:
            self.upgrade()

    def upgrade(self) -> None:
        """Ask for a WebSocket and read the response."""
        key = base64.b64encode(os.urandom(16)).decode()
        head = f"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
        self.socket.sendall(f"{head}Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: zenoh\r\n\r\n".encode())
        response = b""
        while not response.endswith(b"\r\n\r\n"):
            piece = self.socket.recv(1)
            if not piece:
                raise ConnectionError("connection closed during the WebSocket handshake")
            response += piece

    def send_websocket(self, opcode: int, data: bytes, fin: bool = True) -> None:
        """Send one WebSocket frame, with a mask of zeros."""
        self.socket.sendall(encode_websocket(opcode, data, fin))

    def send(self, batch: bytes) -> None:
        """Send one batch."""
        if self.websocket:
            self.send_websocket(2, batch)
        else:
            self.socket.sendall(frame_batch(batch))

    def receive_batch(self) -> bytes:
        """Return the next batch, or no bytes if the connection ended."""
        try:
            if not self.websocket:
                head = self._exactly(2)
                return self._exactly(int.from_bytes(head, "little")) if head else b""
            while True:
                head = self._exactly(2)
                size = head[1] & 0x7F if head else 0
                if size >= 126:
                    size = int.from_bytes(self._exactly(2 if size == 126 else 8), "big")
                data = self._exactly(size)
                if not head or head[0] & 0x0F in (0, 2):
                    return data
        except (ConnectionResetError, BrokenPipeError):
            return b""

    def receive(self) -> Any:
        """Return the first message of the next batch, or None if the connection ended."""
        batch = self.receive_batch()
        return messages(batch)[0] if batch else None

    def receive_all(self) -> list[Any]:
        """Return the messages of the next batch.

        Raises:
            ConnectionError: The node closed the connection.
        """
        batch = self.receive_batch()
        if not batch:
            raise ConnectionError("connection closed by the node")
        return messages(batch)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                return b""
            data += piece
        return bytes(data)

    def init(self, **values: Any) -> Any:
        """Send InitSyn and return the reply."""
        self.send(Init(**{"whatami": CLIENT, "zid": self.zid, "qos": True, "patch": 1, **values}).encode())
        return self.receive()

    def open(self, lease: int = LEASE, **values: Any) -> "Raw":
        """Open a session.

        Raises:
            ConnectionError: The node refuses.
        """
        ack = self.init(**values)
        if not isinstance(ack, Init):
            raise ConnectionError(f"INIT refused: {ack}")
        self.peer_zid = bytes(ack.zid.value)
        self.send(Open(lease=lease, initial_sn=0, cookie=ack.cookie.value).encode())
        reply = self.receive()
        if not isinstance(reply, Open):
            raise ConnectionError(f"OPEN refused: {reply}")
        return self

    def frame(self, *content: Message | bytes, priority: int = DATA, reliable: bool = True) -> bytes:
        """Return a batch with one FRAME that has the next sequence number of its lane."""
        sn = self.next_sn.get((priority, reliable), 0)
        self.next_sn[priority, reliable] = (sn + 1) & 0xFFFFFFF
        head = Frame(sn=sn, priority=priority, reliable=reliable).encode()
        return bytes(head) + b"".join(map(encode, content))

    def say(self, *content: Message | bytes, priority: int = DATA, reliable: bool = True) -> None:
        """Send network messages in one frame."""
        self.send(self.frame(*content, priority=priority, reliable=reliable))

    def hears_close(self, reason: CloseReason) -> bool:
        """Return whether the next message is this CLOSE and the connection then ends."""
        return bool(self.receive() == Close(reason=reason) and self.receive() is None)

    def close(self) -> None:
        """Close the socket without a CLOSE message."""
        self.socket.close()

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def encode_websocket(opcode: int, data: bytes, fin: bool = True) -> bytes:
    """Return one WebSocket frame of a client, with a mask of zeros."""
    size = len(data)
    head = bytes([(0x80 if fin else 0) | opcode])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 1 << 16:
        head += b"\xfe" + size.to_bytes(2, "big")
    else:
        head += b"\xff" + size.to_bytes(8, "big")
    return head + bytes(4) + data


def pack(content: Iterable[Message | bytes], size: int = MAX_BATCH) -> Iterable[bytes]:
    """Join encoded messages into payloads of at most about `size` bytes."""
    waiting: list[bytes] = []
    total = 0
    for message in itertools.chain(map(encode, content), (b"",)):
        if waiting and (not message or total + len(message) > size):
            yield b"".join(waiting)
            waiting, total = [], 0
        waiting.append(message)
        total += len(message)
