# SPDX-License-Identifier: Apache-2.0
"""Network interfaces of the machine: resolve names and addresses for multicast, and find the interface of a link's address."""

import array
import fcntl
import socket
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass

__all__ = ["ANY", "Interface", "find_by_address", "find_interface", "pack_address", "with_multicast"]

SIOCGIFCONF = 0x8912
SIOCGIFFLAGS = 0x8913
SIOCGIFADDR = 0x8915
UP, LOOPBACK, MULTICAST = 0x1, 0x8, 0x1000
V4_IN_V6 = bytes(10) + b"\xff\xff"  # prefix of an IPv4 address in IPv6


@dataclass(frozen=True, slots=True)
class Interface:
    """An interface: its index (0: chosen by the system) and its IPv4 address (0.0.0.0: any, or no address)."""

    index: int
    address: str


ANY = Interface(0, "0.0.0.0")


def find_interface(text: str) -> list[Interface]:
    """Return the configured interfaces: `auto`, or names and addresses separated by commas.

    Raises:
        OSError: An interface is unknown.
    """
    if text in ("", "auto"):
        return with_multicast() or ([ANY] if _is_routed() else _loopback()) or [ANY]
    return [_one(part.strip()) for part in text.split(",")]


def with_multicast() -> list[Interface]:
    """Return every interface that is up, supports multicast and is not loopback."""
    if sys.platform != "linux":
        return []
    found = []
    for index, name in socket.if_nameindex():
        with suppress(OSError):
            flags = struct.unpack_from("H", _ask(SIOCGIFFLAGS, name), 16)[0]
            if flags & UP and flags & MULTICAST and not flags & LOOPBACK:
                found.append(Interface(index, _address(name)))
    return found


def _is_routed() -> bool:
    """Return whether the system has a route to a multicast group, and a source address for it. Nothing is sent.

    A route by the loopback interface has no source address by default. A HELLO of 1.10.2 to such a sender has no loopback
    locators.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, suppress(OSError):
        sock.connect(("224.0.0.224", 7446))
        return bool(sock.getsockname()[0] != ANY.address)
    return False


def _loopback() -> list[Interface]:
    """Return the loopback interface, for a machine without others. It carries multicast on Linux, whatever its flags say."""
    return [Interface(socket.if_nametoindex(name), "127.0.0.1") for name in find_by_address("127.0.0.1")]


def pack_address(address: str) -> bytes | None:
    """Return the 4 or 16 bytes of an address, or None if the text is not an address.

    Performance: importing `ipaddress` takes longer than all of this.
    """
    try:
        return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address.partition("%")[0])
    except (OSError, ValueError):
        return None


def _one(text: str) -> Interface:
    number = pack_address(text)
    if number is not None and len(number) == 4:
        return Interface(0, text)
    if number is not None:
        raise OSError(0, f"`{text}`: specify an IPv6 interface by its name, not by its address")
    try:
        index = socket.if_nametoindex(text)
    except OSError:
        known = ", ".join(name for _, name in socket.if_nameindex())
        raise OSError(0, f"unknown network interface `{text}`; expected one of {known}") from None
    with suppress(OSError):
        return Interface(index, _address(text))
    return Interface(index, ANY.address)  # an interface without an IPv4 address can still carry IPv6


def _address(name: str) -> str:
    return socket.inet_ntoa(_ask(SIOCGIFADDR, name)[20:24])


def _ask(what: int, name: str) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        return fcntl.ioctl(sock.fileno(), what, struct.pack("256s", name.encode()[:15]))


def find_by_address(address: str) -> tuple[str, ...]:
    """Return the names of the interfaces that have this address, or all for the wildcard address, as in 1.10.2."""
    if sys.platform != "linux":
        return ()
    wanted = pack_address(address)
    if wanted is None:
        return ()
    wanted = wanted.removeprefix(V4_IN_V6)
    if not any(wanted):
        return tuple(name for _, name in socket.if_nameindex())
    return tuple(dict.fromkeys(name for name, held in _addresses() if held == wanted))


def _addresses() -> list[tuple[str, bytes]]:
    """Return every address of every interface."""
    record, room = 40, 40 * 1024  # struct ifreq: a name of 16 bytes, then a sockaddr_in
    buffer = array.array("B", bytes(room))
    where, size = buffer.buffer_info()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        filled = struct.unpack("iL", fcntl.ioctl(sock.fileno(), SIOCGIFCONF, struct.pack("iL", size, where)))[0]
    found: list[tuple[str, bytes]] = []
    for at in range(0, filled, record):
        name = buffer[at : at + 16].tobytes().partition(b"\0")[0].decode()
        name = name.partition(":")[0]  # an alias: use its interface
        found.append((name, buffer[at + 20 : at + 24].tobytes()))
    with suppress(OSError), open("/proc/net/if_inet6") as lines:
        for line in lines:
            number, *_, name = line.split()
            found.append((name, bytes.fromhex(number)))
    return found
