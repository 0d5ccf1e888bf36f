# SPDX-License-Identifier: Apache-2.0
"""Wire bytes to `samples`, and back, compared with the callback and the `put` of zenoh-python.

The peer runs in its own process. A bare socket sends to it or drains it, so that only the peer itself limits the rate. Both sides
process the same messages, of a hundred robots in turn. "Plain" messages have a declared key, QoS and a timestamp. "Full" messages
also have a schema, source info and an attachment. The fair peer is a callback that reads the same fields. A callback that only
counts is shown beside it.
"""

import os
import socket
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.compute as pc

from bench import raw
from bench.report import Ratio, Result, show
from zenlake.columns import Decoder, Encoder
from zenlake.core.batch_schema import BATCHES_SCHEMA
from zenlake.core.encoding import Encoding
from zenlake.core.identifiers import EntityGlobalId, SourceInfo, Timestamp, ZenohId
from zenlake.wire.declare import Declare, DeclareKeyExpr
from zenlake.wire.network import Push
from zenlake.wire.transport import Frame
from zenlake.wire.zenoh_body import Put

KEY = "fleet/robot17/pose"
ROBOTS = 100  # their messages alternate, so that each row differs from the previous one
BATCH = 48_000  # the real node accepts at most 49152 on TCP over loopback
THREE = ["key", "timestamp", "payload"]

SUBSCRIBER = """
import sys, time, zenoh
config = zenoh.Config()
for name, value in {
    "mode": '"peer"', "listen/endpoints": '["tcp/127.0.0.1:%d"]' % int(sys.argv[1]), "scouting/multicast/enabled": "false",
    "transport/shared_memory/enabled": "false",
}.items():
    config.insert_json5(name, value)
count = 0
def counts(sample):
    global count
    count += 1
def reads_three(sample):
    global count
    count += 1
    sample.key_expr, sample.timestamp, bytes(sample.payload)
def reads_all(sample):
    global count
    count += 1
    sample.key_expr, sample.timestamp, bytes(sample.payload), sample.kind, sample.encoding, sample.source_info
    sample.attachment, sample.priority, sample.congestion_control, sample.express
callback = {"counts": counts, "three": reads_three, "all": reads_all}[sys.argv[2]]
session = zenoh.open(config)
subscriber = session.declare_subscriber("**", callback)
print("ready", flush=True)
for line in sys.stdin:
    before, start = count, time.perf_counter()
    time.sleep(float(line))
    print((count - before) / (time.perf_counter() - start), flush=True)
"""

PUBLISHER = """
import sys, time, zenoh
config = zenoh.Config()
for name, value in {
    "mode": '"client"', "connect/endpoints": '["tcp/127.0.0.1:%d"]' % int(sys.argv[1]), "scouting/multicast/enabled": "false",
    "transport/shared_memory/enabled": "false",
}.items():
    config.insert_json5(name, value)
session = zenoh.open(config)
payload = b"x" * int(sys.argv[2])
put = session.put
print("ready", flush=True)
for line in sys.stdin:
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < float(line):
        for _ in range(1000):
            put("fleet/robot17/pose", payload, congestion_control=zenoh.CongestionControl.BLOCK)
        count += 1000
    print(count / (time.perf_counter() - start), flush=True)
"""


