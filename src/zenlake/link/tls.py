# SPDX-License-Identifier: Apache-2.0
"""`tls/host:port`: TLS links with a verified peer certificate and, if requested, our own certificate (mutual TLS).

The encryption is `ssl.SSLObject` between two memory buffers, so that the event loop of plain sockets also drives
TLS links. ALPN is not used. The framing is the same as on TCP.
"""

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from zenlake.core.endpoint import EndPoint
from zenlake.errors import LinkError
from zenlake.link.base import Address, BaseLink, LinkListener
from zenlake.link.stream import LayeredLink, StreamListener, dial
from zenlake.link.tcp import bind
from zenlake.link.tls_config import Tls

__all__ = ["Tls", "TlsLayer", "connect", "listen"]

READ = 65536


class TlsLayer:
    """TLS layer: ciphertext on one side, plaintext on the other."""

    def __init__(self, context: ssl.SSLContext, server_name: str | None) -> None:
        self.is_ready = False
        self.is_ended = False
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._in, self._out, server_side=server_name is None, server_hostname=server_name)

    def start(self) -> None:
        self._do_handshake()

    def _do_handshake(self) -> None:
        try:
            self._ssl.do_handshake()
            self.is_ready = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise LinkError("tls", _describe_error(error)) from None

    @property
    def common_name(self) -> str | None:
        """Common name of the peer certificate, or None if it is missing or not verified."""
        names: Any = (self._ssl.getpeercert() or {}).get("subject", ())
        return next((value for part in names for name, value in part if name == "commonName"), None)

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._in.write(data)
        if not self.is_ready:
            self._do_handshake()
            if not self.is_ready:
                return
        while True:
            try:
                piece = self._ssl.read(READ)
            except ssl.SSLWantReadError:
                return
            except ssl.SSLError as error:
                raise LinkError("tls", _describe_error(error)) from None
            if not piece:  # the peer has closed its side
                self.is_ended = True
                return
            yield piece

    def write(self, data: memoryview) -> None:
        try:
            self._ssl.write(data)
        except ssl.SSLError as error:
            raise LinkError("tls", _describe_error(error)) from None

    def to_send(self) -> bytes:
        return self._out.read()

    def end(self) -> None:
        with suppress(
            ssl.SSLError, ValueError
        ):  # the peer's close_notify has not been received, and we do not wait for it
            self._ssl.unwrap()


def _describe_error(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verification failed: {error.verify_message}"
    reasons = {
        "TLSV1_ALERT_UNKNOWN_CA": "the peer does not trust the signer of our certificate",
        "SSLV3_ALERT_BAD_CERTIFICATE": "the peer rejected our certificate as bad",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the peer rejected our certificate",
        "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "the peer rejected our certificate: not valid for a client",
        "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the peer requires a client certificate; set `connect_certificate`",
        "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the peer sent no certificate, which mutual TLS requires",
        "WRONG_VERSION_NUMBER": "the peer does not use TLS",
        "HTTP_REQUEST": "the peer does not use TLS",
    }
    return reasons.get(error.reason or "", f"TLS failed: {error.reason or error}")


def connect(endpoint: EndPoint, address: Address, tls: Tls) -> BaseLink:
    layer = TlsLayer(tls.client(endpoint), endpoint.host_and_port()[0])
    name = str(endpoint.locator)
    return LayeredLink(dial(endpoint, *address), "tls", name, True, layer, True)


def listen(endpoint: EndPoint, tls: Tls) -> LinkListener:
    context = tls.server(endpoint)

    def make(sock: socket.socket, remote: str) -> BaseLink:
        return LayeredLink(sock, "tls", remote, False, TlsLayer(context, None), True)

    return StreamListener(bind(endpoint), "tls", make)
