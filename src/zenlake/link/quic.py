# SPDX-License-Identifier: Apache-2.0
"""`quic/host:port`: one bidirectional stream, opened by the end that connects, with the framing of TCP inside.

The protocol is the sans-IO core of the `aioquic` package. We offer the plain ALPN `zenoh` (and `hq-29`, as 1.8 and
older say), so everything travels on the one stream: no multi-stream, no datagrams. All of it happens in the loop's
thread.

Mutual TLS: aioquic can ask for a client's certificate and checks that the client has its key, but has no setting for it
and does not check who signed it. `AskingConnection` turns that on, and the link checks the rest before it is ready.
"""

import socket
import ssl
from pathlib import Path
from time import monotonic

from aioquic import tls as quic_tls
from aioquic.buffer import Buffer
from aioquic.quic.configuration import SMALLEST_MAX_DATAGRAM_SIZE, QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import (
    ConnectionIdIssued,
    ConnectionIdRetired,
    ConnectionTerminated,
    HandshakeCompleted,
    StreamDataReceived,
    StreamReset,
)
from aioquic.quic.packet import QuicFrameType, QuicPacketType, encode_quic_version_negotiation, pull_quic_header
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from zenlake.endpoint import EndPoint
from zenlake.errors import LinkError
from zenlake.link.base import Address, Link, Listener, Port, describe, locator
from zenlake.link.certificates import Tls
from zenlake.link.tcp import bind
from zenlake.link.udp import HELD, Served, UdpPort

__all__ = ["connect", "listen"]

ALPN = ["zenoh", "hq-29"]
WINDOW = 16 << 20  # what the other end may send before we have read it
AHEAD = 256 << 10  # what may wait in QUIC's own buffer: beyond it, our queues decide
CERTIFICATE_ALERTS = range(0x100 + 42, 0x100 + 50)
NO_COMMON_ALPN = 0x100 + 120
CERTIFICATE_REQUIRED = 0x100 + 116


class AskingConnection(QuicConnection):  # type: ignore[misc]
    """A listener's end that asks for the other end's certificate."""

    def _initialize(self, peer_cid: bytes) -> None:
        super()._initialize(peer_cid)
        self.tls._request_client_certificate = True


class QuicLink(Served):
    """One QUIC connection and its stream; `udp` carries its datagrams."""

    def __init__(self, quic: QuicConnection, udp: UdpPort, local: str, remote: str) -> None:
        self._quic = quic
        self._udp = udp
        self._stream: int | None = None
        self._written = 0
        self._starved = False
        self._closed = False
        self._kept: list[bytes] = []
        self._kept_size = 0
        self._ended = False
        self.local = local
        self.remote = remote

    def begin(self) -> None:
        pass  # `ready` comes with the handshake

    def _unsent(self) -> int:
        stream = self._quic._streams.get(self._stream)  # aioquic tells nowhere else how much it holds
        return self._written - stream.sender.next_offset if stream is not None else 0

    @property
    def common_name(self) -> str | None:
        if self._quic.configuration.verify_mode == ssl.CERT_NONE:
            return None  # nobody checked it
        certificate = self._quic.tls._peer_certificate
        names = [] if certificate is None else certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return str(names[0].value) if names else None

    def _is_trusted(self) -> bool:
        """Check the certificate for which an `AskingConnection` asked; refuse who has none that is good."""
        try:
            _check_client(self._quic)
        except quic_tls.Alert as alert:
            code = CERTIFICATE_REQUIRED if self._quic.tls._peer_certificate is None else 0x100 + alert.description
            self._quic.close(code, QuicFrameType.CRYPTO, str(alert))
            self._lose(str(alert))
            return False
        return True

    @property
    def is_drained(self) -> bool:
        stream = self._quic._streams.get(self._stream)
        return stream is None or not stream.sender._buffer  # what was not acknowledged might have to be sent again

    def write(self, data: memoryview) -> int:
        if self._closed or self._stream is None:
            return len(data)
        if self._unsent() > AHEAD:
            self._starved = True
            return 0
        self._quic.send_stream_data(self._stream, bytes(data))
        self._written += len(data)
        self.flush()
        return len(data)

    def flush(self) -> None:
        for data, address in self._quic.datagrams_to_send(monotonic()):
            self._udp.send(data, address if isinstance(self._udp, QuicListener) else None, self)
        self._udp.changed()

    def fail(self, error: Exception) -> None:
        self._udp.blame(self, error)

    def arrived(self, data: bytes | memoryview, source: tuple[object, ...], now: float) -> None:
        """Handle datagrams also while the link is paused: they acknowledge what we write. Data of the stream waits."""
        if self._waiting is None or self._kept_size > HELD:
            return super().arrived(data, source, now)
        try:
            self.take(data, source, now)
        except Exception as error:
            self.fail(error)

    def resume(self) -> None:
        kept, self._kept, self._kept_size = self._kept, [], 0
        waiting, self._waiting, self._held = self._waiting or [], None, 0
        for piece in kept:
            self._deliver(piece)
        for data, source in waiting:
            self.arrived(data, source, monotonic())
        if self._ended and self._waiting is None and not self._closed:
            self._lose(None)

    def _deliver(self, data: bytes) -> None:
        if self._closed:
            return
        if self._waiting is None:
            self.owner.receive(data)
        else:
            self._kept.append(data)
            self._kept_size += len(data)

    def take(self, data: bytes | memoryview, source: tuple[object, ...], now: float) -> None:
        self._quic.receive_datagram(data, source, now)
        self.react()

    def react(self) -> None:
        """Tell the owner what aioquic has understood."""
        while not self._closed and (event := self._quic.next_event()) is not None:
            if isinstance(event, StreamDataReceived):
                if self._stream is None:
                    self._stream = event.stream_id
                if event.stream_id == self._stream:
                    if event.data:
                        self._deliver(event.data)
                    self._ended = event.end_stream
                    if self._ended and self._waiting is None:
                        self._lose(None)
            elif isinstance(event, HandshakeCompleted):
                if isinstance(self._quic, AskingConnection) and not self._is_trusted():
                    return
                if self._quic.configuration.is_client:
                    self._stream = self._quic.get_next_available_stream_id()
                self.owner.ready()
            elif isinstance(event, ConnectionTerminated):
                self._lose(_why(event))
            elif isinstance(event, StreamReset):
                self._lose("the other end broke off")
            elif isinstance(self._udp, QuicListener):
                self._udp.renamed(self, event)
        if not self._closed:
            self.flush()
            if self._starved and self._unsent() <= AHEAD // 2:
                self._starved = False
                self.owner.writable()
            if self.is_drained:
                self.owner.drained()

    def next_timeout(self) -> float | None:
        timer: float | None = self._quic.get_timer()
        return timer

    def late(self, now: float) -> None:
        self._quic.handle_timer(now)
        self.react()

    def _lose(self, why: str | None) -> None:
        owner = self.owner
        self.close()
        owner.lost(None if why is None else LinkError(self.remote, why))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._quic.close()
            self.flush()
            self.gone()

    def gone(self) -> None:
        """The socket need not know us any longer."""
        assert isinstance(self._udp, QuicListener)
        self._udp.forget(self)


