# SPDX-License-Identifier: Apache-2.0
"""Attacks on the transport: fragments, sequence numbers, compression, WebSocket frames and garbage."""

import itertools
import time
from contextlib import suppress

import lz4.block

from tests import vectors
from tests.hostile.catalogue import (
    BLOCK,
    FOREVER,
    Steps,
    Target,
    attack,
    put,
    subscribe,
)
from tests.hostile.client import CLIENT, CONTROL, PEER, ROUTER, Raw, encode_websocket, frame_batch
from zenlake.errors import DecodeError
from zenlake.wire.network import Oam
from zenlake.wire.transport import Fragment, Frame, KeepAlive


@attack("lanes", "one", "restart", sessions=1)
def fragments(target: Target, what: str) -> Steps:
    """Begin messages in all lanes, or one message without an end, or begin again and again."""
    link = target.open()
    lanes = (
        [(5, True)] if what == "one" else [(priority, reliable) for priority in range(8) for reliable in (False, True)]
    )
    for sn in itertools.count():
        for priority, reliable in lanes:
            first = sn == 0 or what == "restart"
            fragment = Fragment(
                reliable=reliable, more=True, sn=sn & 0xFFFFFFF, priority=priority, first=first, payload=bytes(60_000)
            )
            link.send(fragment.encode())
        yield


@attack("jumps", "repeats", "best-effort", sessions=1)
def sequence_numbers(target: Target, what: str) -> Steps:
    """Jump, repeat or go back in the sequence numbers of every lane."""
    link = target.open()
    body = put("sn/game", bytes(10))
    while True:
        for priority in range(8):
            sn = 5 if what == "repeats" else target.random.getrandbits(28)
            frame = Frame(sn=sn, priority=priority, reliable=what != "best-effort").encode()
            link.send(bytes(frame) + body * 20)
        yield


@attack("block", "garbage", sessions=1)
def compression(target: Target, what: str) -> Steps:
    """Send compressed batches that expand too far, or that are not compressed data."""
    link = target.open(compression=True)
    bomb = lz4.block.compress(bytes(8 << 20), store_size=False)
    while True:
        data = bomb if what == "block" else target.random.randbytes(1000)
        link.send(b"\x01" + data)
        yield


@attack("drop", "block", sessions=3)
def no_reading(target: Target, what: str) -> Steps:
    """Subscribe and never read, while other sessions of the attacker publish."""
    deaf, publisher = target.open(), target.open()
    deaf.say(subscribe(1, "flood/**"), subscribe(2, "honest/**"), priority=CONTROL)
    time.sleep(0.1)
    payload = put("flood/x", bytes(50_000), BLOCK if what == "block" else None)
    while True:
        publisher.say(payload)
        yield


@attack(sessions=1)
def keep_alives(target: Target) -> Steps:
    """Send nothing but keep-alives and empty frames."""
    link = target.open()
    payload = frame_batch(KeepAlive().encode()) * 5_000
    while True:
        link.socket.sendall(payload)
        link.socket.sendall(b"".join(frame_batch(link.frame()) for _ in range(100)))
        yield


@attack("before", "within", needs=("ws",), sessions=1)
def websocket_pings(target: Target, when: str) -> Steps:
    """Send WebSocket pings and never read the pongs, before a session and within one."""
    link = target.raw("ws")
    if when == "within":
        link.open()
    pings = encode_websocket(9, bytes(125)) * 400
    while True:
        link.socket.sendall(pings)
        yield


@attack("close", "continuation", "text", needs=("ws",), sessions=1)
def websocket_frames(target: Target, what: str) -> Steps:
    """Send a WebSocket CLOSE and stay, or a message without an end, or text."""
    link = target.open(scheme="ws")
    link.say(subscribe(1, "honest/**"), priority=CONTROL)
    if what == "close":
        link.send_websocket(8, b"\x03\xe8")
        for _ in target.times(20):
            time.sleep(0.05)
            yield
    link.send_websocket(2 if what == "continuation" else 1, b"a" * 1000, fin=False)
    while True:
        link.send_websocket(0, bytes(60_000), fin=False)
        yield


@attack("tcp", "ws", needs=("variant",), sessions=1)
def random_bytes(target: Target, scheme: str) -> Steps:
    """Send random bytes instead of a handshake, and random messages within a session."""
    for _ in range(FOREVER):
        with suppress(OSError, DecodeError), Raw(target.endpoints[scheme], 5.0) as link:
            if target.random.random() < 0.5:
                link.open()
                link.send(link.frame(target.random.randbytes(300)))
            else:
                link.send(target.random.randbytes(target.random.randrange(1, 400)))
            link.socket.settimeout(0.05)
            link.receive()
        yield


@attack(sessions=1)
def mutated_traffic(target: Target) -> Steps:
    """Replay recorded batches with some bits flipped."""
    recorded = [batch.data for batch in vectors.batches() if batch.data[0] & 0x1F in (4, 5, 6)]
    while True:
        with Raw(target.endpoints["tcp"], 5.0) as link, suppress(ConnectionError):
            link.open(whatami=target.random.choice((ROUTER, PEER, CLIENT)))
            for _ in range(30):
                data = bytearray(target.random.choice(recorded))
                for _ in range(target.random.randrange(4)):
                    data[target.random.randrange(len(data))] ^= 1 << target.random.randrange(8)
                link.send(bytes(data[:60_000]))
        yield


@attack("empty", "unknown", "oam", sessions=1)
def odd_batches(target: Target, what: str) -> Steps:
    """Send batches without content, unknown optional extensions, or unknown management messages, in masses."""
    link = target.open()
    extensions = b"\xbd\x00\x03a/b" + b"\x8f" * 20_000 + b"\x0f\x01\x00"
    content = {"empty": b"", "unknown": extensions, "oam": bytes(Oam(id=77, body=bytes(1000)).encode()) * 50}[what]
    while True:
        if what == "empty":
            link.socket.sendall(bytes(2) * 20_000)
        else:
            link.say(content)
        yield
