# SPDX-License-Identifier: Apache-2.0
"""Cursor over the files of a capture: reads from one position to another, and continues from there.

A file stays open between stops, so frequent stops do not reopen it. This module does not interpret packets.
"""

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from zenlake.capture.packet_loop import PacketLoop
from zenlake.capture.pcap import CaptureFile, FileError, Packets

MORE = 0  # as in pcap
PAUSED = 3  # as in packet_loop
STOPPED = 4

Position = tuple[Any, ...]  # of Packets, in a file with random access
FilePosition = tuple[int, Position | None]  # a file, and a position in it


class FileCursor:
    """Cursor position. `file` is past the last one when all files are read."""

    def __init__(self, reader: PacketLoop, files: list[str], first: FilePosition = (0, None)) -> None:
        self.file, self._position = first
        self._reader = reader
        self._files = files
        self._packets: Packets | None = None  # of the file, if it is open

    def read_to(self, file: int, byte: int) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of the packets from here that begin before this offset of that file."""
        while self.file < len(self._files) and (self.file, 0) < (file, byte):
            damage, is_pipe = "", not os.path.isfile(self._files[self.file])
            try:
                packets = self._packets or self._open()
                self._reader.begin(packets, self.file, byte if self.file == file else -1)
                while (found := self._reader.run()) == PAUSED or found == MORE:
                    if found == MORE:
                        if is_pipe:  # the next read may wait: the rows of the earlier packets come first
                            self._reader.rows.flush()
                            yield from self._reader.rows.collect()
                        if not packets.read_window():
                            break
                    yield from self._reader.rows.collect()
                if found == STOPPED:
                    return
            except FileError as error:
                damage = str(error)
            self._close(damage)

    @property
    def at(self) -> int:
        """Return the offset of the file at which reading continues."""
        return 0 if self._packets is None else self._packets.position()[0]

    def position(self) -> FilePosition:
        """Return the position at which reading continues."""
        return self.file, self._packets.position() if self._packets is not None else None

    def _open(self) -> Packets:
        self._packets = Packets(CaptureFile(self._files[self.file]))
        if self._position is not None:
            self._packets.seek(self._position)
        self._position = None
        return self._packets

    def _close(self, damage: str) -> None:
        """Close the file and note damage or losses at its end."""
        packets, notes = self._packets, self._reader.notes
        assert packets is not None
        lost = packets.finish()
        damage = damage or packets.error
        if lost:
            notes.add("dropped", self.file, packets.number, -1, 0, lost)
        if damage:
            notes.add("unreadable", self.file, packets.number, -1, 0, why=damage)
        self._packets = None
        self.file += 1