class QuicClient(UdpPort):
    """The connecting end's socket."""

    link: QuicLink

    def on_datagram(self, data: memoryview, source: tuple[object, ...], now: float) -> None:
        self.link.arrived(bytes(data), source, now)

    def on_error(self, error: OSError) -> None:
        self.link._lose(describe(error))

    def fail(self, error: Exception) -> None:
        self.link._lose(str(error))

    def on_writable(self, now: float) -> None:
        super_blocked, self._blocked = self._blocked, {}
        self.wants_write = False
        self.changed()
        if super_blocked:
            self.link.flush()

    def next_timeout(self) -> float | None:
        return None if self._closed else self.link.next_timeout()

    def on_timeout(self, now: float) -> None:
        self.link.late(now)


class QuicClientLink(QuicLink):
    @property
    def port(self) -> Port | None:
        return self._udp

    def gone(self) -> None:
        self._udp.close()


class QuicListener(UdpPort, Listener):
    """The listening end's socket: connections are told apart by the ids that QUIC gives them."""

    def __init__(self, sock: socket.socket, configuration: QuicConfiguration) -> None:
        super().__init__(sock)
        self.locator = locator("quic", sock.getsockname())
        self._configuration = configuration
        self._links: dict[bytes, QuicLink] = {}
        self._listening = True

    def on_datagram(self, data: memoryview, source: tuple[object, ...], now: float) -> None:
        datagram = bytes(data)
        try:
            header = pull_quic_header(Buffer(data=datagram), self._configuration.connection_id_length)
        except ValueError:
            return
        if header.packet_type == QuicPacketType.VERSION_NEGOTIATION:
            return
        if header.version is not None and header.version not in self._configuration.supported_versions:
            answer = encode_quic_version_negotiation(
                source_cid=header.destination_cid,
                destination_cid=header.source_cid,
                supported_versions=self._configuration.supported_versions,
            )
            self._sock.sendto(answer, source)
            return
        link = self._links.get(header.destination_cid)
        if link is None:
            first = header.packet_type == QuicPacketType.INITIAL and len(datagram) >= SMALLEST_MAX_DATAGRAM_SIZE
            if not first or not self._listening:
                return
            kind = QuicConnection if self._configuration.verify_mode is None else AskingConnection
            quic = kind(configuration=self._configuration, original_destination_connection_id=header.destination_cid)
            link = QuicLink(quic, self, self.locator, locator("quic", source))
            self._links[header.destination_cid] = self._links[quic.host_cid] = link
            self.on_link(link)
        link.arrived(datagram, source, now)

    def renamed(self, link: QuicLink, event: object) -> None:
        if isinstance(event, ConnectionIdIssued):
            self._links[event.connection_id] = link
        elif isinstance(event, ConnectionIdRetired):
            self._links.pop(event.connection_id, None)

    def forget(self, link: QuicLink) -> None:
        self._links = {name: other for name, other in self._links.items() if other is not link}
        if not self._links and not self._listening:
            UdpPort.close(self)

    def on_writable(self, now: float) -> None:
        blocked, self._blocked = self._blocked, {}
        self.wants_write = False
        self.changed()
        for link in blocked:
            if isinstance(link, QuicLink):
                link.flush()

    def next_timeout(self) -> float | None:
        if self._closed:
            return None
        return min((when for link in self._links.values() if (when := link.next_timeout()) is not None), default=None)

    def on_timeout(self, now: float) -> None:
        for link in set(self._links.values()):
            when = link.next_timeout()
            if when is not None and when <= now:
                try:
                    link.late(now)
                except Exception as error:
                    self.blame(link, error)

    def close(self) -> None:
        """Listen no more; connections that are open go on until they close."""
        self._listening = False
        if not self._links:
            super().close()


