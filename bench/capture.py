# SPDX-License-Identifier: Apache-2.0
"""Capture to `samples`, compared with dpkt, which parses the same file down to the TCP payload. Run: python -m bench.capture

Two captures are generated: small packets (about 150 bytes, one PUT each) and full ones (1500 bytes on the link, batches
of 8 KiB across them). The peer does less: it finds no flows, orders no segments and splits no batches. Both are measured
in CPU seconds, which a busy machine affects least.

One large flow is then decoded to `samples` by one thread and by two, each in its own process. One reader takes all rows in order.
"""

import itertools
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import dpkt

import zenlake.capture
from bench.report import Ratio, Result, show
from zenlake.capture.decode import decode

ZID = bytes(range(1, 17))
SERVER = (bytes([10, 0, 0, 1]), 7447)
INIT_SYN = bytes([0x41, 9, 0xF2]) + ZID + bytes([0x0A, 0xFF, 0xFF])
INIT_ACK = bytes([0x61, 9, 0xF0]) + ZID + bytes([0x0A, 0xFF, 0xFF]) + b"\x04cook"
OPEN_SYN = bytes([0x42, 10, 0]) + b"\x04cook"
OPEN_ACK = bytes([0x62, 10, 0])


def vle(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n])


def batch(sn: int, payload: bytes) -> bytes:
    put = b"\x01" + vle(len(payload)) + payload
    body = b"\x25" + vle(sn) + b"\x3d\x00\x08demo/key" + put
    return struct.pack("<H", len(body)) + body


