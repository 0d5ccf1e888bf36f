# SPDX-License-Identifier: Apache-2.0
"""What nodes of older versions need from a router, over TCP: our router and the real one send the same messages.

The other ends are bytes on sockets, so no old version is installed. `tests/network/test_versions.py` has the exact bytes.
"""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.interop.nodes import Ours, Theirs
from zenlake.wire.batch_reader import messages
from zenlake.wire.declare import Declare, DeclareEntity, DeclareFinal, DeclareKeyExpr, Interest, UndeclareEntity
from zenlake.wire.framing import Splitter, add_prefix
from zenlake.wire.handshake import Init, Open
from zenlake.wire.message_base import Message
from zenlake.wire.network import Request, Response
from zenlake.wire.transport import Frame, KeepAlive
from zenlake.wire.zenoh_body import Put, Query, Reply

SUB, QBL, TOK = 2, 4, 6
KEY, TOKENS, AGGREGATE = 0x10, 0x08, 0x80
CLIENT = 2
Connect = Callable[[], "Raw"]


class Raw:
    """A client that sends and receives raw messages."""

    def __init__(self, port: int, zid: bytes) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 15)
        self._batches = Splitter()
        self._sn = 0
        self._barrier = 1000
        self._write(Init(whatami=CLIENT, zid=zid, patch=1))
        [ack] = self._read()
        self._write(Open(lease=60_000, initial_sn=0, cookie=ack.cookie.value))
        assert isinstance(self._read()[0], Open)

    def close(self) -> None:
        self._socket.close()

    def _write(self, *parts: Message) -> None:
        self._socket.sendall(add_prefix(b"".join(part.encode() for part in parts)))

    def _read(self) -> list[Any]:
        while True:
            for batch in self._batches:
                return messages(batch)
            data = self._socket.recv(1 << 16)
            assert data, "the router closed the connection"
            self._batches.feed(data)

    def say(self, *parts: Message) -> list[Any]:
        """Send, and return the messages since the last call, up to the reply to a last interest of our own."""
        self._barrier += 1
        last = Interest(mode=1, id=self._barrier, options=TOKENS | KEY, key="barrier/none")
        self._write(Frame(sn=self._sn, reliable=True), *parts, last)
        self._sn += 1
        heard: list[Any] = []
        while True:
            for message in self._read():
                if isinstance(message, Declare) and message.interest_id == self._barrier:
                    return heard
                if not isinstance(message, Frame | KeepAlive):
                    heard.append(message)


@pytest.fixture(params=["ours", "1.10.2"])
def connect(request: pytest.FixtureRequest, ports: Iterator[int]) -> Iterator[Connect]:
    port = next(ports)
    where = (f"tcp/127.0.0.1:{port}",)
    router: Any = Ours("router", (), where) if request.param == "ours" else Theirs("router", (), where)
    made: list[Raw] = []

    def one() -> Raw:
        made.append(Raw(port, bytes([len(made) + 1] * 16)))
        made[-1].say()
        return made[-1]

    yield one
    for raw in made:
        raw.close()
    router.close()


def declare(kind: int, id: int, key: str, info: int = 0) -> Declare:
    return Declare(body=DeclareEntity(kind=kind, id=id, key=key, info=info))


def undeclare(kind: int, id: int) -> Declare:
    return Declare(body=UndeclareEntity(kind=kind + 1, id=id))


class Names:
    """The keys of a router's declarations, by the ids that it chose."""

    def __init__(self) -> None:
        self._keys: dict[int, str] = {}
        self._ids: dict[tuple[int, int], str] = {}

    def read(self, heard: list[Any]) -> list[tuple[Any, ...]]:
        """Return (sign, kind, key, info) of each declaration, "final" for the end of an interest's reply."""
        found: list[tuple[Any, ...]] = []
        for message in heard:
            body = message.body
            if isinstance(body, DeclareKeyExpr):
                self._keys[body.id] = body.key.suffix.text
            elif isinstance(body, DeclareFinal):
                found.append(("final", message.interest_id))
            elif isinstance(body, DeclareEntity):
                key = self._keys.get(body.key.scope, "") + (body.key.suffix.value or b"").decode()
                self._ids[body.kind, body.id] = key
                found.append(("+", body.kind, key, body.info))
            else:
                found.append(("-", body.kind - 1, self._ids[body.kind - 1, body.id]))
        return found