def _check_client(quic: QuicConnection) -> None:
    certificate, chain = quic.tls._peer_certificate, quic.tls._peer_certificate_chain
    if certificate is None:
        raise quic_tls.AlertBadCertificate("the other end showed no certificate, and mutual TLS asks for one")
    try:
        quic_tls.verify_certificate(certificate, chain, cadata=quic.configuration.cadata)
        uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except quic_tls.Alert as alert:
        raise type(alert)(f"the other end's certificate is not good: {alert}") from None
    except x509.ExtensionNotFound:
        return  # it is good for everything
    except ValueError:
        raise quic_tls.AlertBadCertificate("the other end's certificate cannot be read") from None
    if ExtendedKeyUsageOID.CLIENT_AUTH not in uses:
        raise quic_tls.AlertBadCertificate("the other end's certificate is not good for a client")


def _why(event: ConnectionTerminated) -> str | None:
    if event.error_code == 0:
        return None
    if event.error_code == CERTIFICATE_REQUIRED:
        return "the other end wants a certificate of ours: set `connect_certificate`"
    if event.error_code in CERTIFICATE_ALERTS:
        return f"a certificate is not good: {event.reason_phrase or event.error_code}"
    if event.error_code == NO_COMMON_ALPN:
        return "the other end speaks QUIC, but not Zenoh"
    return event.reason_phrase or f"QUIC error {event.error_code:#x}"


def _configuration(is_client: bool) -> QuicConfiguration:
    return QuicConfiguration(is_client=is_client, alpn_protocols=ALPN, max_data=WINDOW, max_stream_data=WINDOW)


def connect(endpoint: EndPoint, address: Address, tls: Tls) -> Link:
    name = str(endpoint.locator)
    configuration = _configuration(True)
    configuration.server_name = endpoint.host_and_port()[0]
    try:
        if tls.root_ca_certificate is not None:
            configuration.load_verify_locations(cadata=Path(tls.root_ca_certificate).read_bytes())
        if tls.connect_certificate is not None:
            configuration.load_cert_chain(tls.connect_certificate, tls.connect_private_key)
    except (OSError, ValueError) as error:
        raise LinkError(name, f"certificate or key cannot be used: {error}") from None
    if not tls.verify_name_on_connect:
        configuration.server_name = None  # who signed it is checked all the same
    family, target = address
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        sock.connect(target)
    except OSError as error:
        sock.close()
        raise LinkError(name, describe(error)) from None
    udp = QuicClient(sock)
    quic = QuicConnection(configuration=configuration)
    udp.link = QuicClientLink(quic, udp, locator("quic", sock.getsockname()), name)
    quic.connect(target, now=monotonic())
    udp.link.flush()
    return udp.link


def listen(endpoint: EndPoint, tls: Tls) -> Listener:
    if tls.listen_certificate is None or tls.listen_private_key is None:
        raise LinkError(str(endpoint), "listening needs `listen_certificate` and `listen_private_key`")
    configuration = _configuration(False)
    try:
        configuration.load_cert_chain(tls.listen_certificate, tls.listen_private_key)
        if tls.enable_mtls:
            if tls.root_ca_certificate is None:
                raise LinkError(str(endpoint), "mutual TLS needs `root_ca_certificate`: who may sign for clients")
            configuration.verify_mode = ssl.CERT_REQUIRED
            configuration.load_verify_locations(cadata=Path(tls.root_ca_certificate).read_bytes())
    except (OSError, ValueError) as error:
        raise LinkError(str(endpoint), f"certificate or key cannot be used: {error}") from None
    return QuicListener(bind(endpoint, socket.SOCK_DGRAM), configuration)
