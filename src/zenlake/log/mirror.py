# SPDX-License-Identifier: Apache-2.0
"""Mirror of a log in an object store: sealed segments are copied whole, and read there like any other log.

A segment becomes visible in the copy when its index is copied, which happens last. Readers of the copy lag by the time until a
segment is sealed (`segment_size`, `segment_age`) and copied. The mirror is a registered reader, so retention reports segments
that it removes before they are copied.
"""

import json
import logging
import threading
from pathlib import Path

import pyarrow.fs as pafs

from zenlake.errors import LogError
from zenlake.log.disk import Disk
from zenlake.log.file_access import Files
from zenlake.log.layout import MARKER, SEALED, WRITER, describe_layout, segment_name
from zenlake.log.recovery import index_records, segments
from zenlake.log.retention import register
from zenlake.log.writer import Writer

__all__ = ["Mirror"]

logger = logging.getLogger("zenlake.log")

PIECE = 8 << 20
AGAIN = 10.0  # seconds until a failed copy is retried


class Mirror:
    """Copies the sealed segments of one writer to `target` (a URI such as s3://bucket/log, or a path with a filesystem)."""

    def __init__(
        self,
        log: str | Path,
        writer: str,
        target: str,
        filesystem: pafs.FileSystem | None = None,
        disk: Disk | None = None,
    ) -> None:
        self.root = Path(log)
        self.writer = writer
        self.there = Files(target, filesystem)
        self.trouble: Exception | None = None
        self._disk = disk or Disk()
        self._sealed = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def catch_up(self) -> list[int]:
        """Copy the sealed segments that are missing in the target. Return the copied segments."""
        folder = self.root / self.writer
        store, path = self.there.filesystem, self.there.path
        if self.writer not in self.there.folders():
            store.create_dir(f"{path}/{self.writer}", recursive=True)
        if not self.there.exists(MARKER):
            self._upload((self.root / MARKER).read_bytes(), MARKER)
        known = {name for name in self.there.names(self.writer) if name.endswith(".index")}
        done = []
        for number in segments(folder):
            index = folder / segment_name(number, "index")
            records = index_records(index)
            if not records or records[-1].kind != SEALED:
                break
            if index.name not in known:
                self._copy(folder / segment_name(number))
                self._disk.fault_point("uploaded")
                self._upload(index.read_bytes(), self.writer, index.name)
                about = describe_layout((folder / WRITER).read_bytes(), str(folder / WRITER))
                kept = {
                    **about,
                    "segment": number,
                    "removed": [0, 0],
                }  # segments that are removed here are kept in the copy
                self._upload(json.dumps(kept).encode(), self.writer, WRITER)
                done.append(number)
            register(self.root, f"mirror-of-{self.writer}", {self.writer: [number, len(records) - 1]}, self._disk)
        return done

    def _copy(self, path: Path) -> None:
        """Copy a file completely or not at all: an object store shows an object only when it is complete."""
        with (
            path.open("rb") as source,
            self.there.filesystem.open_output_stream(f"{self.there.path}/{self.writer}/{path.name}") as target,
        ):
            while piece := source.read(PIECE):
                target.write(piece)
                self._disk.fault_point("uploading")

    def _upload(self, data: bytes, *names: str) -> None:
        with self.there.filesystem.open_output_stream("/".join((self.there.path, *names))) as target:
            target.write(data)

    # Background thread

    def start(self) -> None:
        """Copy in a background thread, whenever `on_seal` is called, and also the segments that were not copied before."""
        self._thread = threading.Thread(target=self._run, name="zenlake-mirror", daemon=True)
        self._sealed.set()
        self._thread.start()

    def follow(self, writer: Writer) -> None:
        """Copy the segments that this writer seals or has sealed."""
        writer.on_seal = self.on_seal
        self.start()

    def on_seal(self, segment: int) -> None:
        """Wake the background thread. Callback for `Writer.on_seal`."""
        self._sealed.set()

    def close(self) -> None:
        """Copy the segments sealed so far, and stop."""
        self._stopping = True
        self._sealed.set()
        if self._thread is not None:
            self._thread.join()
        if self.trouble is not None:
            raise LogError(f"{self.there.path}: {self.trouble}; uncopied segments are kept until the mirror runs again")

    def _run(self) -> None:
        while True:
            self._sealed.wait(AGAIN if self.trouble is not None else None)
            self._sealed.clear()
            stopping = self._stopping
            try:
                self.catch_up()
                self.trouble = None
            except OSError as error:
                logger.error("%s: %s; retrying in %g s", self.there.path, error, AGAIN)
                self.trouble = error
            if stopping:
                return
