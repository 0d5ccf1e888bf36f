# SPDX-License-Identifier: Apache-2.0
"""Batches on a link: where one ends on a stream, and whether it is compressed.

A stream link puts a length before each batch: two bytes, little-endian; four once low latency holds (divergence A3). A
datagram is a batch as it is. Where compression holds, a batch begins with a header byte that says whether the rest is
one LZ4 block. This module does not decode batches and uses no sockets. Input is bytes in pieces of any size, output is
batches.
"""

from zenlake.errors import DecodeError, EncodeError

__all__ = ["MAX_BATCH", "Splitter", "compress", "decompress", "add_prefix", "room_on_stream"]

MAX_BATCH = 65535

LZ4 = 0x01


def room_on_stream(batch_size: int, low_latency: bool = False) -> int:
    """The largest batch that a stream may carry where `batch_size` was agreed.

    The agreed size counts the two bytes of the prefix (divergence A10); the four of low latency came later and are not
    counted.
    """
    return batch_size if low_latency else batch_size - 2


class Splitter:
    """Cuts a byte stream into batches: `feed` it pieces of any size, then iterate over the batches that are whole.

    What a handshake agrees on holds from the next batch on, so set `batch_size` and `low_latency` as soon as it is
    known: batches are cut one at a time, when asked for.
    """

    def __init__(self, batch_size: int = MAX_BATCH, low_latency: bool = False) -> None:
        self.batch_size = batch_size
        self.low_latency = low_latency
        self.at = 0  # where in the stream the next batch's prefix begins
        self._held = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        self._held += data

    def __len__(self) -> int:
        """The bytes that wait for the rest of their batch."""
        return len(self._held)

    def __iter__(self) -> "Splitter":
        return self

    def __next__(self) -> bytes:
        width = 4 if self.low_latency else 2
        if len(self._held) < width:
            raise StopIteration
        size = int.from_bytes(self._held[:width], "little")
        room = room_on_stream(self.batch_size, self.low_latency)
        if size > room:
            raise DecodeError("stream.length", self.at, f"batch of {size} bytes exceeds the negotiated limit of {room}")
        stop = width + size
        if len(self._held) < stop:
            raise StopIteration
        with memoryview(self._held) as held:
            batch = bytes(held[width:stop])
        del self._held[:stop]
        self.at += stop
        return batch


def add_prefix(batch: bytes, batch_size: int = MAX_BATCH, low_latency: bool = False) -> bytes:
    """The batch with its length before it, ready for a stream."""
    room = room_on_stream(batch_size, low_latency)
    if len(batch) > room:
        raise EncodeError("stream.length", f"batch of {len(batch)} bytes exceeds the negotiated limit of {room}")
    return len(batch).to_bytes(4 if low_latency else 2, "little") + batch


def compress(batch: bytes) -> bytes:
    """The batch behind its compression header: an LZ4 block if that is smaller, else as it is."""
    import lz4.block  # only where batches are compressed

    block = lz4.block.compress(batch, store_size=False)
    return bytes((LZ4,)) + block if len(block) < len(batch) else b"\0" + batch


def decompress(batch: bytes, batch_size: int = MAX_BATCH) -> bytes:
    """Return the batch without its header. A block that exceeds `batch_size` is refused before it is decompressed."""
    if not batch:
        raise DecodeError("compression.header", 0, "1 byte needed, 0 left")
    if batch[0] & ~LZ4:
        raise DecodeError("compression.header", 0, f"bits 7:1 of {batch[0]:#04x} must be 0")
    if not batch[0]:
        return batch[1:]
    import lz4.block

    try:
        return bytes(lz4.block.decompress(batch[1:], uncompressed_size=batch_size))
    except lz4.block.LZ4BlockError:
        why = f"not an LZ4 block of at most {batch_size} bytes, the negotiated limit"
        raise DecodeError("compression.block", 1, why) from None
