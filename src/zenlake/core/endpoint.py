# SPDX-License-Identifier: Apache-2.0
"""Endpoints: `protocol/address[?metadata][#config]`.

The part before `#` is a *locator*. Nodes exchange locators (HELLO, gossip), so a locator has one canonical text with sorted
keys. `#config` configures the local socket and is never sent. Metadata and config are lists of `key=value`, separated by `;`.

User input must have a known protocol and a valid address. A peer may send locators of unknown protocols. They are kept but
not connected to.
"""

from zenlake.core.secret_redaction import redact
from zenlake.errors import EndpointError

__all__ = ["Locator", "EndPoint", "PROTOCOLS"]

PROTOCOLS = {  # each with an example
    "tcp": "tcp/localhost:7447",
    "tls": "tls/router.example:7447",
    "quic": "quic/router.example:7447",
    "udp": "udp/224.0.0.224:7447#iface=eth0",
    "ws": "ws/localhost:7447",
    "wss": "wss/router.example:7447",
    "unixsock-stream": "unixsock-stream//tmp/zenoh.sock",
    "unixpipe": "unixpipe//tmp/zenoh.pipe",
    "serial": "serial//dev/ttyUSB0#baudrate=115200",
    "vsock": "vsock/2:7447",
    "memory": "memory/name",
}
HOST_AND_PORT = ("tcp", "tls", "quic", "udp", "ws", "wss")
MAX_LOCATOR = 255  # maximum bytes of a locator on the wire

Pairs = tuple[tuple[str, str], ...]


class Locator:
    """The address of a node: `Locator.parse("tcp/[::1]:7447?prio=1-3")`."""

    __slots__ = ("_address", "_metadata", "_protocol")

    def __init__(self, protocol: str, address: str, metadata: Pairs = ()) -> None:
        self._protocol = protocol
        self._address = address
        self._metadata = metadata

    @classmethod
    def parse(cls, text: str) -> "Locator":
        """Parse user input."""
        endpoint = EndPoint.parse(text)
        if endpoint._config:
            raise EndpointError(f"locator `{text}` has a config; remove `#` and the text after it")
        return endpoint.locator

    @classmethod
    def from_wire(cls, utf8: bytes | bytearray | memoryview) -> "Locator":
        """Parse a received locator: canonical, without config, any protocol."""
        try:
            text = bytes(utf8).decode()
        except UnicodeDecodeError as error:
            raise EndpointError(f"locator {bytes(utf8)!r} is not UTF-8: {error.reason}") from None
        locator, config = _read(text)
        if config or str(locator) != text:
            raise EndpointError(f"locator `{text}` is not canonical; expected sorted keys and no `#`")
        return locator

    def to_wire(self) -> bytes:
        utf8 = str(self).encode()
        if len(utf8) > MAX_LOCATOR:
            raise EndpointError(f"locator `{self}` has {len(utf8)} bytes; expected at most {MAX_LOCATOR}")
        return utf8

    @property
    def protocol(self) -> str:
        return self._protocol

    @property
    def address(self) -> str:
        return self._address

    @property
    def metadata(self) -> dict[str, str]:
        return _as_dict(self._metadata)

    def host_and_port(self) -> tuple[str, int]:
        """Return host and port. An IPv6 host has no brackets."""
        host, colon, port = self._address.rpartition(":")
        like = f"expected a form like {PROTOCOLS.get(self._protocol, 'tcp/localhost:7447')}"
        if not (colon and host):
            raise EndpointError(f"address of `{self}` has no host and port: {like}")
        if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 0xFFFF):
            raise EndpointError(f"port of `{self}` is not a number up to 65535: {like}")
        if host[0] == "[" and host[-1] == "]":
            from ipaddress import IPv6Address

            host = host[1:-1]
            try:
                IPv6Address(host)
            except ValueError as error:
                raise EndpointError(f"host of `{self}` is not an IPv6 address: {error}") from None
        elif ":" in host or "[" in host or "]" in host:
            raise EndpointError(f"host of `{self}` has colons: write an IPv6 address as [{host.strip('[]')}]:{port}")
        return host, int(port)

    def __str__(self) -> str:
        return f"{self._protocol}/{self._address}{_as_text('?', self._metadata)}"

    def __repr__(self) -> str:
        return f"Locator({redact(str(self))!r})"

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, Locator) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[object, ...]:
        return Locator, (self._protocol, self._address, self._metadata)


class EndPoint:
    """A locator with settings of the local socket: `EndPoint.parse("tcp/localhost:7447#iface=lo;so_rcvbuf=65536")`."""

    __slots__ = ("_config", "_locator")

    def __init__(self, locator: Locator, config: Pairs = ()) -> None:
        self._locator = locator
        self._config = config

    @classmethod
    def parse(cls, text: str) -> "EndPoint":
        """Parse user input. Validate the protocol and the address."""
        locator, config = _read(text)
        if locator.protocol not in PROTOCOLS:
            from difflib import get_close_matches

            near = get_close_matches(locator.protocol.lower(), PROTOCOLS, 1)
            known = f"did you mean `{near[0]}`?" if near else f"expected one of {', '.join(PROTOCOLS)}"
            raise EndpointError(f"endpoint `{text}` has the unknown protocol `{locator.protocol}`; {known}")
        if locator.protocol in HOST_AND_PORT:
            locator.host_and_port()
        return cls(locator, config)

    @property
    def locator(self) -> Locator:
        return self._locator

    @property
    def protocol(self) -> str:
        return self._locator.protocol

    @property
    def address(self) -> str:
        return self._locator.address

    @property
    def metadata(self) -> dict[str, str]:
        return self._locator.metadata

    @property
    def config(self) -> dict[str, str]:
        return _as_dict(self._config)

    def host_and_port(self) -> tuple[str, int]:
        return self._locator.host_and_port()

    def __str__(self) -> str:
        return f"{self._locator}{_as_text('#', self._config)}"

    def __repr__(self) -> str:
        return f"EndPoint({redact(str(self))!r})"

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, EndPoint) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[object, ...]:
        return EndPoint, (self._locator, self._config)


def _read(text: str) -> tuple[Locator, Pairs]:
    rest, hash_sign, config = text.partition("#")
    rest, question_mark, metadata = rest.partition("?")
    protocol, slash, address = rest.partition("/")
    if not (protocol and slash and address):
        raise EndpointError(f"invalid endpoint `{text}`; expected the form protocol/address[?metadata][#config]")
    if not question_mark and "?" in config:
        raise EndpointError(f"invalid endpoint `{text}`; ?metadata must be before #config")
    return Locator(protocol, address, _pairs(text, question_mark, metadata)), _pairs(text, hash_sign, config)


def _pairs(text: str, sign: str, part: str) -> Pairs:
    pairs = [entry.partition("=")[::2] for entry in part.split(";") if entry]
    if sign and (not pairs or not all(key for key, _ in pairs)):
        raise EndpointError(f"invalid endpoint `{text}`; expected {sign}key=value after `{sign}`, or remove it")
    return tuple(sorted(pairs, key=lambda pair: pair[0]))


def _as_text(sign: str, pairs: Pairs) -> str:
    return sign + ";".join(f"{key}={value}" if value else key for key, value in pairs) if pairs else ""


def _as_dict(pairs: Pairs) -> dict[str, str]:
    return dict(reversed(pairs))  # of a repeated key, the first entry applies
