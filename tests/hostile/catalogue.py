# SPDX-License-Identifier: Apache-2.0
"""The form of an attack, and what attacks share.

An attack is a generator. It yields after each step, so that its caller can stop it. `attacker` runs it in a process of its
own. When the node closes a connection, the attack starts again. Connections stay open until the attack ends.
"""

import random
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from tests.hostile.client import CLIENT, CONTROL, Raw, connect, pack
from zenlake.wire.declare import Declare, DeclareEntity
from zenlake.wire.network import Push
from zenlake.wire.zenoh_body import Put

Steps = Iterator[None]
KINDS = SUBSCRIBER, QUERYABLE, TOKEN = 0x02, 0x04, 0x06
CURRENT, FUTURE, BOTH = 1, 2, 3
SUBSCRIBERS, QUERYABLES, TOKENS, AGGREGATE = 0x02, 0x04, 0x08, 0x80
BLOCK = 0x0D  # QoS: priority data, do not drop
LONG = "x" * 60_000
FOREVER = 1 << 40


@dataclass
class Target:
    """A node, its listeners, and the amount of an attack.

    Attributes:
        endpoints: Address of each listener by scheme.
        scale: 1.0 for the short form; counts of things that are sent once grow with it.
        seed: Source of the random choices.
    """

    endpoints: dict[str, str]
    scale: float = 1.0
    seed: int = 0
    links: list[Raw | socket.socket] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def times(self, count: int) -> range:
        """Return a range of `count` x scale."""
        return range(max(1, int(count * self.scale)))

    def connect(self, scheme: str = "tcp") -> socket.socket:
        """Connect without sending a byte."""
        link = connect(self.endpoints[scheme], 5.0)
        self.links.append(link)
        return link

    def raw(self, scheme: str = "tcp") -> Raw:
        """Connect, with TLS and WebSocket handshakes if the scheme has them."""
        link = Raw(self.endpoints[scheme], 5.0)
        self.links.append(link)
        return link

    def open(self, whatami: int = CLIENT, scheme: str = "tcp", **values: object) -> Raw:
        """Open a session in a role."""
        return self.raw(scheme).open(whatami=whatami, **values)

    def close(self) -> None:
        """Close all connections without a word."""
        for link in self.links:
            link.close()
        self.links.clear()


@dataclass(frozen=True)
class Attack:
    """An entry of the catalogue."""

    name: str
    steps: Callable[[Target], Steps]
    needs: tuple[str, ...]
    sessions: int
    refusal: str
    family: str
    about: str


CATALOGUE: dict[str, Attack] = {}


def attack(
    *variants: object, needs: tuple[str, ...] = ("tcp",), sessions: int = 2, refusal: str | dict[str, str] = ""
) -> Callable[[Callable[..., Steps]], Callable[..., Steps]]:
    """Add a generator to the catalogue, once for each variant.

    Args:
        variants: Values of the argument after `target`. The name of the entry ends with the variant.
        needs: Listeners that the attack uses.
        sessions: Sessions that the attack has open at the same time.
        refusal: Resource whose limit the attack reaches, for all variants or by variant. The trial makes that limit tiny and
            expects its counter.
    """

    def add(steps: Callable[..., Steps]) -> Callable[..., Steps]:
        name = steps.__name__.replace("_", "-")
        about = (steps.__doc__ or "").partition("\n")[0]
        for variant in variants or (None,):
            if variant is None:
                assert isinstance(refusal, str)
                CATALOGUE[name] = Attack(name, steps, needs, sessions, refusal, steps.__module__, about)
                continue

            def chosen(target: Target, variant: object = variant) -> Steps:
                return steps(target, variant)

            links = (str(variant),) if needs == ("variant",) else needs
            full = f"{name}-{variant}"
            limit = refusal if isinstance(refusal, str) else refusal.get(str(variant), "")
            CATALOGUE[full] = Attack(full, chosen, links, sessions, limit, steps.__module__, about)
        return steps

    return add


def subscribe(id: int, key: str, kind: int = SUBSCRIBER) -> bytes:
    """Return a declaration of a subscriber, a queryable or a token."""
    return bytes(Declare(body=DeclareEntity(kind=kind, id=id, key=key)).encode())


def put(key: str, payload: bytes = b"", qos: int | None = None) -> bytes:
    """Return a PUSH with a PUT."""
    return bytes(Push(key=key, body=Put(payload=payload), **({} if qos is None else {"qos": qos})).encode())


def read_available(link: Raw) -> None:
    """Read what has arrived and forget it."""
    link.socket.setblocking(False)
    with suppress(BlockingIOError):
        while link.socket.recv(1 << 18):
            pass
    link.socket.settimeout(5.0)


def declare_many(link: Raw, count: int, key: str = "many/{}", kind: int = SUBSCRIBER) -> Steps:
    """Declare `count` entities, in large batches."""
    for payload in pack(subscribe(number + 1, key.format(number), kind) for number in range(count)):
        link.say(payload, priority=CONTROL)
        read_available(link)
        yield
