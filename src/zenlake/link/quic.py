# SPDX-License-Identifier: Apache-2.0
"""`quic/host:port`: one bidirectional stream, opened by the connecting end, with the framing of TCP.

The protocol is the sans-IO core of the `aioquic` package. We offer the plain ALPN `zenoh` (and `hq-29`, as in 1.8 and
older), so all data is on one stream: no multi-stream, no datagrams.

Mutual TLS: aioquic can request a client certificate and verifies the possession of its key. It has no setting for that and
does not verify the signer. `AskingConnection` turns the request on, and the link verifies the chain before it is ready.

Threading: everything runs on the event loop thread.
"""

import logging
import os
import socket
import ssl
from contextlib import suppress
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
from aioquic.quic.packet import (
    QuicFrameType,
    QuicHeader,
    QuicPacketType,
    encode_quic_retry,
    encode_quic_version_negotiation,
    pull_quic_header,
)
from aioquic.quic.retry import QuicRetryTokenHandler
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from zenlake.core.endpoint import EndPoint
from zenlake.core.peer_limits import Resource
from zenlake.errors import LinkError
from zenlake.link.base import Address, BaseLink, LinkListener, Port, describe, locator, open_socket
from zenlake.link.tcp import bind
from zenlake.link.tls_config import Tls
from zenlake.link.udp import HELD, SharedUdpLink, UdpPort

__all__ = ["connect", "listen"]

ALPN = ["zenoh", "hq-29"]
WINDOW = 16 << 20  # receive window: what the peer may send before we read it
MAX_STREAMS = 16  # of a connection, which uses one
AHEAD = 256 << 10  # limit of QUIC's own transmit buffer: beyond it, our queues apply
CERTIFICATE_ALERTS = range(0x100 + 42, 0x100 + 50)
NO_COMMON_ALPN = 0x100 + 120
CERTIFICATE_REQUIRED = 0x100 + 116

# aioquic logs a warning for each protocol violation. The owner of a link reports its end.
QUIET = logging.getLogger("zenlake.link.quic")
QUIET.setLevel(logging.CRITICAL)


class AskingConnection(QuicConnection):
    """Listener side of a connection that requests a certificate from the peer."""

    def _initialize(self, peer_cid: bytes) -> None:
        super()._initialize(peer_cid)
        self.tls._request_client_certificate = True


class QuicLink(SharedUdpLink):
    """One QUIC connection and its stream. `udp` carries its datagrams."""

    def __init__(self, quic: QuicConnection, udp: UdpPort, local: str, remote: str) -> None:
        quic._logger = QUIET
        self._quic = quic
        self._udp = udp
        self._stream: int | None = None
        self._written = 0
        self._starved = False
        self._closed = False
        self._kept: list[bytes] = []
        self._kept_size = 0
        self._ended = False
        self.names: set[bytes] = set()
        """Connection ids by which the listener identifies this link."""
        self.local = local
        self.remote = remote

    def begin(self) -> None:
        pass  # `on_ready` follows after the handshake

    def _unsent(self) -> int:
        stream = self._quic._streams.get(self._stream)  # aioquic exposes the number of buffered bytes nowhere else
        return self._written - stream.sender.next_offset if stream is not None else 0

    @property
    def common_name(self) -> str | None:
        if self._quic.configuration.verify_mode == ssl.CERT_NONE:
            return None  # the certificate is not verified
        certificate = self._quic.tls._peer_certificate
        names = [] if certificate is None else certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return str(names[0].value) if names else None

    def _is_trusted(self) -> bool:
        """Verify the certificate that an `AskingConnection` requested. Close the connection if it is missing or invalid."""
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
        return stream is None or not stream.sender._buffer  # unacknowledged data may have to be sent again

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
        if isinstance(self._udp, QuicListener) and not self._closed:
            self._udp.times[self] = self._quic.get_timer()
        self._udp.on_change()

    def fail(self, error: Exception) -> None:
        self._udp.blame(self, error)

    def on_datagram(self, data: bytes | memoryview, source: tuple[object, ...], now: float) -> None:
        """Process datagrams also while the link is paused, because they acknowledge our data. Stream data is buffered."""
        if self._waiting is None or self._kept_size > HELD:
            return super().on_datagram(data, source, now)
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
            self.on_datagram(data, source, monotonic())
        if self._ended and self._waiting is None and not self._closed:
            self._lose(None)

    def _deliver(self, data: bytes) -> None:
        if self._closed:
            return
        if self._waiting is None:
            self.owner.on_data(data)
        else:
            self._kept.append(data)
            self._kept_size += len(data)

    def take(self, data: bytes | memoryview, source: tuple[object, ...], now: float) -> None:
        self._quic.receive_datagram(data, source, now)
        self._check_held()
        self.react()

    def poll(self, now: float) -> None:
        self._udp.on_readable(now)

    def _check_held(self) -> None:
        """Bound streams, and charge data that was received out of order. The windows of aioquic itself grow without a limit.

        Raises:
            LinkError: The peer exceeds a limit.
        """
        streams = self._quic._streams
        if len(streams) > MAX_STREAMS:
            raise LinkError(self.remote, f"the peer opened {len(streams)} QUIC streams; Zenoh uses one")
        held = sum(len(stream.receiver._buffer) for stream in streams.values())
        if self.account is not None and self.account.used.get(Resource.HANDSHAKES):
            self.hold(held)
        else:
            self.hold(held, WINDOW)

    def react(self) -> None:
        """Pass the events of aioquic to the owner."""
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
                self.owner.on_ready()
            elif isinstance(event, ConnectionTerminated):
                self._lose(_describe_termination(event))
            elif isinstance(event, StreamReset):
                self._lose("stream reset by the peer")
            elif isinstance(self._udp, QuicListener):
                self._udp.on_connection_id(self, event)
        if not self._closed:
            self.flush()
            if self._starved and self._unsent() <= AHEAD // 2:
                self._starved = False
                self.owner.on_writable()
            if self.is_drained:
                self.owner.on_drain()

    def next_timeout(self) -> float | None:
        timer: float | None = self._quic.get_timer()
        return timer

    def late(self, now: float) -> None:
        self._quic.handle_timer(now)
        self.react()

    def _lose(self, why: str | None) -> None:
        owner = self.owner
        self.close()
        owner.on_close(None if why is None else LinkError(self.remote, why))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._quic.close()
            self.flush()
            self.detach()

    def detach(self) -> None:
        """Remove the link from its socket."""
        assert isinstance(self._udp, QuicListener)
        self._udp.forget(self)


