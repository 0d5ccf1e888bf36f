# SPDX-License-Identifier: Apache-2.0
"""A large capture decoded by several processes, in order and in bounded memory.

This process makes the plan and hands out ranges while it goes on planning; the workers (`python -m
zenlake.capture.parallel`, so that no script need be safe to import) decode them and leave record batches in memory that
both can see, in segments that are used again once nobody holds what lies in them. A worker waits when too much of its
work has not been taken.
"""

import mmap
import os
import pickle
import socket
import struct
import subprocess
import sys
import tempfile
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from zenlake import capture
from zenlake.capture import PATH, Capture
from zenlake.capture.decoded import ROWS, Decoded, Tables, decode_range, notes_of
from zenlake.capture.decoded import decode as decode_here
from zenlake.capture.ranges import SIZE, Range, size_that_can_be_cut
from zenlake.errors import ZenlakeError

LARGE = 256 << 20  # bytes of a capture that is worth the start of processes
MOST_PROCESSES = 8
CHUNK = 16 << 20  # bytes of record batches that travel together
AHEAD = 256 << 20  # bytes that a worker may be ahead of whoever takes them
HEADER = struct.Struct("=cqi")  # what, how many bytes, in which segment

JOB, TAKEN, FREE, BATCHES, DONE, FAILED = b"J", b"T", b"R", b"B", b"D", b"F"

Keep = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def processes_for(files: list[str]) -> int:
    """How many processes a capture is worth: one, unless it is large, can be cut, and the machine has more cores."""
    if not sys.executable or not hasattr(socket, "send_fds"):
        return 1
    if size_that_can_be_cut(files) < LARGE:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_PROCESSES)


def decode(
    paths: PATH | Iterable[PATH],
    tables: Tables,
    *,
    processes: int | None = None,
    keep: Keep | None = None,
    rows: int = ROWS,
    size: int = SIZE,
) -> Decoded:
    """As `decoded.decode`, by as many processes as the capture is worth or as are asked for.

    `keep` is applied to a table's record batches where they are decoded; `size` is that of a range.
    """
    source = capture.open(paths)
    if processes is None:
        processes = processes_for(source.files)
    if processes < 2:
        return kept(decode_here(source, tables, rows), keep)
    return decode_there(source, tables, processes, keep, rows, size)


def kept(found: Decoded, keep: Keep | None) -> Decoded:
    for table, batch in found:
        for each in [batch] if keep is None else keep(iter([batch])):
            yield table, each


def decode_there(source: Capture, tables: Tables, processes: int, keep: Keep | None, rows: int, size: int) -> Decoded:
    plan = source.plan(size)
    ranges = plan.ranges()
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker()) for _ in range(processes)]
        given: deque[Worker] = deque()
        turn = 0
        while True:
            while len(given) < 2 * processes and (each := next(ranges, None)) is not None:
                workers[turn].give((each, dict(tables), rows, keep))
                given.append(workers[turn])
                turn = (turn + 1) % processes
            if not given:
                break
            yield from given.popleft().results()
    yield from kept(notes_of(plan, tables), keep)


class Lease:
    """Keeps a segment from being written again; record batches hold on to it."""


class Worker:
    """One process, as this one sees it."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        self.segments: dict[int, pa.Buffer] = {}
        self.free: deque[int] = deque()  # of which nobody holds a record batch any more; told with the next message
        package = str(Path(__file__).parents[2])
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "zenlake.capture.parallel", str(theirs.fileno())],
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        self.process.kill()
        self.process.wait()

    def give(self, job: tuple[Range, Tables, int, Keep | None]) -> None:
        with shared() as file:
            pickle.dump(job, file, protocol=5)
            file.flush()
            send(self.socket, JOB, file.tell(), fd=file.fileno())

    def results(self) -> Decoded:
        """What becomes of the oldest job given."""
        while True:
            kind, size, segment, memory = receive(self.socket)
            if kind == DONE:
                return
            if kind == FAILED and memory is not None:
                raise pickle.loads(memory[:size])
            if kind != BATCHES:
                code = self.process.wait()
                raise ZenlakeError(f"a decoding process ended with {code}; with processes=1 there is none")
            if memory is not None:
                self.segments[segment] = pa.py_buffer(memory)
            lease = Lease()
            weakref.finalize(lease, self.free.append, segment)
            stream = pa.ipc.open_stream(
                pa.foreign_buffer(self.segments[segment].address, size, (lease, self.segments[segment]))
            )
            del lease
            table = stream.schema.metadata[b"zenlake.table"].decode()
            yield from ((table, batch) for batch in stream)
            del stream
            send(self.socket, TAKEN, size)
            while self.free:
                send(self.socket, FREE, 0, self.free.popleft())


# What both ends do.


def shared() -> Any:
    """A file in memory, where there is such a thing."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("zenlake"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def send(to: socket.socket, kind: bytes, size: int, segment: int = -1, fd: int | None = None) -> None:
    message = HEADER.pack(kind, size, segment)
    if fd is None:
        to.sendall(message)
    else:
        socket.send_fds(to, [message], [fd])


