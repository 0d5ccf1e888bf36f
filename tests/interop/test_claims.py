# SPDX-License-Identifier: Apache-2.0
"""Neighbours of another version, or with false claims: one clear log line, and others are unaffected."""

import logging
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.interop.nodes import Ours
from zenlake.wire.batch_reader import messages
from zenlake.wire.framing import Splitter, add_prefix
from zenlake.wire.handshake import Close, Init, Open
from zenlake.wire.network import Push
from zenlake.wire.transport import Fragment, Frame
from zenlake.wire.zenoh_body import Put

CLIENT = 2
MANDATORY = b"\x1e"  # extension 14, unknown, mandatory, without a value
ZID = bytes([7] * 16)


class Stranger:
    """A client that sends raw bytes."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 15)
        self._batches = Splitter()

    def write(self, *parts: bytes) -> None:
        self._socket.sendall(add_prefix(b"".join(parts)))

    def read(self) -> list[Any]:
        """Return the messages of the next batch, or none at the end of the connection."""
        while True:
            for batch in self._batches:
                return messages(batch)
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionResetError:
                return []
            if not data:
                return []
            self._batches.feed(data)

    def open(self, **claims: object) -> None:
        self.write(Init(whatami=CLIENT, zid=ZID, **claims).encode())
        [ack] = self.read()
        assert isinstance(ack, Init)
        self.write(Open(lease=60_000, initial_sn=0, cookie=ack.cookie.value).encode())
        assert isinstance(self.read()[0], Open)

    def is_closed(self, seconds: float) -> bool:
        """Return whether the router closes the connection within this time."""
        self._socket.settimeout(seconds)
        try:
            while found := self.read():
                if any(isinstance(message, Close) for message in found):
                    return True
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        self._socket.close()


def put(key: str) -> bytes:
    encoded: bytes = Push(key=key, body=Put(payload=b"1")).encode()
    return encoded


def version_8(stranger: Stranger) -> None:
    stranger.write(Init(whatami=CLIENT, zid=ZID, version=8).encode())


def mandatory_in_init(stranger: Stranger) -> None:
    syn = Init(whatami=CLIENT, zid=ZID, patch=1).encode()
    assert syn[-2:] == b"\x27\x01"
    stranger.write(syn[:-2] + b"\xa7\x01" + MANDATORY)


def mandatory_in_open(stranger: Stranger) -> None:
    stranger.write(Init(whatami=CLIENT, zid=ZID).encode())
    [ack] = stranger.read()
    assert isinstance(ack, Init)
    syn = Open(lease=60_000, initial_sn=0, cookie=ack.cookie.value).encode()
    stranger.write(bytes([syn[0] | 0x80]) + syn[1:] + MANDATORY)


def mandatory_in_push(stranger: Stranger) -> None:
    stranger.open()
    push = put("claims/x")
    stranger.write(Frame(sn=0, reliable=True).encode(), bytes([push[0] | 0x80]) + push[1:11] + MANDATORY + push[11:])


def fragments_without_markers(stranger: Stranger) -> None:
    """Patch 1, since 1.0.3, marks the first fragment. This neighbour claims patch 1 and does not mark fragments."""
    stranger.open(patch=1)
    data = put("claims/x")
    stranger.write(Fragment(sn=0, reliable=True, more=True, payload=data[:5]).encode())
    stranger.write(Fragment(sn=1, reliable=True, more=False, payload=data[5:]).encode())


def priorities_without_qos(stranger: Stranger) -> None:
    stranger.open(qos=False)
    stranger.write(Frame(sn=0, reliable=True, priority=1).encode(), put("claims/x"))


def compression_without_header(stranger: Stranger) -> None:
    stranger.open(compression=True)
    stranger.write(Frame(sn=0, reliable=True).encode(), put("claims/x"))


@pytest.fixture
def router(ports: Iterator[int]) -> Iterator[tuple[Ours, int]]:
    port = next(ports)
    node = Ours("router", (), (f"tcp/127.0.0.1:{port}",))
    yield node, port
    node.close()


@pytest.mark.parametrize(
    ("misbehave", "is_refused", "reason"),
    [
        (version_8, True, "protocol version 8 is not supported; expected 9"),
        (mandatory_in_init, True, "INIT.exts at byte 21: unknown mandatory extension"),
        (mandatory_in_open, True, "OPEN.exts at byte 49: unknown mandatory extension"),
        (mandatory_in_push, True, "PUSH.exts at byte 15: unknown mandatory extension"),
        (priorities_without_qos, True, "frame of priority 1 on a session without QoS"),
        (fragments_without_markers, False, ""),
    ],
)
def test_one_line_names_the_reason_and_others_are_unaffected(
    router: tuple[Ours, int], misbehave: Callable[[Stranger], None], is_refused: bool, reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    _, port = router
    where = (f"tcp/127.0.0.1:{port}",)
    subscriber, publisher = Ours("client", where), Ours("client", where)
    subscriber.do("sub", "s", "claims/**")
    stranger = Stranger(port)
    with caplog.at_level(logging.INFO):
        misbehave(stranger)
        assert stranger.is_closed(10.0 if is_refused else 0.5) is is_refused
    publisher.do("put", "claims/honest", "1")
    assert subscriber.events.wait("sample", "s")[0][0] == "claims/honest"
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    if reason:
        [line] = lines
        assert reason in line
        assert line.startswith("tcp/127.0.0.1:")  # the neighbour that caused it
    for each in (stranger, subscriber, publisher):
        each.close()


def test_batches_without_their_compression_header_are_read_as_the_agreement_says(router: tuple[Ours, int]) -> None:
    """The router did not negotiate compression, so no byte is misread."""
    _, port = router
    subscriber = Ours("client", (f"tcp/127.0.0.1:{port}",))
    subscriber.do("sub", "s", "claims/**")
    stranger = Stranger(port)
    compression_without_header(stranger)
    assert subscriber.events.wait("sample", "s")[0][0] == "claims/x"
    stranger.close()
    subscriber.close()
