# SPDX-License-Identifier: Apache-2.0
import socket
import sys
from pathlib import Path

import pytest

from zenlake import link as links
from zenlake.core.endpoint import EndPoint
from zenlake.errors import EndpointError, LinkError
from zenlake.link import Tls, inproc, tcp
from zenlake.link.base import BaseLink, addresses
from zenlake.link.interfaces import find_by_address

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="interfaces are distinguished on Linux only")

LOOPBACK = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))


@pytest.mark.parametrize(
    ("address", "names"),
    [
        ("127.0.0.1", (LOOPBACK,)),
        ("::ffff:127.0.0.1", (LOOPBACK,)),
        ("0.0.0.0", tuple(name for _, name in socket.if_nameindex())),
        ("::", tuple(name for _, name in socket.if_nameindex())),
        ("192.0.2.1", ()),  # not assigned
        ("localhost", ()),
    ],
)
def test_find_the_interface_of_an_address(address: str, names: tuple[str, ...]) -> None:
    assert find_by_address(address) == names


def test_a_link_has_the_name_of_its_interface() -> None:
    listener = tcp.listen(EndPoint.parse("tcp/127.0.0.1:0"))
    links: list[BaseLink] = []
    listener.on_link = links.append
    endpoint = EndPoint.parse(listener.locator)
    here = tcp.connect(endpoint, addresses(endpoint, socket.SOCK_STREAM)[0])
    listener.on_readable(0.0)
    assert links[0].interfaces == (LOOPBACK,)
    for each in (here, links[0], listener):
        each.close()
    assert inproc.MemoryLink.pair("a")[0].interfaces == ()


def device(sock: socket.socket) -> str:
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16).rstrip(b"\0").decode()


@pytest.mark.parametrize("protocol", ["tcp", "tls", "ws", "wss", "udp", "quic"])
def test_sockets_are_restricted_to_the_interface_of_their_endpoint(protocol: str, certificates: Path) -> None:
    tls = Tls(
        root_ca_certificate=str(certificates / "ca.pem"),
        listen_certificate=str(certificates / "server.pem"),
        listen_private_key=str(certificates / "server.key"),
    )
    listener = links.listen(EndPoint.parse(f"{protocol}/0.0.0.0:0#iface={LOOPBACK}"), tls)
    assert device(listener._sock) == LOOPBACK
    port = listener.locator.rpartition(":")[2]
    endpoint = EndPoint.parse(f"{protocol}/127.0.0.1:{port}#iface={LOOPBACK}")
    link = links.connect(endpoint, links.resolve(endpoint)[0], tls)
    assert device(link.port._sock) == LOOPBACK
    link.close()
    listener.close()


@pytest.mark.parametrize("protocol", ["tcp", "ws", "udp"])
def test_an_interface_that_does_not_exist_is_an_error(protocol: str) -> None:
    endpoint = EndPoint.parse(f"{protocol}/127.0.0.1:0#iface=nothing0")
    with pytest.raises(LinkError, match="iface=nothing0: no such network interface"):
        links.listen(endpoint, Tls())
    with pytest.raises(LinkError, match="iface=nothing0: no such network interface"):
        links.connect(endpoint, (socket.AF_INET, ("127.0.0.1", 7447)), Tls())


def test_an_interface_without_a_network_is_refused(tmp_path: Path) -> None:
    endpoint = EndPoint.parse(f"unixsock-stream/{tmp_path}/socket#iface=lo")
    with pytest.raises(EndpointError, match="iface=lo is not supported"):
        links.listen(endpoint, Tls())
    with pytest.raises(EndpointError, match="iface=lo is not supported"):
        links.connect(endpoint, None, Tls())