def receive(of: socket.socket) -> tuple[bytes, int, int, mmap.mmap | None]:
    """What came, and the memory that came with it. A closed connection is nothing of size 0."""
    data, descriptors = b"", list[int]()
    try:
        data, descriptors, _, _ = socket.recv_fds(of, HEADER.size, 1)
        while 0 < len(data) < HEADER.size:
            data += of.recv(HEADER.size - len(data))
    except ConnectionError:
        pass
    if len(data) < HEADER.size:
        return b"", 0, -1, None
    memory = None
    for fd in descriptors:
        memory = mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
        os.close(fd)
    return (*HEADER.unpack(data), memory)


# The worker.


class Work:
    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.jobs: deque[mmap.mmap] = deque()
        self.segments: list[Any] = []  # files in shared memory
        self.free: list[int] = []
        self.ahead = 0

    def run(self) -> None:
        while self.listen(while_ahead=False):
            job = self.jobs.popleft()
            try:
                self.decode(*pickle.loads(job))
            except ConnectionError:
                return
            except Exception as error:  # whoever asked is told, and decides
                with shared() as file:
                    file.write(pickle.dumps(error))
                    send(self.link, FAILED, file.tell(), fd=file.fileno())
            else:
                send(self.link, DONE, 0)

    def decode(self, of: Range, tables: Tables, rows: int, keep: Keep | None) -> None:
        gathered: dict[str, list[pa.RecordBatch]] = {name: [] for name in tables}
        sizes = dict.fromkeys(tables, 0)
        for table, batch in kept(decode_range(of, tables, rows), keep):
            gathered[table].append(batch)
            sizes[table] += batch.nbytes
            if sizes[table] >= CHUNK:
                self.send(table, gathered[table])
                gathered[table], sizes[table] = [], 0
        for table, batches in gathered.items():
            self.send(table, batches)

    def send(self, table: str, batches: list[pa.RecordBatch]) -> None:
        if not batches:
            return
        schema = batches[0].schema.with_metadata({**(batches[0].schema.metadata or {}), b"zenlake.table": table})
        known = pa.ipc.get_record_batch_size
        needed = sum(map(known, batches)) + schema.serialize().size + 1024
        while self.free and os.fstat(self.segments[self.free[-1]].fileno()).st_size < needed:
            self.segments[self.free.pop()].close()  # too small
        if new := not self.free:
            self.free.append(len(self.segments))
            self.segments.append(shared())
            self.segments[-1].truncate(max(needed, 2 * CHUNK))
        segment = self.free.pop()
        file = self.segments[segment]
        file.seek(0)
        with pa.ipc.new_stream(file, schema) as sink:
            for batch in batches:
                sink.write_batch(batch)
        self.ahead += file.tell()
        send(self.link, BATCHES, file.tell(), segment, file.fileno() if new else None)
        self.listen(while_ahead=True)

    def listen(self, while_ahead: bool) -> bool:
        """Until there is a job, or until enough was taken. False = nobody is there any more."""
        while self.ahead > AHEAD if while_ahead else not self.jobs:
            kind, size, segment, memory = receive(self.link)
            if kind == JOB and memory is not None:
                self.jobs.append(memory)
            elif kind == TAKEN:
                self.ahead -= size
            elif kind == FREE:
                self.free.append(segment)
            else:
                return False
        return True


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as link:
        Work(link).run()
