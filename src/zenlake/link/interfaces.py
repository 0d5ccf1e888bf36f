# SPDX-License-Identifier: Apache-2.0
"""The machine's network interfaces, as far as multicast needs them: a name or an address becomes both."""

import fcntl
import socket
import struct
import sys
from contextlib import suppress
from ipaddress import ip_address

from zenlake.record import dataclass

__all__ = ["ANY", "Interface", "named", "with_multicast"]

SIOCGIFFLAGS = 0x8913
SIOCGIFADDR = 0x8915
UP, LOOPBACK, MULTICAST = 0x1, 0x8, 0x1000


@dataclass(frozen=True, slots=True)
class Interface:
    """Its index (0: whichever the system chooses) and its IPv4 address (0.0.0.0: any, or none)."""

    index: int
    address: str


ANY = Interface(0, "0.0.0.0")


def named(text: str) -> list[Interface]:
    """Those that a configuration means: `auto`, or names and addresses with commas between. An unknown one is an OSError."""
    if text in ("", "auto"):
        return with_multicast() or [ANY]
    return [_one(part.strip()) for part in text.split(",")]


def with_multicast() -> list[Interface]:
    """Every interface that is up, carries multicast and isn't loopback."""
    if sys.platform != "linux":
        return []
    found = []
    for index, name in socket.if_nameindex():
        with suppress(OSError):
            flags = struct.unpack_from("H", _ask(SIOCGIFFLAGS, name), 16)[0]
            if flags & UP and flags & MULTICAST and not flags & LOOPBACK:
                found.append(Interface(index, _address(name)))
    return found


def _one(text: str) -> Interface:
    with suppress(ValueError):
        if ip_address(text).version == 4:
            return Interface(0, text)
        raise OSError(0, f"`{text}`: an interface of IPv6 is given by its name")
    try:
        index = socket.if_nametoindex(text)
    except OSError:
        known = ", ".join(name for _, name in socket.if_nameindex())
        raise OSError(0, f"no network interface `{text}`; there are {known}") from None
    with suppress(OSError):
        return Interface(index, _address(text))
    return Interface(index, ANY.address)  # one that has no IPv4 address can still carry IPv6


def _address(name: str) -> str:
    return socket.inet_ntoa(_ask(SIOCGIFADDR, name)[20:24])


def _ask(what: int, name: str) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        return fcntl.ioctl(sock.fileno(), what, struct.pack("256s", name.encode()[:15]))
