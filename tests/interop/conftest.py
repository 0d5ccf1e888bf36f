# SPDX-License-Identifier: Apache-2.0
"""What the tests against the real Zenoh share: their marker, certificates and free ports."""

import datetime
import ipaddress
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from zenlake.link import Tls

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority (ca.pem), a server's and a client's certificate that it signed, and one that it did not."""
    folder = tmp_path_factory.mktemp("certificates")
    ca_key, ca = _certificate("authority", None)
    _save(folder, "ca", ca_key, ca)
    for name in ("server", "client"):
        _save(folder, name, *_certificate(name, (ca_key, ca)))
    other_key, other = _certificate("impostor", None)
    _save(folder, "impostor", *_certificate("server", (other_key, other)))
    return folder


def _certificate(
    name: str, signer: tuple[ec.EllipticCurvePrivateKey, x509.Certificate] | None
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer[1].subject if signer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if signer is not None:
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer[0].public_key())
        builder = (
            builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(issuer, critical=False)
        )
    else:
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usage, critical=True)
    return key, builder.sign(signer[0] if signer else key, hashes.SHA256())


def _save(folder: Path, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / f"{name}.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


@pytest.fixture(scope="session")
def our_tls(certificates: Path) -> Tls:
    return Tls(
        root_ca_certificate=str(certificates / "ca.pem"),
        listen_certificate=str(certificates / "server.pem"),
        listen_private_key=str(certificates / "server.key"),
    )


@pytest.fixture(scope="session")
def wheel_tls(certificates: Path) -> dict[str, object]:
    """The same, as the wheel's configuration says it."""
    return {
        "transport/link/tls/root_ca_certificate": str(certificates / "ca.pem"),
        "transport/link/tls/listen_certificate": str(certificates / "server.pem"),
        "transport/link/tls/listen_private_key": str(certificates / "server.key"),
    }


@pytest.fixture(scope="session")
def ports() -> Iterator[int]:
    """Ports that were free a moment ago, each handed out once."""
    def free() -> Iterator[int]:
        while True:
            with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
                tcp.bind(("127.0.0.1", 0))
                port = tcp.getsockname()[1]
                udp.bind(("127.0.0.1", port))
            yield port

    return free()

