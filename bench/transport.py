# SPDX-License-Identifier: Apache-2.0
"""Throughput and round trips of one connection over loopback TCP.

Throughput is compared with a bare socket that moves the same bytes. The round trip of a single message is compared with a bare
blocking socket and with asyncio.

There are two processes: a sender, and a receiver that counts. The bare socket writes chunks of the size of a batch and reads into
one buffer. The transport encodes, queues and numbers each message, and decodes and delivers each at the other end. Both ends of a
round trip are of the same kind. In ours, the sending thread blocks until the reply arrives.

    python -m bench.transport
"""

import asyncio
import os
import queue
import socket
import subprocess
import sys
import time

from bench.report import Ratio, Result, show
from zenlake.core.enums import WhatAmI
from zenlake.runtime.connection import Connection, ConnectionOwner
from zenlake.runtime.connection_manager import ConnectionManager
from zenlake.transport.rx import Sink
from zenlake.transport.settings import Settings
from zenlake.wire.network import Push
from zenlake.wire.zenoh_body import Put

SIZES = {64: 600_000, 65_536: 12_000}
KEY = "bench/transport"
ECHOES = 20_000
LONE = bytes(64)


class Count(Sink):
    """A sink that counts messages, and prints a line when all have arrived."""

    def __init__(self) -> None:
        self.left = int(sys.argv[2])

    def on_message(self, kind: int, reader: object) -> int:
        self.left -= 1
        if self.left == 0:
            print("done", flush=True)
        return 0


class Receiver(ConnectionOwner):
    def sink(self, face: Connection) -> Sink:
        return Count()


def receive() -> None:
    runtime = ConnectionManager(Settings(os.urandom(15) + b"\x01", WhatAmI.ROUTER), Receiver())
    print(runtime.listen("tcp/127.0.0.1:0"), flush=True)
    sys.stdin.read()
    runtime.close()


def receive_bare() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(f"tcp/127.0.0.1:{server.getsockname()[1]}", flush=True)
        peer, _ = server.accept()
        left = int(sys.argv[2])
        buffer = bytearray(262144)
        with peer:
            while left > 0:
                left -= peer.recv_into(buffer)
        print("done", flush=True)


class Echo(Sink):
    """A sink that sends a message back for each one received."""

    def __init__(self, face: Connection) -> None:
        self.face = face

    def on_message(self, kind: int, reader: object) -> int:
        self.face.send(Push(key=KEY, body=Put(payload=LONE)))
        return 0


class Echoing(ConnectionOwner):
    def sink(self, face: Connection) -> Sink:
        return Echo(face)


class Hear(Sink):
    """A sink that notifies a thread of each message."""

    def __init__(self, heard: "queue.SimpleQueue[None]") -> None:
        self.heard = heard

    def on_message(self, kind: int, reader: object) -> int:
        self.heard.put(None)
        return 0


class Hearing(ConnectionOwner):
    def __init__(self) -> None:
        self.heard: queue.SimpleQueue[None] = queue.SimpleQueue()

    def sink(self, face: Connection) -> Sink:
        return Hear(self.heard)


def echo() -> None:
    runtime = ConnectionManager(Settings(os.urandom(15) + b"\x01", WhatAmI.ROUTER), Echoing())
    print(runtime.listen("tcp/127.0.0.1:0"), flush=True)
    sys.stdin.read()
    runtime.close()


def echo_bare() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(f"tcp/127.0.0.1:{server.getsockname()[1]}", flush=True)
        peer, _ = server.accept()
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with peer:
            while data := peer.recv(65536):
                peer.sendall(data)
    sys.stdin.read()


