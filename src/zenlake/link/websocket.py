# SPDX-License-Identifier: Apache-2.0
"""`ws/host:port` and `wss/host:port`: each batch is one binary WebSocket message, without a length prefix.

The protocol is the sans-IO core of the `websockets` package. A text message is an error, because batches are binary.
"""

import logging
import socket
from collections.abc import Iterator

from websockets.client import ClientProtocol
from websockets.exceptions import WebSocketException
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from zenlake.core.endpoint import EndPoint
from zenlake.errors import LinkError
from zenlake.link.base import Address, BaseLink, LinkListener
from zenlake.link.stream import Layer, LayeredLink, StreamListener, dial
from zenlake.link.tcp import bind
from zenlake.link.tls import TlsLayer
from zenlake.link.tls_config import Tls

__all__ = ["WebSocketLayer", "connect", "listen"]

MAX_MESSAGE = 65535

# The package logs a line for each connection, and a traceback for some requests. The owner of a link reports its end.
QUIET = logging.getLogger("zenlake.link.websocket")
QUIET.setLevel(logging.CRITICAL)


class WebSocketLayer:
    """WebSocket layer: frames on one side, batches on the other. `below` is a TLS layer or None."""

    def __init__(self, protocol: ClientProtocol | ServerProtocol, below: Layer | None = None) -> None:
        self.is_ready = False
        self.is_ended = False
        self._protocol = protocol
        self._below = below
        self._partial = bytearray()  # Safety: a list would grow with each empty frame
        self._asked = False

    @property
    def common_name(self) -> str | None:
        return None if self._below is None else self._below.common_name

    def start(self) -> None:
        if self._below is not None:
            self._below.start()
        self._ask()

    def _ask(self) -> None:
        """Send the HTTP request as soon as the layer below is ready."""
        if self._asked or (self._below is not None and not self._below.is_ready):
            return
        self._asked = True
        if isinstance(self._protocol, ClientProtocol):
            self._protocol.send_request(self._protocol.connect())
            self._push()

    def feed(self, data: bytes) -> Iterator[bytes]:
        pieces = [data] if self._below is None else self._below.feed(data)
        for piece in pieces:
            self._ask()
            self._protocol.receive_data(piece)
            yield from self._read()
        self._ask()

    def _read(self) -> Iterator[bytes]:
        for event in self._protocol.events_received():
            if isinstance(event, Request):
                assert isinstance(self._protocol, ServerProtocol)
                if self._protocol.close_expected():
                    raise LinkError(
                        "ws", "unexpected bytes before the handshake ended; the client must wait for the HTTP response"
                    )
                self._protocol.send_response(self._protocol.accept(event))
            elif isinstance(event, Frame):
                if event.opcode is Opcode.TEXT:
                    raise LinkError("ws", "unexpected text message; batches are binary")
                if event.opcode in (Opcode.BINARY, Opcode.CONT):
                    self._partial += event.data
                    if event.fin:
                        batch = bytes(self._partial)
                        self._partial.clear()
                        self._tell()
                        yield batch
        self._tell()
        self._push()
        error = self._protocol.handshake_exc or self._protocol.parser_exc
        if error is not None:
            raise LinkError("ws", f"WebSocket handshake failed: {error}")

    def _tell(self) -> None:
        self.is_ready = self.is_ready or self._protocol.state is State.OPEN
        self.is_ended = self._protocol.state in (State.CLOSING, State.CLOSED)

    def write(self, data: memoryview) -> None:
        try:
            self._protocol.send_binary(bytes(data))
        except WebSocketException as error:
            raise LinkError("ws", str(error)) from None
        self._push()

    def _push(self) -> None:
        """Pass frames to the layer below, if it exists. Otherwise `to_send` returns them."""
        if self._below is not None and self._below.is_ready:
            data = b"".join(self._protocol.data_to_send())  # Performance: in one TLS record, which costs 22 bytes
            if data:
                self._below.write(memoryview(data))

    def to_send(self) -> bytes:
        if self._below is not None:
            return self._below.to_send()
        return b"".join(self._protocol.data_to_send())

    def end(self) -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.send_close()
            self._push()
        if self._below is not None:
            self._below.end()


def connect(endpoint: EndPoint, address: Address, tls: Tls) -> BaseLink:
    name = str(endpoint.locator)
    host = endpoint.host_and_port()[0]
    below = TlsLayer(tls.client(endpoint), host) if endpoint.protocol == "wss" else None
    protocol = ClientProtocol(
        parse_uri(f"{endpoint.protocol}://{endpoint.address}/"), max_size=MAX_MESSAGE, logger=QUIET
    )
    layer = WebSocketLayer(protocol, below)
    sock = dial(endpoint, *address)
    return LayeredLink(sock, endpoint.protocol, name, True, layer, False)


def listen(endpoint: EndPoint, tls: Tls) -> LinkListener:
    context = tls.server(endpoint) if endpoint.protocol == "wss" else None

    def make(sock: socket.socket, remote: str) -> BaseLink:
        below = TlsLayer(context, None) if context is not None else None
        layer = WebSocketLayer(ServerProtocol(max_size=MAX_MESSAGE, logger=QUIET), below)
        return LayeredLink(sock, endpoint.protocol, remote, False, layer, False)

    return StreamListener(bind(endpoint), endpoint.protocol, make)
