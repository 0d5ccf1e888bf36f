# SPDX-License-Identifier: Apache-2.0
"""Certificates and trusted authorities of TLS and QUIC links."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zenlake.core.endpoint import EndPoint
from zenlake.errors import LinkError

if TYPE_CHECKING:
    import ssl

__all__ = ["Tls"]


@dataclass(frozen=True, slots=True)
class Tls:
    """Paths of PEM files. The names are those of Zenoh's configuration, `transport/link/tls`."""

    root_ca_certificate: str | None = None
    """Trusted certificate authorities. None means those of the system."""
    listen_certificate: str | None = None
    listen_private_key: str | None = None
    connect_certificate: str | None = None
    connect_private_key: str | None = None
    enable_mtls: bool = False
    verify_name_on_connect: bool = True

    def client(self, endpoint: EndPoint) -> "ssl.SSLContext":
        import ssl  # Performance: importing ssl takes as long as the rest of the start-up, so only encrypted links import it

        context = self._load(endpoint, ssl.PROTOCOL_TLS_CLIENT, self.connect_certificate, self.connect_private_key)
        context.check_hostname = self.verify_name_on_connect
        if self.root_ca_certificate is None:
            context.load_default_certs()
        return context

    def server(self, endpoint: EndPoint) -> "ssl.SSLContext":
        import ssl

        if self.listen_certificate is None or self.listen_private_key is None:
            raise LinkError(str(endpoint), "a listener requires `listen_certificate` and `listen_private_key`")
        context = self._load(endpoint, ssl.PROTOCOL_TLS_SERVER, self.listen_certificate, self.listen_private_key)
        if self.enable_mtls:
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _load(self, endpoint: EndPoint, protocol: int, certificate: str | None, key: str | None) -> "ssl.SSLContext":
        import ssl

        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            if self.root_ca_certificate is not None:
                context.load_verify_locations(self.root_ca_certificate)
            if certificate is not None:
                context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise LinkError(str(endpoint), f"invalid certificate or key: {error}") from None
        return context
