# SPDX-License-Identifier: Apache-2.0
"""The Python API compared with zenoh-python: the same program runs with either package, each in its own process.

Puts are counted by a bare socket that only drains. Received samples come from a bare socket that sends prepared batches. So
only the package itself limits the rate.
"""

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from bench import raw
from bench.columns import BATCH, Peer, declaration, free_port, message
from bench.report import Ratio, Result, show
from zenlake.wire.transport import Frame

OURS, PEER = "zenlake", "zenoh"
TOGETHER = 8  # batches per system call: the sender must be faster than the measured receiver
PAYLOADS = {8: b"<8bytes>", 64: b"<64 bytes: what a robot says of itself, as short as it can be.>!"}

COMMON = """
import importlib, sys, time
zenoh = importlib.import_module(sys.argv[1])
config = zenoh.Config()
role, where = {"out": ("client", "connect"), "in": ("peer", "listen"), "router": ("router", "listen")}[sys.argv[3]]
for name, value in {
    "mode": '"%s"' % role, where + "/endpoints": '["tcp/127.0.0.1:%d"]' % int(sys.argv[2]),
    "scouting/multicast/enabled": "false", "transport/shared_memory/enabled": "false",
}.items():
    config.insert_json5(name, value)
session = zenoh.open(config)
BLOCK = zenoh.CongestionControl.BLOCK
"""

OUT = (
    COMMON
    + """
key, payload = "fleet/robot17/pose", sys.argv[5].encode()
if sys.argv[4] == "table":
    import pyarrow as pa
    rows = 65536
    table = pa.table({"key": [key] * rows, "payload": [payload] * rows, "congestion": ["block"] * rows})
    def some():
        session.put_table(table)
elif sys.argv[4] == "publisher":
    put = session.declare_publisher(key, congestion_control=BLOCK).put
    def some():
        for _ in range(1000):
            put(payload)
elif sys.argv[4] == "session":
    def some():
        for _ in range(1000):
            session.put(key, payload, congestion_control=BLOCK)
print("ready", flush=True)
for line in sys.stdin:
    end = time.perf_counter() + float(line)
    while time.perf_counter() < end:
        some()
"""
)

IN = (
    COMMON
    + """
count = 0
def reads(sample):
    global count
    count += 1
    sample.key_expr, bytes(sample.payload)
def tables():
    global count
    for batch in subscriber:
        count += batch.num_rows
if sys.argv[4] == "callback":
    subscriber = session.declare_subscriber("**", reads)
else:
    import threading
    subscriber = session.declare_subscriber("**", zenoh.handlers.ArrowChannel())
    threading.Thread(target=tables, daemon=True).start()
print("ready", flush=True)
for line in sys.stdin:
    before, start = count, time.perf_counter()
    time.sleep(float(line))
    print((count - before) / (time.perf_counter() - start), flush=True)
"""
)

ROUTER = COMMON + "print('ready', flush=True)\nsys.stdin.read()\n"

PONG = (
    COMMON
    + """
publisher = session.declare_publisher("test/pong", congestion_control=BLOCK, express=True)
subscriber = session.declare_subscriber(
    "test/ping", zenoh.handlers.Callback(lambda sample: publisher.put(bytes(sample.payload)), indirect=False)
)
print("ready", flush=True)
sys.stdin.read()
"""
)

PING = (
    COMMON
    + """
publisher = session.declare_publisher("test/ping", congestion_control=BLOCK, express=True)
subscriber = session.declare_subscriber("test/pong")
print("ready", flush=True)
for line in sys.stdin:
    end, took = time.perf_counter() + float(line), []
    while time.perf_counter() < end:
        start = time.perf_counter()
        publisher.put(b"<8bytes>")
        subscriber.recv()
        took.append(time.perf_counter() - start)
    print(1 / sorted(took)[len(took) // 2], flush=True)
"""
)

START = COMMON + "session.close()\n"

# The shutdown is not measured: sessions and interpreters end in different ways.
DEFAULT = """
import importlib, os, sys
zenoh = importlib.import_module(sys.argv[1])
session = zenoh.open(zenoh.Config())
os._exit(0)
"""


def put_rate(package: str, how: str, seconds: float, size: int = 8) -> float:
    """Return the messages per second that arrive at the maximum send rate."""
    payload = PAYLOADS[size]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer = Peer(OUT, package, listener.getsockname()[1], "out", how, payload.decode())
        try:
            link = raw.accepted(listener)
            peer.ready()
            peer.ask(seconds + 1)
            link.settimeout(5)
            memory = bytearray(1 << 20)  # reused: the receiver must be faster than the sender

            def drain(seconds: float) -> float:
                """Return the bytes per second."""
                start, size = time.perf_counter(), 0
                while time.perf_counter() < start + seconds:
                    size += link.recv_into(memory)
                return size / (time.perf_counter() - start)

            drain(0.5)  # warm-up
            rate, some = drain(seconds), b""
            while len(some) < 1 << 20:
                some += link.recv(1 << 20)
            return rate * some.count(payload) / len(some)
        finally:
            peer.stop()


