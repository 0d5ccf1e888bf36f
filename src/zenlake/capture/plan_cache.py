# SPDX-License-Identifier: Apache-2.0
"""Plan cache: the second reading of a large capture starts to decode immediately.

The planning pass stores its ranges in a file of the user's cache. The name is a hash of everything that the ranges depend
on: the files (path, size, modification time), the limits, and the version of Zenlake. A plan that cannot be written, or
is incomplete, is ignored.

Safety: plans are pickles. They are read only from a folder that belongs to this user and is not writable by others. They
are never stored beside a capture, which may come from an untrusted source.

    ZENLAKE_CACHE=/some/folder   instead of ~/.cache/zenlake
    ZENLAKE_CACHE=off            disable the cache
"""

import hashlib
import os
import pickle
import struct
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa

from zenlake import __version__
from zenlake.capture.diagnostics import Diagnostic
from zenlake.capture.splits import Limits, Split, SplitPlan, splittable_size
from zenlake.core.cache_folder import cache_folder

__all__ = ["CachedPlan"]

MIN_CAPTURE = 64 << 20  # minimum size in bytes of a capture whose plan is cached
MAX_CACHE = 1 << 30  # limit in bytes of all plans together; the oldest are removed
SETTLED = 2.0  # seconds: a file modified within this time may change again with the same modification time
CODE = ("capture", "columns", "session", "wire")

MAGIC = b"ZLPLAN1\n"
HEAD = struct.Struct("<QQI")  # of a chunk: compressed size, uncompressed size, checksum
ZSTD = pa.Codec("zstd", compression_level=1)


class CachedPlan:
    """A `splits.SplitPlan` that is stored in the cache, or loaded from it.

    `notes` and `name` are complete after the last range.
    """

    def __init__(self, files: list[str], limits: Limits, size: int, carry: bool) -> None:
        self.files = files
        self._made = (files, limits, size)
        self._carry = carry
        self._notes: list[Diagnostic] = []
        self._names: dict[int, str] = {}

    def ranges(self) -> Generator[Split]:
        path = self._path()
        given = 0
        if path is not None:
            with suppress(OSError, ValueError, EOFError, pickle.UnpicklingError, pa.ArrowException):
                for piece in _pieces(path):
                    if isinstance(piece, Split):
                        yield piece
                        given += 1
                    else:
                        self._notes, self._names = piece
                        return
        yield from self._find_ranges(given, path)

    def notes(self) -> list[Diagnostic]:
        return self._notes

    def name(self, face: int) -> str:
        return self._names.get(face, "")

    def _find_ranges(self, given: int, path: Path | None) -> Iterator[Split]:
        """Run the pass and skip the ranges that were already returned. The pass is deterministic."""
        plan = SplitPlan(*self._made, self._carry)
        with PlanWriter(path) as kept:
            for i, each in enumerate(plan.ranges()):
                kept.add(replace(each, carried=None))
                if i >= given:
                    yield each
            self._notes = plan.notes()
            self._names = {note.face: plan.name(note.face) for note in self._notes}
            if path is not None and path == self._path():  # the files are unchanged
                kept.add((self._notes, self._names))
                kept.finish(path)

    def _path(self) -> Path | None:
        """Return the path of this plan in the cache, or None if it is not cached."""
        files, limits, size = self._made
        try:
            where = cache_folder("captures")
            if where is None or splittable_size(files) < MIN_CAPTURE:
                return None
            stats = [os.stat(file) for file in files]
            if max(stat.st_mtime for stat in stats) > time.time() - SETTLED:
                return None
        except OSError:
            return None
        about = [(os.path.abspath(f), s.st_size, s.st_mtime_ns, s.st_ino) for f, s in zip(files, stats, strict=True)]
        key = repr((__version__, _code(), files, about, limits, size))
        return where / f"{hashlib.sha256(key.encode()).hexdigest()[:40]}.plan"


class PlanWriter:
    """A plan that is being written: visible when complete, abandoned at the first error."""

    def __init__(self, path: Path | None) -> None:
        self._file: Any = None
        if path is not None:
            with suppress(OSError):
                self._file = tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False)  # noqa: SIM115
        self._write(MAGIC)

    def __enter__(self) -> "PlanWriter":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:  # the pass was abandoned
            self._give_up()

    def add(self, piece: object) -> None:
        if self._file is not None:
            plain = pickle.dumps(piece, protocol=5)
            packed = ZSTD.compress(plain, asbytes=True)
            self._write(HEAD.pack(len(packed), len(plain), crc32(packed)) + packed)
            if self._file is not None and self._file.tell() > MAX_CACHE:
                self._give_up()

    def finish(self, path: Path) -> None:
        if self._file is None:
            return
        try:
            self._file.close()
            os.replace(self._file.name, path)
        except OSError:
            self._give_up()
        self._file = None
        _make_room(path)

    def _write(self, data: bytes) -> None:
        try:
            if self._file is not None:
                self._file.write(data)
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                os.unlink(file.name)
            with suppress(OSError):
                file.close()


def _pieces(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise ValueError
        while True:
            packed, plain, checksum = HEAD.unpack(file.read(HEAD.size).ljust(HEAD.size, b"\0"))
            data = file.read(packed)
            if not packed or crc32(data) != checksum:
                raise EOFError
            yield pickle.loads(ZSTD.decompress(data, plain, asbytes=True))


def _make_room(kept: Path) -> None:
    """Remove the oldest plans, and partial files that a crash left."""
    with suppress(OSError):
        found = sorted((each.stat().st_mtime, each.stat().st_size, each) for each in kept.parent.iterdir())
        total = sum(size for _, size, _ in found)
        for changed, size, each in found:
            abandoned = each.name.startswith(".") and changed < time.time() - 86400
            if each != kept and (total > MAX_CACHE or abandoned):
                each.unlink(missing_ok=True)
                total -= size


def _code() -> int:
    """Return a value that changes with the meaning of the pickled data.

    The version alone is not enough during the development of Zenlake.
    """
    root = Path(__file__).parents[1]
    return max(entry.stat().st_mtime_ns for name in CODE for entry in os.scandir(root / name) if entry.is_file())
