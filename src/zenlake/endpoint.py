# SPDX-License-Identifier: Apache-2.0
"""Where a node can be reached: `protocol/address[?metadata][#config]`.

The part before `#` is a *locator*: nodes tell each other theirs (HELLO, gossip), so it has one canonical text, with
sorted keys. `#config` is for the socket at this end and never travels. Both lists are `key=value` separated by `;`.

What a user writes is checked for a protocol we have heard of and an address it can use. What a peer sends may name a
protocol that we have not: it is kept, and nobody connects to it.
"""

from zenlake.errors import EndpointError
from zenlake.redact import redact

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
LONGEST = 255  # bytes of a locator on the wire

Pairs = tuple[tuple[str, str], ...]


class Locator:
    """An address as nodes tell it each other: `Locator.parse("tcp/[::1]:7447?prio=1-3")`."""

    __slots__ = ("_address", "_metadata", "_protocol")

    def __init__(self, protocol: str, address: str, metadata: Pairs = ()) -> None:
        self._protocol = protocol
        self._address = address
        self._metadata = metadata

    @classmethod
    def parse(cls, text: str) -> "Locator":
        """Reads what a user wrote."""
        endpoint = EndPoint.parse(text)
        if endpoint._config:
            raise EndpointError(f"locator `{text}` cannot have a config: remove `#` and what follows")
        return endpoint.locator

    @classmethod
    def from_wire(cls, utf8: bytes | bytearray | memoryview) -> "Locator":
        """Reads what a peer sent: canonical, without config, of any protocol."""
        try:
            text = bytes(utf8).decode()
        except UnicodeDecodeError as error:
            raise EndpointError(f"locator {bytes(utf8)!r} is not UTF-8: {error.reason}") from None
        locator, config = _read(text)
        if config or str(locator) != text:
            raise EndpointError(f"locator `{text}` is not canonical: keys are sorted and there is no `#`")
        return locator

    def to_wire(self) -> bytes:
        utf8 = str(self).encode()
        if len(utf8) > LONGEST:
            raise EndpointError(f"locator `{self}` has {len(utf8)} bytes, and {LONGEST} is the most that can be sent")
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
        """Of a `host:port` address; an IPv6 host comes without its brackets."""
        host, colon, port = self._address.rpartition(":")
        like = f"it must be like {PROTOCOLS.get(self._protocol, 'tcp/localhost:7447')}"
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
    """A locator and how to open or accept there: `EndPoint.parse("tcp/localhost:7447#iface=lo;so_rcvbuf=65536")`."""

    __slots__ = ("_config", "_locator")

    def __init__(self, locator: Locator, config: Pairs = ()) -> None:
        self._locator = locator
        self._config = config

    @classmethod
    def parse(cls, text: str) -> "EndPoint":
        """Reads what a user wrote, and checks that we know the protocol and that the address suits it."""
        locator, config = _read(text)
        if locator.protocol not in PROTOCOLS:
            from difflib import get_close_matches

            near = get_close_matches(locator.protocol.lower(), PROTOCOLS, 1)
            known = f"did you mean `{near[0]}`?" if near else f"the known ones are {', '.join(PROTOCOLS)}"
            raise EndpointError(f"endpoint `{text}` has an unknown protocol `{locator.protocol}`: {known}")
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
        raise EndpointError(f"endpoint `{text}` is not of the form protocol/address[?metadata][#config]")
    if not question_mark and "?" in config:
        raise EndpointError(f"endpoint `{text}` has its parts the wrong way round: ?metadata comes before #config")
    return Locator(protocol, address, _pairs(text, question_mark, metadata)), _pairs(text, hash_sign, config)


def _pairs(text: str, sign: str, part: str) -> Pairs:
    pairs = [entry.partition("=")[::2] for entry in part.split(";") if entry]
    if sign and (not pairs or not all(key for key, _ in pairs)):
        raise EndpointError(f"endpoint `{text}` has nothing usable after `{sign}`: write {sign}key=value, or remove it")
    return tuple(sorted(pairs, key=lambda pair: pair[0]))


def _as_text(sign: str, pairs: Pairs) -> str:
    return sign + ";".join(f"{key}={value}" if value else key for key, value in pairs) if pairs else ""


def _as_dict(pairs: Pairs) -> dict[str, str]:
    return dict(reversed(pairs))  # of a key that is there twice, the first counts