class QuicClient(UdpPort):
    """Socket of the connecting end."""

    is_shared = False
    link: QuicLink

    def on_datagram(self, data: memoryview, source: tuple[object, ...], now: float) -> None:
        self.link.on_datagram(bytes(data), source, now)

    def on_error(self, error: OSError) -> None:
        self.link._lose(describe(error))

    def fail(self, error: Exception) -> None:
        self.link._lose(str(error))

    def on_room(self, link: BaseLink) -> None:
        self.link.flush()

    def next_timeout(self) -> float | None:
        return None if self._closed else self.link.next_timeout()

    def on_timeout(self, now: float) -> None:
        self.link.late(now)


class QuicClientLink(QuicLink):
    @property
    def port(self) -> Port | None:
        return self._udp

    def detach(self) -> None:
        self._udp.close()


class QuicListener(UdpPort, LinkListener):
    """Socket of the listening end. Connections are identified by their QUIC connection ids."""

    def __init__(self, sock: socket.socket, configuration: QuicConfiguration) -> None:
        super().__init__(sock)
        self.locator = locator("quic", sock.getsockname())
        self._configuration = configuration
        self._links: dict[bytes, QuicLink] = {}
        self.times: dict[QuicLink, float | None] = {}
        """Timeout of each link. Performance: cached here, because every datagram needs the earliest."""
        self._tokens = QuicRetryTokenHandler()
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
            with suppress(OSError):
                self._sock.sendto(answer, source)
            return
        link = self._links.get(header.destination_cid)
        if link is None:
            first = header.packet_type == QuicPacketType.INITIAL and len(datagram) >= SMALLEST_MAX_DATAGRAM_SIZE
            if not first or not self._listening:
                return
            original = self._validate(header, source, now)
            if original is None:
                return
            kind = QuicConnection if self._configuration.verify_mode is None else AskingConnection
            quic = kind(
                configuration=self._configuration,
                original_destination_connection_id=original,
                retry_source_connection_id=header.destination_cid,
            )
            link = QuicLink(quic, self, self.locator, locator("quic", source))
            self._name(link, header.destination_cid)
            self._name(link, quic.host_cid)
            try:
                self.on_link(link)
            except BaseException:
                self.forget(link)
                raise
        link.on_datagram(datagram, source, now)

    def _validate(self, header: QuicHeader, source: tuple[object, ...], now: float) -> bytes | None:
        """Return the connection id of the first Initial if the source has proved that it receives datagrams.

        Otherwise the reply is a Retry, and nothing is stored: an Initial with a forged source costs no handshake.
        """
        address = source[:2]
        if header.token:
            with suppress(ValueError):
                original: bytes = self._tokens.validate_token(
                    address=address, destination_cid=header.destination_cid, token=header.token, now=now
                )
                return original
            return None
        name = os.urandom(self._configuration.connection_id_length)
        token = self._tokens.create_token(
            address=address,
            original_destination_connection_id=header.destination_cid,
            retry_source_connection_id=name,
            now=now,
        )
        retry = encode_quic_retry(
            version=header.version,
            source_cid=name,
            destination_cid=header.source_cid,
            original_destination_cid=header.destination_cid,
            retry_token=token,
        )
        with suppress(OSError):
            self._sock.sendto(retry, source)
        return None

    def _name(self, link: QuicLink, name: bytes) -> None:
        self._links[name] = link
        link.names.add(name)

    def on_connection_id(self, link: QuicLink, event: object) -> None:
        if isinstance(event, ConnectionIdIssued):
            self._name(link, event.connection_id)
        elif isinstance(event, ConnectionIdRetired):
            self._links.pop(event.connection_id, None)
            link.names.discard(event.connection_id)

    def forget(self, link: QuicLink) -> None:
        for name in link.names:
            self._links.pop(name, None)
        self.times.pop(link, None)
        if not self._links and not self._listening:
            UdpPort.close(self)

    def on_room(self, link: BaseLink) -> None:
        if isinstance(link, QuicLink):
            link.flush()

    def next_timeout(self) -> float | None:
        if self._closed:
            return None
        return min((when for when in self.times.values() if when is not None), default=None)

    def on_timeout(self, now: float) -> None:
        for link, when in list(self.times.items()):
            if when is not None and when <= now:
                try:
                    link.late(now)
                except Exception as error:
                    self.blame(link, error)

    def close(self) -> None:
        """Stop listening. Open connections continue until they close."""
        self._listening = False
        if not self._links:
            super().close()


