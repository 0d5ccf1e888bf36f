# SPDX-License-Identifier: Apache-2.0
"""File operations of the log writer, in one place so that tests can simulate a power cut in any of them."""

import errno
import os
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["PAGE", "Disk"]

MAX_BUFFERS = 64  # per call; systems allow 1,024, POSIX guarantees 16
PAGE = 4096  # alignment of direct writes


class Disk:
    """Files that are appended to, synced and truncated."""

    def create(self, path: Path) -> int:
        """Create a file. It survives a power cut after its folder is synced."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def open(self, path: Path) -> int:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def write(self, file: int, data: bytes | memoryview, at: int) -> None:
        """Write all bytes, or raise an error."""
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            done += os.pwrite(file, view[done:], at + done)

    def write_together(self, file: int, pieces: Sequence[memoryview], at: int) -> None:
        """Write several pieces one after the other, or raise an error. The pieces need not be copied into one buffer."""
        if not hasattr(os, "pwritev"):
            return self.write(file, b"".join(pieces), at)
        left = list(pieces)
        while left:
            done = os.pwritev(file, left[:MAX_BUFFERS], at)
            at += done
            while left and done >= len(left[0]):
                done -= len(left.pop(0))
            if done:
                left[0] = left[0][done:]

    def open_directly(self, path: Path) -> int | None:
        """Open the file a second time for direct writes (O_DIRECT). Return None if the system does not support them."""
        try:
            return os.open(path, os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC)
        except (OSError, AttributeError):
            return None

    def write_directly(self, file: int, direct: int, pieces: Sequence[memoryview], at: int) -> None:
        """Write pieces as `write_together` does, with the whole pages of the second piece written directly.

        The second piece is page-aligned in memory and in the file. Its whole pages are not copied into the page cache. They are
        written after the bytes before them, so that readers never see zeros in their place.
        """
        front, data, *rest = pieces
        self.write(file, front, at)
        at += len(front)
        whole = len(data) - len(data) % PAGE
        done = 0
        try:
            while done < whole:
                done += os.pwrite(direct, data[done:whole], at + done)
        except OSError as error:
            if error.errno != errno.EINVAL:  # not supported by this disk: write the rest through the page cache
                raise
        self.write_together(file, [data[done:], *rest], at + done)

    def sync(self, file: int) -> None:
        os.fdatasync(file)

    def check_in_place(self, file: int, path: Path, size: int) -> str:
        """Describe how another process changed an open file: removed, moved, replaced or truncated. "" if it did not."""
        held = os.fstat(file)
        try:
            there = os.stat(path)
        except OSError as error:
            return f"{path.name} is gone ({error.strerror})"
        if (there.st_dev, there.st_ino) != (held.st_dev, held.st_ino):
            return f"{path.name} was replaced by another file"
        if held.st_size != size:
            return f"{path.name} has {held.st_size} bytes, but {size} were written"
        return ""

    def truncate(self, file: int, size: int) -> None:
        os.ftruncate(file, size)

    def sync_folder(self, folder: Path) -> None:
        """Sync a folder, so that created, renamed and removed entries are durable."""
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def replace(self, path: Path, data: bytes) -> None:
        """Replace a small file atomically, also against concurrent replacements."""
        fresh = path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}.new")
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            self.write(file, data, 0)
            self.sync(file)
        finally:
            os.close(file)
        os.replace(fresh, path)
        self.sync_folder(path.parent)

    def release_held(self, path: Path) -> None:
        """Drop the file from the page cache, if the system supports it."""
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

    def fault_point(self, point: str) -> None:
        """Mark a named point of the writer's work, where tests interrupt it."""