def trips(router: str, ends: str, seconds: float) -> float:
    """Return the round trips per second through a router, from their median time."""
    port = free_port()
    peers = []
    try:
        for program, package, role in ((ROUTER, router, "router"), (PONG, ends, "out"), (PING, ends, "out")):
            peers.append(Peer(program, package, port, role))
            peers[-1].ready()
        peers[-1].ask(0.5)
        peers[-1].answer()  # warm-up
        peers[-1].ask(seconds)
        return peers[-1].answer()
    finally:
        for peer in reversed(peers):
            peer.stop()


def receive_rate(package: str, how: str, seconds: float, size: int = 8) -> float:
    """Return the samples per second whose key and payload a callback reads, or that arrive in record batches."""
    one = message(size, False)
    body = one * (BATCH // len(one))
    port = free_port()
    peer = Peer(IN, package, port, "in", how)
    try:
        peer.ready()
        link = raw.opened(port)
        raw.send(link, declaration())
        link.settimeout(None)  # so that `sendmsg` sends all bytes
        sn, end, asked = 0, time.perf_counter() + seconds + 1.5, False
        while time.perf_counter() < end:
            pieces = []
            for _ in range(TOGETHER):
                head = Frame(sn=sn & 0x0FFFFFFF).encode()
                pieces += [(len(head) + len(body)).to_bytes(2, "little") + head, body]
                sn += 1
            link.sendmsg(pieces)
            if not asked and time.perf_counter() > end - seconds - 1:
                peer.ask(seconds)
                asked = True
        link.close()
        return peer.answer()
    finally:
        peer.stop()


def starts(package: str, program: str) -> float:
    """Return the starts per second of a program that imports the package and opens a session.

    The start of the interpreter is subtracted. As in an installation, the modules have bytecode, here in a temporary folder.
    """
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {**os.environ, "RUST_LOG": "error", "PYTHONPYCACHEPREFIX": bytecode}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)

        def took(*command: str) -> float:
            start = time.perf_counter()
            subprocess.run([sys.executable, *command], check=True, env=environment)
            return time.perf_counter() - start

        whole = [took("-c", program, package, "0", "in") for _ in range(4)][1:]
        return 1 / (statistics.median(whole) - statistics.median(took("-c", "pass") for _ in range(3)))


def run(quick: bool) -> list[Result]:
    seconds, repeats = (0.8, 1) if quick else (3.0, 5)
    results = []
    sizes = (8,) if quick else tuple(PAYLOADS)
    for how, against, aim in (("table", "session", 15), ("publisher", "publisher", 3), ("session", "session", 3)):
        name = {"table": "put_table", "publisher": "Publisher.put", "session": "Session.put"}[how]
        for size in sizes:
            ratios = [
                Ratio(put_rate(OURS, how, seconds, size), put_rate(PEER, against, seconds, size))
                for _ in range(repeats)
            ]
            results.append(Result(f"{name}, {size} bytes", "put" if how == "table" else "the same", ratios, aim))
    for how, name, against, aim in (
        ("callback", "callback that reads key and payload", "the same", 2),
        ("table", "ArrowChannel", "a callback", 15),
    ):
        for size in sizes:
            ratios = [
                Ratio(receive_rate(OURS, how, seconds, size), receive_rate(PEER, "callback", seconds, size))
                for _ in range(repeats)
            ]
            results.append(Result(f"{name}, {size} bytes", against, ratios, aim))
    for router, name, aim in (
        (PEER, "ping-pong through their router", 1),
        (OURS, "ping-pong, routers of their own", 2),
    ):
        ratios = [Ratio(trips(router, OURS, seconds), trips(PEER, PEER, seconds)) for _ in range(repeats)]
        results.append(Result(name, "the same", ratios, aim))
    for program, name in (
        (START, "import, open and close"),
        (DEFAULT, "import and open, default configuration"),  # scouting waits half a second for other nodes
    ):
        ratios = [Ratio(starts(OURS, program), starts(PEER, program)) for _ in range(repeats)]
        results.append(Result(name, "the same", ratios, 1))
    return results


if __name__ == "__main__":
    show(run("--quick" in sys.argv))
