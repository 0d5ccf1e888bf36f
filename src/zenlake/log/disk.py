# SPDX-License-Identifier: Apache-2.0
"""Every touch of the disk by the writer of a log, so that tests can cut the power in the middle of one."""

import errno
import os
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from zenlake.errors import ZenlakeError

__all__ = ["PAGE", "Disk", "inside", "is_inside"]

MOST_PIECES = 64  # of one call; systems allow 1,024, POSIX promises 16
PAGE = 4096  # what is written directly begins at one, and ends at one


def is_inside(name: str) -> bool:
    """Return whether a relative path stays in its folder, if no part of it is a symbolic link."""
    return bool(name) and "\0" not in name and not name.startswith("/") and ".." not in name.split("/")


def inside(root: Path, name: str, error: type[ZenlakeError]) -> Path:
    """Return the path `name` below `root`, or raise `error` if it leaves `root`: absolute, by `..` or by a symbolic link.

    Names that were read from a log or a lake pass through this function before a file is opened, moved or removed: the log
    or lake may come from another person.
    """
    if not is_inside(name):
        raise error(f"{root} names {name!r}, which is not a path inside it; it was damaged or made to do harm")
    path = root / name
    if not path.resolve().is_relative_to(root.resolve()):
        raise error(f"{path} leads to {path.resolve()}, outside of {root}; replace the symbolic link by the files")
    return path


class Disk:
    """Files that are appended to, synced, and cut back."""

    def create(self, path: Path) -> int:
        """A new file; it is there after a power cut once the folder is synced."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def open(self, path: Path) -> int:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def write(self, file: int, data: bytes | memoryview, at: int) -> None:
        """All of it, or an error."""
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            done += os.pwrite(file, view[done:], at + done)

    def write_together(self, file: int, pieces: Sequence[memoryview], at: int) -> None:
        """All of these, one behind the other, or an error: what lies in several places need not be copied into one before."""
        if not hasattr(os, "pwritev"):
            return self.write(file, b"".join(pieces), at)
        left = list(pieces)
        while left:
            done = os.pwritev(file, left[:MOST_PIECES], at)
            at += done
            while left and done >= len(left[0]):
                done -= len(left.pop(0))
            if done:
                left[0] = left[0][done:]

    def open_directly(self, path: Path) -> int | None:
        """The file once more, to be written past the system's memory; None if it knows no such way."""
        try:
            return os.open(path, os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC)
        except (OSError, AttributeError):
            return None

    def write_directly(self, file: int, direct: int, pieces: Sequence[memoryview], at: int) -> None:
        """As `write_together`, of pieces of which the second begins at a page, in memory as in the file: its whole pages are not
        copied into the system's memory. They are written behind what precedes them, so that nobody reads them ahead as zeros."""
        front, data, *rest = pieces
        self.write(file, front, at)
        at += len(front)
        whole = len(data) - len(data) % PAGE
        done = 0
        try:
            while done < whole:
                done += os.pwrite(direct, data[done:whole], at + done)
        except OSError as error:
            if error.errno != errno.EINVAL:  # this disk wants it otherwise: the rest goes the usual way
                raise
        self.write_together(file, [data[done:], *rest], at + done)

    def sync(self, file: int) -> None:
        os.fdatasync(file)

    def check_in_place(self, file: int, path: Path, size: int) -> str:
        """Return what another process did to an open file: it was removed, moved, replaced or cut. "" if nothing."""
        held = os.fstat(file)
        try:
            there = os.stat(path)
        except OSError as error:
            return f"{path.name} is gone ({error.strerror})"
        if (there.st_dev, there.st_ino) != (held.st_dev, held.st_ino):
            return f"{path.name} was replaced by another file"
        if held.st_size != size:
            return f"{path.name} has {held.st_size} bytes where {size} were written"
        return ""

    def truncate(self, file: int, size: int) -> None:
        os.ftruncate(file, size)

    def sync_folder(self, folder: Path) -> None:
        """What was created, renamed or removed in it stays so."""
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def replace(self, path: Path, data: bytes) -> None:
        """A small file, old or new but never something between, whoever else replaces it at the same time."""
        fresh = path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}.new")
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            self.write(file, data, 0)
            self.sync(file)
        finally:
            os.close(file)
        os.replace(fresh, path)
        self.sync_folder(path.parent)

    def let_go(self, path: Path) -> None:
        """Whoever reads this file reads it from the disk again, if the system knows how."""
        with suppress(OSError):
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if hasattr(os, "posix_fadvise"):
                    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def close(self, file: int) -> None:
        os.close(file)

    def reached(self, point: str) -> None:
        """A named moment of the writer's work; tests end it here."""
