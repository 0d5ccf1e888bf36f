# SPDX-License-Identifier: Apache-2.0
"""A writer in its own process, which ends at a named point by SIGKILL or a simulated power cut.

    python -m tests.log.storm LOG SYNC POINT AFTER POWER [MIRROR]

It numbers its batches and prints the last acknowledged number. When POINT is reached for the AFTER-th time, it ends by SIGKILL.
With POWER=1, unsynced data is then lost: the ends of files are truncated or filled with zeros.
"""

import os
import random
import signal
import sys

import pyarrow.fs as pafs

from zenlake.log import Mirror, Writer
from zenlake.log import writer as write
from zenlake.log.disk import Disk
from zenlake.wire.network import Push
from zenlake.wire.transport import Frame
from zenlake.wire.zenoh_body import Put

write.LARGE_HEAD = 0


class Failing(Disk):
    def __init__(self, point, after, power):
        self.point, self.after, self.power = point, after, power
        self.durable = {}  # file -> size
        self.paths = {}
        self.created = {}  # paths whose folder entry is not synced

    def fault_point(self, point):
        if point == self.point:
            self.after -= 1
            if self.after == 0:
                self.die()

    def die(self):
        if self.power:
            for file, path in self.paths.items():
                if not path.exists():
                    continue
                if path in self.created:
                    path.unlink()
                    continue
                size = path.stat().st_size
                synced = self.durable.get(file, 0)
                if size > synced:  # some pages were written, some were not, some are zeros
                    r = random.Random(size)
                    keep = r.randrange(synced, size + 1)
                    with path.open("r+b") as f:
                        f.truncate(keep)
                        if r.random() < 0.5:
                            f.truncate(size)
        os.kill(os.getpid(), signal.SIGKILL)

    def create(self, path):
        self.fault_point("create")
        file = super().create(path)
        self.paths[file] = path
        self.durable[file] = 0
        if path.suffix != ".index":  # an index can be rebuilt from its segment
            self.created[path] = True
        return file

    def close(self, file):
        self.paths.pop(file, None)
        super().close(file)

    def write(self, file, data, at):
        if self.point == "write" and self.after == 1 and file in self.paths:
            super().write(file, memoryview(data).cast("B")[: len(data) // 2], at)
        if file in self.paths:
            self.fault_point("write")
        super().write(file, data, at)

    def write_together(self, file, pieces, at):
        self.write(file, b"".join(pieces), at)

    def write_directly(self, file, direct, pieces, at):
        front, data, *_ = pieces
        if self.point == "write" and self.after == 1:
            Disk().write_directly(file, direct, [front, data[: len(data) // 2]], at)
        self.fault_point("write")
        Disk().write_directly(file, direct, pieces, at)

    def sync(self, file):
        self.fault_point("sync")
        super().sync(file)
        self.durable[file] = os.fstat(file).st_size

    def sync_folder(self, folder):
        super().sync_folder(folder)
        self.created.clear()


def main(path, sync, point, after, power, mirror=None):
    disk = Failing(point, int(after), power == "1")
    sync = sync if sync in ("block", "sealed") else float(sync)
    writer = Writer(path, "w", sync=sync, block_size=2000, segment_size=12000, disk=disk)
    copy = Mirror(path, "w", mirror, pafs.LocalFileSystem(), disk) if mirror else None
    writer.on_seal = lambda segment: copy.catch_up() if copy else None
    face = writer.face("tcp", "10.0.0.1:40000", "10.0.0.2:7447")
    first = int(os.environ["FIRST"])
    marks = []  # (offset, number): all numbers up to this one lie before that offset
    for number in range(first, first + 3000):
        batch = Frame(sn=number).encode() + Push(key="n", body=Put(payload=b"%d" % number + b"x" * 80)).encode()
        writer.append(face, 0, batch)
        if number % 10 == 9:
            acknowledged = writer.flush()
            marks.append(((writer.segment, writer.block), number))
            while marks and marks[0][0] <= acknowledged:
                sys.stdout.write(f"{marks.pop(0)[1]}\n")
            sys.stdout.flush()
    writer.close()
    sys.stdout.write("all\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
