# SPDX-License-Identifier: Apache-2.0
import socket
import sys

import pytest

from zenlake.endpoint import EndPoint
from zenlake.link import memory, tcp
from zenlake.link.base import Link, addresses
from zenlake.link.interfaces import having

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="interfaces are told apart on Linux only")

LOOPBACK = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))


@pytest.mark.parametrize(
    ("address", "names"),
    [
        ("127.0.0.1", (LOOPBACK,)),
        ("::ffff:127.0.0.1", (LOOPBACK,)),
        ("0.0.0.0", tuple(name for _, name in socket.if_nameindex())),
        ("::", tuple(name for _, name in socket.if_nameindex())),
        ("192.0.2.1", ()),  # nobody's
        ("localhost", ()),
    ],
)
def test_who_has_an_address(address: str, names: tuple[str, ...]) -> None:
    assert having(address) == names


def test_a_link_knows_its_interface() -> None:
    listener = tcp.listen(EndPoint.parse("tcp/127.0.0.1:0"))
    links: list[Link] = []
    listener.on_link = links.append
    endpoint = EndPoint.parse(listener.locator)
    here = tcp.connect(endpoint, addresses(endpoint, socket.SOCK_STREAM)[0])
    listener.on_readable(0.0)
    assert links[0].interfaces == (LOOPBACK,)
    for each in (here, links[0], listener):
        each.close()
    assert memory.MemoryLink.pair("a")[0].interfaces == ()