def _check_client(quic: QuicConnection) -> None:
    certificate, chain = quic.tls._peer_certificate, quic.tls._peer_certificate_chain
    if certificate is None:
        raise quic_tls.AlertBadCertificate("the peer sent no certificate, which mutual TLS requires")
    try:
        quic_tls.verify_certificate(certificate, chain, cadata=quic.configuration.cadata)
        uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except quic_tls.Alert as alert:
        raise type(alert)(f"certificate verification failed: {alert}") from None
    except x509.ExtensionNotFound:
        return  # no usage restrictions
    except ValueError:
        raise quic_tls.AlertBadCertificate("the peer certificate cannot be decoded") from None
    if ExtendedKeyUsageOID.CLIENT_AUTH not in uses:
        raise quic_tls.AlertBadCertificate("the peer certificate is not valid for a client")


def _describe_termination(event: ConnectionTerminated) -> str | None:
    if event.error_code == 0:
        return None
    if event.error_code == CERTIFICATE_REQUIRED:
        return "the peer requires a client certificate; set `connect_certificate`"
    if event.error_code in CERTIFICATE_ALERTS:
        return f"certificate verification failed: {event.reason_phrase or event.error_code}"
    if event.error_code == NO_COMMON_ALPN:
        return "the peer supports QUIC, but not Zenoh"
    return event.reason_phrase or f"QUIC error {event.error_code:#x}"


def _configuration(is_client: bool) -> QuicConfiguration:
    return QuicConfiguration(is_client=is_client, alpn_protocols=ALPN, max_data=WINDOW, max_stream_data=WINDOW)


def connect(endpoint: EndPoint, address: Address, tls: Tls) -> BaseLink:
    name = str(endpoint.locator)
    configuration = _configuration(True)
    configuration.server_name = endpoint.host_and_port()[0]
    try:
        if tls.root_ca_certificate is not None:
            configuration.load_verify_locations(cadata=Path(tls.root_ca_certificate).read_bytes())
        if tls.connect_certificate is not None:
            configuration.load_cert_chain(tls.connect_certificate, tls.connect_private_key)
    except (OSError, ValueError) as error:
        raise LinkError(name, f"invalid certificate or key: {error}") from None
    if not tls.verify_name_on_connect:
        configuration.server_name = None  # the signer is still verified
    family, target = address
    sock = open_socket(endpoint, family, socket.SOCK_DGRAM)
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


def listen(endpoint: EndPoint, tls: Tls) -> LinkListener:
    if tls.listen_certificate is None or tls.listen_private_key is None:
        raise LinkError(str(endpoint), "a listener requires `listen_certificate` and `listen_private_key`")
    configuration = _configuration(False)
    try:
        configuration.load_cert_chain(tls.listen_certificate, tls.listen_private_key)
        if tls.enable_mtls:
            if tls.root_ca_certificate is None:
                raise LinkError(
                    str(endpoint),
                    "mutual TLS requires `root_ca_certificate`, the authority that signs client certificates",
                )
            configuration.verify_mode = ssl.CERT_REQUIRED
            configuration.load_verify_locations(cadata=Path(tls.root_ca_certificate).read_bytes())
    except (OSError, ValueError) as error:
        raise LinkError(str(endpoint), f"invalid certificate or key: {error}") from None
    return QuicListener(bind(endpoint, socket.SOCK_DGRAM), configuration)
