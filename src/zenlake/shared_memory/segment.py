# SPDX-License-Identifier: Apache-2.0
"""Files of shared memory: `/dev/shm/<number>.zenoh`.

Every process that uses a segment holds a shared lock on its file. The process that gets the exclusive lock is the last
user, and removes the file. A file without any lock was left by a process that ended without cleaning up.
"""

import contextlib
import fcntl
import mmap
import os
import stat
import sys
import time
from typing import Final

from zenlake.shared_memory.atomics import AVAILABLE
from zenlake.shared_memory.fault_guard import copy_mapped, guard

__all__ = ["FOLDER", "SegmentError", "SharedSegment", "is_available", "remove_orphans"]

FOLDER: Final = "/dev/shm"
SUFFIX: Final = ".zenoh"
ATTEMPTS = 100
NEW = 10.0
"""Seconds. A younger file without a lock may belong to a process that has not locked it yet."""


class SegmentError(Exception):
    """A segment is missing or unusable, or a reference does not name valid bytes in it."""


def is_available() -> bool:
    """Return whether this process can use shared memory at all."""
    return (
        AVAILABLE
        and sys.platform == "linux"
        and sys.byteorder == "little"
        and sys.maxsize > 1 << 32
        and os.access(FOLDER, os.R_OK | os.W_OK | os.X_OK)
    )


class SharedSegment:
    """An open and locked segment file. Create one with `create` or `open`."""

    def __init__(self, id: int, fd: int) -> None:
        self.id = id
        self.fd = fd
        self._map: mmap.mmap | None = None

    @classmethod
    def create(cls, bits: int, size: int, reserve: bool = False) -> "SharedSegment":
        """Create a zeroed segment of `size` bytes under a free number of at most `bits` bits.

        With `reserve`, its memory is allocated now, so that it can be mapped and written safely.

        Raises:
            OSError: The folder is missing, full or not writable.
        """
        for _ in range(ATTEMPTS):
            id = int.from_bytes(os.urandom(bits // 8), "little")
            try:
                fd = os.open(path_of(id), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                continue
            segment = cls(id, fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                if reserve:  # Safety: a page that a full filesystem cannot provide later raises SIGBUS
                    os.posix_fallocate(fd, 0, size)
                else:
                    os.ftruncate(fd, size)
                if segment.is_linked():
                    return segment
            except BlockingIOError:  # another process is removing it: it was not locked yet
                os.close(fd)
                continue
            except BaseException:
                segment.close()
                raise
            os.close(fd)
        raise OSError(f"no free segment number in {FOLDER} after {ATTEMPTS} attempts")

    @classmethod
    def open(cls, id: int, smallest: int = 1) -> "SharedSegment":
        """Open the segment of another process.

        Raises:
            SegmentError: It is missing, smaller than `smallest` bytes, or not a regular file of this user.
        """
        try:
            fd = os.open(path_of(id), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise SegmentError(f"segment {id}: {error.strerror}") from None
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                raise SegmentError(f"segment {id} is not a regular file of this user")
            if found.st_size < smallest:
                raise SegmentError(f"segment {id} has {found.st_size} bytes; expected at least {smallest}")
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            raise SegmentError(f"segment {id}: {error.strerror}") from None
        except SegmentError:
            os.close(fd)
            raise
        return cls(id, fd)

    @property
    def size(self) -> int:
        """Size of the file now."""
        return os.fstat(self.fd).st_size

    def is_linked(self) -> bool:
        """Return whether the file is still in the folder."""
        return os.fstat(self.fd).st_nlink > 0

    def map(self) -> mmap.mmap:
        """Map the whole file, guarded. The mapping lives until `close`.

        Raises:
            OSError: It cannot be mapped.
        """
        if self._map is None:
            made = mmap.mmap(self.fd, self.size, mmap.MAP_SHARED)
            guard(made)
            self._map = made
        return self._map

    def read_into(self, buffer: memoryview, at: int) -> bool:
        """Copy bytes into a buffer. Return False if the file has fewer bytes, also if it was truncated during the copy."""
        mapping = self.map()
        if at + len(buffer) > len(mapping):
            return False
        copy_mapped(mapping, at, buffer)
        return at + len(buffer) <= self.size

    def write(self, data: bytes | memoryview, at: int) -> None:
        """Write bytes, or raise OSError if the filesystem is full. A write to the mapping would end the process instead."""
        view = memoryview(data)
        while len(view):
            size = os.pwrite(self.fd, view, at)
            view, at = view[size:], at + size

    def close(self) -> None:
        """Unlock the segment. The last user removes the file."""
        if self.fd < 0:
            return
        fd, self.fd = self.fd, -1
        if self._map is not None:
            with contextlib.suppress(BufferError):  # the application has a view, which keeps the mapping
                self._map.close()
            self._map = None
        remove_if_unused(fd, path_of(self.id))

    def abandon(self) -> None:
        """Close the file without removing it: after a fork, the parent still uses it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def path_of(id: int) -> str:
    return f"{FOLDER}/{id}{SUFFIX}"


def remove_if_unused(fd: int, path: str) -> bool:
    """Close a segment file, and remove it if no other process has it open. Return whether it was removed."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.stat(path, follow_symlinks=False)
        own = os.fstat(fd)
        if (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino):
            os.unlink(path)
            return True
    except OSError:
        pass  # in use, or already removed
    finally:
        os.close(fd)
    return False


def remove_orphans() -> int:
    """Remove the segments of this user that no process has open. Return their number.

    Safety: the exclusive lock is granted only if every process that had the segment open has ended or closed it. A file that is
    only a few seconds old stays, because its creator may not have locked it yet.
    """
    removed = 0
    latest = time.time() - NEW
    try:
        entries = list(os.scandir(FOLDER))
    except OSError:
        return 0
    for entry in entries:
        if not (entry.name.endswith(SUFFIX) and entry.name[: -len(SUFFIX)].isdecimal()):
            continue
        try:
            found = entry.stat(follow_symlinks=False)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_ctime > latest:
                continue
            fd = os.open(entry.path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            continue
        removed += remove_if_unused(fd, entry.path)
    return removed