def message(size: int, full: bool, robot: int = 0) -> bytes:
    zid = ZenohId.from_wire(bytes(range(robot + 1, robot + 17)))
    values: dict[str, object] = {"payload": b"x" * size}
    values["timestamp"] = Timestamp.from_wire((time.time_ns() // 1_000_000_000 << 32) + robot, zid.to_wire())
    if full:
        values |= {
            "encoding": Encoding("text/plain;utf-8"),
            "source": SourceInfo(EntityGlobalId(zid, 6), 77),
            "attachment": b"8 bytes.",
        }
    return Push(key=(robot + 1, True, None), qos=0x0D, body=Put(**values)).encode()


def fleet(size: int, full: bool) -> bytes:
    """Return one message of each robot, with its own key, node and timestamp."""
    return b"".join(message(size, full, robot) for robot in range(ROBOTS))


def declaration() -> bytes:
    """Return the keys of all robots. The first is KEY."""
    keys = [KEY, *(f"fleet/robot{100 + robot}/pose" for robot in range(1, ROBOTS))]
    declared = (Declare(qos=8, body=DeclareKeyExpr(id=id, key=key)).encode() for id, key in enumerate(keys, 1))
    return Frame(sn=0, priority=0).encode() + b"".join(declared)


def batches(repeated: bytes, times: int) -> pa.RecordBatch:
    """Return these messages about `times` times, in batches of the size that TCP sessions use."""
    each = BATCH // len(repeated)
    data = [declaration()] + [Frame(sn=sn).encode() + repeated * each for sn in range(times // each)]
    return received(pa.array(data, pa.binary()))


def received(data: pa.Array) -> pa.RecordBatch:
    """Return batches in the schema of a capture or log reader."""
    rows = len(data)
    columns = [
        pa.array(range(rows), pa.int64()).cast(BATCHES_SCHEMA.field("received").type),
        pa.array([0] * rows, pa.int32()),
        pa.array([0] * rows, pa.int8()),
        data,
        pc.add(pc.binary_length(data), 2),
        pa.array([False] * rows, pa.bool_()),
        pa.array(range(1, rows + 1), pa.int64()),
        pa.array([0] * rows, pa.int32()),
    ]
    return pa.record_batch(columns, schema=BATCHES_SCHEMA)


class Stream:
    """An endless stream of blocks of batches, and their decoder.

    All blocks use the same memory, like the buffer of a socket or file reader. So they are in the CPU caches when they are
    decoded, as they are for the peer. Only the sequence numbers change from one block to the next.
    """

    ROWS = 30_000  # in a block of one to five megabytes
    FIRST = 1 << 21  # the first sequence number that takes four bytes

    def __init__(self, repeated: bytes, columns: list[str] | None) -> None:
        each = BATCH // len(repeated)
        frame = Frame(sn=self.FIRST).encode() + repeated * each
        count = self.ROWS // (each * ROBOTS)
        places = range(0, count * len(frame) + 1, len(frame))
        self.data = bytearray(frame * count)
        buffers = [None, pa.array(places, pa.int32()).buffers()[1], pa.py_buffer(self.data)]
        self.block = received(pa.Array.from_buffers(pa.binary(), count, buffers))
        self.places = places[:-1]
        self.sn = self.FIRST
        self.decoder = Decoder({"samples": columns})
        self.decoder.files = ["bench"]
        self.decoder.decode(received(pa.array([declaration()], pa.binary())))

    def decode(self) -> tuple[int, float]:
        """Decode the next block. Return the number of complete rows and the seconds. Rows are dropped before the next block."""
        for at in self.places:
            sn = self.sn
            self.data[at + 1 : at + 5] = (sn & 0x7F | 0x80, sn >> 7 & 0x7F | 0x80, sn >> 14 & 0x7F | 0x80, sn >> 21)
            self.sn += 1
        start = time.perf_counter()
        self.decoder.decode(self.block)
        rows = sum(batch.num_rows for batch in self.decoder.take()["samples"])
        return rows, time.perf_counter() - start

    def rate(self, seconds: float) -> float:
        """Return the rows per second."""
        rows, took = 0, 0.0
        while took < seconds:
            more, longer = self.decode()
            rows, took = rows + more, took + longer
        return rows / took


def encode_rate(samples: pa.RecordBatch) -> float:
    encoder = Encoder()
    start = time.perf_counter()
    for first in range(0, samples.num_rows, 16384):
        encoder.encode(samples.slice(first, 16384))
        encoder.take()
    return samples.num_rows / (time.perf_counter() - start)


class Peer:
    """zenoh-python in its own process. It replies to each line with one measurement."""

    def __init__(self, program: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "RUST_LOG": "error"},
        )  # fmt: skip

    def ready(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == "ready"

    def ask(self, seconds: float) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()

    def answer(self) -> float:
        assert self.process.stdout is not None
        return float(self.process.stdout.readline())

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def callback_rate(repeated: bytes, seconds: float, reads: str) -> float:
    """Return the messages per second that a subscriber's callback receives from a socket with prepared batches."""
    port = free_port()
    peer = Peer(SUBSCRIBER, port, reads)
    try:
        peer.ready()
        link = raw.opened(port)
        raw.send(link, declaration())
        each = BATCH // len(repeated)
        sn, end = 0, time.perf_counter() + seconds + 1.5
        asked = False
        while time.perf_counter() < end:
            raw.send(link, Frame(sn=sn & 0x0FFFFFFF).encode() + repeated * each)
            sn += 1
            if not asked and time.perf_counter() > end - seconds - 1:
                peer.ask(seconds)
                asked = True
        link.close()
        return peer.answer()
    finally:
        peer.stop()


def put_rate(size: int, seconds: float) -> float:
    """Return the `put` calls per second to a socket that only drains."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer = Peer(PUBLISHER, listener.getsockname()[1], size)
        try:
            link = raw.accepted(listener)
            peer.ready()
            peer.ask(seconds)
            link.settimeout(0.5)
            end = time.perf_counter() + seconds + 0.5
            while time.perf_counter() < end:
                try:
                    link.recv(1 << 20)
                except TimeoutError:
                    break
            link.close()
            return peer.answer()
        finally:
            peer.stop()


def run(quick: bool) -> list[Result]:
    seconds, count, repeats = (0.6, 400_000, 2) if quick else (2.0, 2_000_000, 5)
    results = []
    for size in (64,) if quick else (8, 64):
        for name, full, aim in (("plain", False, 30), ("full", True, 20)):
            round = fleet(size, full)
            what = f"wire to samples, {name}, {size} bytes"
            whole: list[Ratio] = []
            for columns, reads, goal in ((None, "all", aim), (THREE, "three", 80), (None, "counts", None)):
                if (full and reads == "three") or (quick and reads == "counts"):
                    continue
                ratios = [
                    Ratio(Stream(round, columns).rate(seconds / 4), callback_rate(round, seconds, reads))
                    for _ in range(repeats)
                ]
                title = f"{what}, {'three' if columns else 'all'} columns"
                peer = "callback that only counts" if reads == "counts" else "callback that reads the same"
                results.append(Result(title, peer, ratios, goal))
                if reads == "all":
                    whole = ratios
                elif columns:  # the same peer as for all columns
                    beside = [Ratio(ours.ours, theirs.peer) for ours, theirs in zip(ratios, whole, strict=True)]
                    results.append(Result(title, "callback that reads all", beside, goal))
        samples = pa.record_batch({"key": pa.array([KEY] * count), "payload": pa.array([b"x" * size] * count)})
        ratios = [Ratio(encode_rate(samples), put_rate(size, seconds)) for _ in range(repeats)]
        results.append(Result(f"samples to wire, {size} bytes", "put", ratios, 20))
    return results


if __name__ == "__main__":
    show(run("--quick" in sys.argv))