def test_the_key_of_a_response_is_in_full(connect: Connect) -> None:
    """Cases A and B of the version matrix: clients up to 1.7.2."""
    asker, queryable = connect(), connect()
    queryable.say(declare(QBL, 1, "k/x"))
    asker.say(Declare(body=DeclareKeyExpr(id=1, key="k/x")))
    asker.say(Request(id=7, key=(1, True, None), body=Query()))
    [request] = [message for message in queryable.say() if isinstance(message, Request)]
    queryable.say(Response(id=request.id, key="k/x", body=Reply(body=Put(payload=b"1"))))
    [response] = [message for message in asker.say() if isinstance(message, Response)]
    assert response.key.value == (0, True, "k/x")


@pytest.mark.parametrize(("kind", "option"), [(SUB, 0x02), (QBL, 0x04)])
def test_an_aggregate_exists_while_a_declaration_intersects_it(connect: Connect, kind: int, option: int) -> None:
    """Case C of the version matrix: the rule since 1.7.0."""
    asker, other, names = connect(), connect(), Names()
    info = 1 if kind == QBL else 0
    other.say(declare(kind, 1, "k/a", info), declare(kind, 2, "k/**", info))
    heard = asker.say(Interest(mode=3, id=1, options=option | AGGREGATE | KEY, key="k/a"))
    assert names.read(heard) == [("+", kind, "k/a", info), ("final", 1)]
    other.say(undeclare(kind, 1))
    assert names.read(asker.say()) == []
    other.say(undeclare(kind, 2))
    assert names.read(asker.say()) == [("-", kind, "k/a")]


def test_an_aggregate_is_complete_while_a_queryable_that_includes_it_is(connect: Connect) -> None:
    asker, other, names = connect(), connect(), Names()
    other.say(declare(QBL, 1, "k/a", 1), declare(QBL, 2, "k/b", 1))
    heard = asker.say(Interest(mode=3, id=1, options=0x04 | AGGREGATE | KEY, key="k/*"))
    assert names.read(heard) == [("+", QBL, "k/*", 0), ("final", 1)]
    other.say(declare(QBL, 3, "k/*", 1))
    assert names.read(asker.say()) == [("+", QBL, "k/*", 1)]
    other.say(undeclare(QBL, 3))
    assert names.read(asker.say()) == [("+", QBL, "k/*", 0)]


def test_a_client_is_sent_its_own_tokens(connect: Connect) -> None:
    """Case E of the version matrix: the rule since 1.9.0."""
    client, names = connect(), Names()
    client.say(declare(TOK, 1, "t/1"))
    heard = client.say(Interest(mode=1, id=2, options=TOKENS | KEY, key="t/*"))
    assert names.read(heard) == [("+", TOK, "t/1", 0), ("final", 2)]
    assert names.read(client.say(Interest(mode=2, id=3, options=TOKENS | KEY, key="t/*"))) == [("final", 3)]
    assert names.read(client.say(declare(TOK, 4, "t/2"))) == [("+", TOK, "t/2", 0)]
    assert names.read(client.say(undeclare(TOK, 4))) == [("-", TOK, "t/2")]


@pytest.mark.parametrize(
    ("version", "shared", "release"),
    [
        ("1.0.4", False, "1.0 to 1.5, or newer without shared memory"), ("1.6.2", True, "1.6 or newer"),
        ("1.10.2", True, "1.6 or newer"),
    ],
)  # fmt: skip
def test_the_likely_release_of_a_neighbour(version: str, shared: bool, release: str) -> None:
    router = Ours("router", (), ("tcp/127.0.0.1:0",))
    client = Theirs("client", router.locators, (), version, **{"transport/shared_memory/enabled": shared})
    try:
        [face] = router.node.faces()
        assert router.node.release_of(face.zid) == release
    finally:
        client.kill()
        router.close()