class Connection:
    """Packets of one session, in order."""

    def __init__(self, i: int) -> None:
        client = (bytes([10, 0, 1, i + 1]), 40000 + i)
        self.ends = (client, SERVER)
        self.seq = [1000, 2000]

    def packet(self, side: int, payload: bytes, flags: int = 0x18) -> bytes:
        (src, sport), (dst, dport) = self.ends[side], self.ends[1 - side]
        tcp = struct.pack(">HHIIBBHHH", sport, dport, self.seq[side], self.seq[1 - side], 0x50, flags, 65535, 0, 0)
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + len(payload), 0, 0x4000, 64, 6, 0, src, dst)
        self.seq[side] = (self.seq[side] + len(payload) + (flags & 2) // 2) & 0xFFFFFFFF
        return b"\x02\0\0\0\0\1\x02\0\0\0\0\2\x08\x00" + ip + tcp + payload

    def handshake(self) -> Iterator[bytes]:
        yield self.packet(0, b"", 0x02)
        yield self.packet(1, b"", 0x12)
        for side, body in ((0, INIT_SYN), (1, INIT_ACK), (0, OPEN_SYN), (1, OPEN_ACK)):
            yield self.packet(side, struct.pack("<H", len(body)) + body)


def small(connection: Connection, count: int) -> Iterator[bytes]:
    payload = b"x" * 70
    for sn in range(count):
        yield connection.packet(0, batch(sn & 0xFFFFFFF, payload))


def full(connection: Connection, count: int) -> Iterator[bytes]:
    stream = bytearray()
    sn = 0
    for _ in range(count):
        while len(stream) < 1446:
            stream += batch(sn, b"y" * 8160)
            sn += 1
        yield connection.packet(0, bytes(stream[:1446]))
        del stream[:1446]


def write(path: Path, sessions: list[Iterator[bytes]]) -> None:
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
        turns = itertools.chain.from_iterable(itertools.zip_longest(*sessions))
        for i, packet in enumerate(p for p in turns if p):
            file.write(struct.pack("<IIII", 1_700_000_000 + i // 1_000_000, i % 1_000_000, len(packet), len(packet)))
            file.write(packet)


def with_dpkt(path: Path, limit: int) -> tuple[float, int]:
    """Return the CPU seconds per packet and the number of packets, at most `limit`."""
    count = size = 0
    start = time.process_time()
    with path.open("rb") as file:
        for _, data in dpkt.pcap.Reader(file):
            payload = dpkt.ethernet.Ethernet(data).data.data.data
            size += len(payload)
            count += 1
            if count == limit:
                break
    return (time.process_time() - start) / count, count


def with_zenlake(path: Path, columns: list[str] | None) -> float:
    """Return the CPU seconds for the whole file."""
    start = time.process_time()
    for _ in decode(zenlake.capture.open(path), {"samples": columns}):
        pass
    return time.process_time() - start


def measure(
    name: str, make: Callable[[Connection, int], Iterator[bytes]], count: int, aim: float | None, repeats: int
) -> Result:
    """Compare packets per CPU second with those of dpkt, over the same file."""
    sessions = 4
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.pcap"
        connections = [Connection(i) for i in range(sessions)]
        write(path, [itertools.chain(c.handshake(), make(c, count // sessions)) for c in connections])
        packets = count // sessions * sessions + 6 * sessions
        size = path.stat().st_size
        with_zenlake(path, None)
        ratios, rates = [], []
        for _ in range(repeats):
            peer, _ = with_dpkt(path, 50_000)
            seconds = with_zenlake(path, None)
            ratios.append(Ratio(packets / seconds, 1 / peer))
            rates.append(size / seconds / 1e9)
    title = f"capture to samples, {size // packets} bytes a packet, {name}, {max(rates):.2f} GB/s"
    return Result(title, "dpkt, packets", ratios, aim)


def one_flow(connection: Connection, size: int) -> Iterator[bytes]:
    """Yield packets with batches of 30 samples of 200 bytes, which span packets."""
    put = b"\x01" + vle(200) + b"z" * 200
    stream = bytearray()
    sn = 0
    for _ in range(size // 1500):
        while len(stream) < 1446:
            body = b"\x25" + vle(sn & 0xFFFFFFF) + (b"\x3d\x00\x08demo/key" + put) * 30
            stream += struct.pack("<H", len(body)) + body
            sn += 1
        yield connection.packet(0, bytes(stream[:1446]))
        del stream[:1446]


DECODE = """
import sys, time
from zenlake.capture.parallel import decode
start, computed = time.perf_counter(), time.process_time()
rows = 0
for _, batch in decode(sys.argv[1], {"samples": None}, threads=int(sys.argv[2])):
    rows += batch.num_rows
    del batch
seconds, computed = time.perf_counter() - start, time.process_time() - computed
with open("/proc/self/status") as status:  # of this program only; getrusage includes its parent before exec
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(seconds, computed, peak >> 10, rows)
"""


class Decoding(NamedTuple):
    seconds: float
    computed: float  # CPU seconds
    peak: int  # MiB
    rows: int


def by_threads(path: Path, count: int) -> Decoding:
    command = [sys.executable, "-c", DECODE, str(path), str(count)]
    env = {**os.environ, "ZENLAKE_CACHE": "off"}
    fields = subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout.split()
    return Decoding(float(fields[0]), float(fields[1]), int(fields[2]), int(fields[3]))


def measure_flow(size: int, repeats: int) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "flow.pcap"
        connection = Connection(0)
        write(path, [itertools.chain(connection.handshake(), one_flow(connection, size))])
        pairs = [(by_threads(path, 1), by_threads(path, 2)) for _ in range(repeats)]
    assert len({each.rows for pair in pairs for each in pair}) == 1
    ratios = [Ratio(size / two.seconds, size / one.seconds) for one, two in pairs]
    computed = statistics.median(two.computed / one.computed for one, two in pairs)
    peaks = "/".join(str(max(each.peak for each in some)) for some in zip(*pairs, strict=True))
    title = (
        f"one flow of {size >> 20} MiB, to samples by two threads, {computed:.2f}x the processor time, peak {peaks} MiB"
    )
    return Result(title, "one thread, bytes", ratios, 1.6)


def run(quick: bool) -> list[Result]:
    scale = 0.2 if quick else 1.0
    flow = measure_flow((128 if quick else 2048) << 20, 2 if quick else 5)
    repeats = 3 if quick else 5
    return [
        flow,
        measure("one PUT each", small, int(1_000_000 * scale), 20, repeats),
        measure("batches across packets", full, int(200_000 * scale), None, repeats),
    ]


if __name__ == "__main__":
    show(run("--quick" in sys.argv))
