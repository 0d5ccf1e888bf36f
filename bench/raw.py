# SPDX-License-Identifier: Apache-2.0
"""Bare sockets with the handshake of Zenoh, which send to a peer or drain it at its maximum rate."""

import socket
import threading

from zenlake.wire.batch_reader import messages
from zenlake.wire.handshake import Init, Open
from zenlake.wire.transport import KeepAlive


def send(link: socket.socket, batch: bytes) -> None:
    link.sendall(len(batch).to_bytes(2, "little") + batch)


def exactly(link: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = link.recv(size - len(data))
        if not piece:
            raise ConnectionError("the peer closed the connection")
        data += piece
    return bytes(data)


def receive(link: socket.socket) -> bytes:
    return exactly(link, int.from_bytes(exactly(link, 2), "little"))


def opened(port: int, zid: bytes = b"\x0bench\x01") -> socket.socket:
    """Open a session with the node that listens on this port, as a client."""
    link = socket.create_connection(("127.0.0.1", port), timeout=20)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    send(link, Init(zid=zid, qos=True, patch=1).encode())
    [ack] = messages(receive(link))
    send(link, Open(lease=60, seconds=True, initial_sn=0, cookie=ack.cookie.value).encode())
    receive(link)
    return link


def accepted(listener: socket.socket, zid: bytes = b"\x0brouter\x01") -> socket.socket:
    """Accept the next session, as a router."""
    link, _ = listener.accept()
    receive(link)
    ack = Init(ack=True, whatami=0, zid=zid, cookie=b"c", qos=True, patch=1, sized=True, batch_size=65535)
    send(link, ack.encode())
    receive(link)
    send(link, Open(ack=True, lease=60, seconds=True, initial_sn=0).encode())
    return link


def keep_alive(link: socket.socket, stop: threading.Event) -> None:
    while not stop.wait(1):
        send(link, KeepAlive().encode())