def echo_asyncio() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()
        asyncio.get_running_loop().stop()

    async def begin() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        print(f"tcp/127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(begin())
    loop.run_forever()
    sys.stdin.read()


def echoes(count: int) -> float:
    """Return the seconds for `count` round trips in sequence."""
    process, where = partner("echo", 0)
    node = Hearing()
    runtime = ConnectionManager(Settings(os.urandom(15) + b"\x01"), node)
    face = runtime.open(where, 5.0)
    message = Push(key=KEY, body=Put(payload=LONE))
    began = time.perf_counter()
    for _ in range(count):
        face.send(message)
        node.heard.get()
    took = time.perf_counter() - began
    runtime.close()
    finish(process)
    return took


def bare_echoes(count: int) -> float:
    process, where = partner("echo_bare", 0)
    data = Push(key=KEY, body=Put(payload=LONE)).encode()
    with socket.create_connection(("127.0.0.1", int(where.rpartition(":")[2]))) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = time.perf_counter()
        for _ in range(count):
            sock.sendall(data)
            sock.recv(65536)
        took = time.perf_counter() - began
    finish(process)
    return took


def asyncio_echoes(count: int) -> float:
    process, where = partner("echo_asyncio", 0)
    data = Push(key=KEY, body=Put(payload=LONE)).encode()

    async def ask() -> float:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(where.rpartition(":")[2]))
        began = time.perf_counter()
        for _ in range(count):
            writer.write(data)
            await reader.read(65536)
        took = time.perf_counter() - began
        writer.close()
        return took

    took = asyncio.run(ask())
    finish(process)
    return took


def partner(role: str, amount: int) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.transport", role, str(amount)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def finish(process: subprocess.Popen[str]) -> None:
    process.communicate()


def through_transport(size: int, count: int) -> tuple[float, int]:
    """Return the seconds, and the bytes that were sent over the socket."""
    process, where = partner("receive", count)
    runtime = ConnectionManager(Settings(os.urandom(15) + b"\x01"), ConnectionOwner())
    face = runtime.open(where, 5.0)
    message = Push(key=KEY, body=Put(payload=bytes(size)))
    began = time.perf_counter()
    for _ in range(count):
        face.send(message, congestion=1)
    assert process.stdout is not None
    process.stdout.readline()
    took = time.perf_counter() - began
    runtime.close()
    finish(process)
    return took, count * (len(message.encode()) + (10 if size > 1000 else 0))


def through_socket(amount: int) -> float:
    process, where = partner("receive_bare", amount)
    chunk = bytes(65535)
    with socket.create_connection(("127.0.0.1", int(where.rpartition(":")[2]))) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = time.perf_counter()
        left = amount
        while left > 0:
            sock.sendall(memoryview(chunk)[: min(left, len(chunk))])
            left -= len(chunk)
        assert process.stdout is not None
        process.stdout.readline()
        took = time.perf_counter() - began
    finish(process)
    return took


def run(quick: bool) -> list[Result]:
    results = []
    for size, count in SIZES.items():
        amount = count // 8 if quick else count
        ratios = []
        for _ in range(3):
            took, moved = through_transport(size, amount)
            ratios.append(Ratio(moved / took, moved / through_socket(moved)))
        aim = 0.5 if size > 1000 else None
        results.append(Result(f"one connection over TCP, messages of {size} bytes", "bare socket, bytes", ratios, aim))
    count = ECHOES // 8 if quick else ECHOES
    rounds = [(count / echoes(count), count / bare_echoes(count), count / asyncio_echoes(count)) for _ in range(3)]
    name = "a lone message and its answer over TCP"
    results.append(Result(name, "bare blocking sockets", [Ratio(ours, bare) for ours, bare, _ in rounds]))
    results.append(Result(name, "asyncio at both ends", [Ratio(ours, through) for ours, _, through in rounds]))
    return results


if __name__ == "__main__":
    parts = (receive, receive_bare, echo, echo_bare, echo_asyncio)
    roles = {part.__name__: part for part in parts}
    if len(sys.argv) > 1 and sys.argv[1] in roles:
        roles[sys.argv[1]]()
    else:
        show(run("--quick" in sys.argv))
