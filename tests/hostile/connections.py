# SPDX-License-Identifier: Apache-2.0
"""Attacks on listeners and handshakes."""

import itertools
import os
import socket
import time
from contextlib import suppress

from tests import vectors
from tests.hostile.catalogue import (
    BOTH,
    FOREVER,
    SUBSCRIBERS,
    TOKEN,
    TOKENS,
    Steps,
    Target,
    attack,
    put,
    read_available,
    subscribe,
)
from tests.hostile.client import CLIENT, CONTROL, Raw, connect, frame_batch
from zenlake.errors import DecodeError
from zenlake.wire.declare import Interest
from zenlake.wire.handshake import Init, Open


@attack("tcp", "tls", "ws", "wss", "unix", needs=("variant",), sessions=0)
def silent(target: Target, scheme: str) -> Steps:
    """Connect and send nothing."""
    for _ in target.times(300):
        target.connect(scheme)
        yield


@attack(needs=("quic",), sessions=0)
def quic_initials(target: Target) -> Steps:
    """Send the first packet of a QUIC handshake from many addresses."""
    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.connection import QuicConnection

    host, port = target.endpoints["quic"].removeprefix("quic/").split(":")
    for _ in target.times(300):
        link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        target.links.append(link)
        connection = QuicConnection(configuration=QuicConfiguration(is_client=True, alpn_protocols=["hq-29"]))
        connection.connect((host, int(port)), now=time.time())
        for data, _ in connection.datagrams_to_send(now=time.time()):
            link.sendto(data, (host, int(port)))
        yield


@attack("udp", "quic", needs=("variant",), sessions=0)
def random_datagrams(target: Target, scheme: str) -> Steps:
    """Send random datagrams, half of them with the first byte of a QUIC Initial or of an INIT."""
    host, port = target.endpoints[scheme].partition("/")[2].split(":")
    for number in itertools.count():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
            for _ in range(50):
                data = target.random.randbytes(target.random.choice((3, 40, 1200)))
                first = b"" if number % 2 else b"\xc3\x00\x00\x00\x01" if scheme == "quic" else b"\x81\x09"
                link.sendto(first + data, (host, int(port)))
        yield


@attack("tcp", "tls", "ws", "unix", needs=("variant",), sessions=0)
def drip(target: Target, scheme: str) -> Steps:
    """Send the handshake of each connection one byte at a time."""
    init = frame_batch(Init(whatami=CLIENT, zid=os.urandom(16), patch=1).encode())
    data = b"\x16\x03\x01\x02\x00\x01" if scheme == "tls" else b"GET / HTTP/1.1\r\nHost: x" if scheme == "ws" else init
    links = []
    for _ in target.times(60):
        links.append(target.connect(scheme))
        yield
    for byte in data:
        for link in links:
            with suppress(ConnectionError):
                link.sendall(bytes([byte]))
        time.sleep(0.05)
        yield


@attack("tcp", "tls", "ws", "unix", needs=("variant",), sessions=0)
def half_handshake(target: Target, scheme: str) -> Steps:
    """Send INIT, read the reply, and stop there."""
    for _ in target.times(200):
        target.raw(scheme).init()
        yield


@attack(sessions=0)
def forged_cookie(target: Target) -> Steps:
    """Send OPEN with cookies that the node did not make."""
    for _ in range(FOREVER):
        with Raw(target.endpoints["tcp"], 5.0) as link:
            link.send(
                Open(lease=1000, initial_sn=0, cookie=target.random.randbytes(target.random.randrange(300))).encode()
            )
            link.receive()
        yield


@attack("connections", "sessions", "same-id", sessions=1)
def churn(target: Target, what: str) -> Steps:
    """Connect and disconnect as fast as possible, with or without a session."""
    zid = os.urandom(15) + b"\x01"
    for _ in range(FOREVER):
        if what == "connections":
            connect(target.endpoints["tcp"], 5.0).close()
        else:
            with Raw(target.endpoints["tcp"], 5.0) as link:
                link.open(**({"zid": zid} if what == "same-id" else {}))
                if what == "sessions":
                    link.say(subscribe(1, "churn/**"), subscribe(2, "churn/a", TOKEN))
        yield


@attack("silent", "requests", needs=("metrics",), sessions=0)
def metrics_page(target: Target, what: str) -> Steps:
    """Hold connections to the page of metrics, or ask for it as often as possible."""
    for _ in target.times(100 if what == "silent" else FOREVER):
        link = target.connect("metrics")
        if what == "requests":
            link.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        if len(target.links) > 200:
            target.links.pop(0).close()
        yield


@attack(0, 1, 16, 100, sessions=1)
def batch_size(target: Target, size: int) -> Steps:
    """Negotiate batches of a few bytes, subscribe to everything, and let others publish."""
    link = target.open(sized=True, batch_size=size)
    link.send(link.frame(subscribe(1, "**"), priority=CONTROL))
    link.send(link.frame(Interest(mode=BOTH, id=1, options=SUBSCRIBERS | TOKENS, key=None), priority=CONTROL))
    publisher = target.open()
    while True:
        publisher.say(put("size/" + "x" * 100, bytes(5_000)))
        read_available(link)
        yield


@attack("resolution", "lease", "own-id", "extensions", sessions=1)
def handshake_values(target: Target, what: str) -> Steps:
    """Open sessions with the extreme values of one field, or with random extensions."""
    while True:
        with Raw(target.endpoints["tcp"], 5.0) as link, suppress(ConnectionError, DecodeError):
            if what == "resolution":
                link.open(sized=True, resolution=target.random.randrange(16), batch_size=target.random.getrandbits(16))
            elif what == "lease":
                link.open(lease=target.random.choice((0, 1, 2, (1 << 63) - 1)))
            elif what == "own-id":
                with Raw(target.endpoints["tcp"], 5.0).open() as other:
                    link.open(zid=other.peer_zid)
            else:
                blobs = {name: target.random.randbytes(200) for name in ("shm", "auth", "multilink")}
                link.open(low_latency=target.random.random() < 0.5, qos_link=target.random.getrandbits(60) | 1, **blobs)
            link.say(subscribe(1, "values/**"), put("values/x", bytes(100)))
        yield


@attack(sessions=1)
def mutated_handshakes(target: Target) -> Steps:
    """Replay recorded handshakes with some bits flipped."""
    recorded = [batch.data for batch in vectors.batches() if batch.data[0] & 0x1F in (1, 2)]
    while True:
        with Raw(target.endpoints["tcp"], 5.0) as link, suppress(OSError, DecodeError):
            for _ in range(2):
                data = bytearray(target.random.choice(recorded))
                for _ in range(target.random.randrange(3)):
                    data[target.random.randrange(len(data))] ^= 1 << target.random.randrange(8)
                link.send(bytes(data))
                link.receive()
        yield
