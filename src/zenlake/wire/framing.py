# SPDX-License-Identifier: Apache-2.0
"""Framing of batches on a link: length prefixes on streams, and compression.

On a stream link, each batch has a length prefix: two bytes, little-endian, or four bytes with low latency (divergence A3).
A datagram is one batch without a prefix. With compression, a batch begins with a header byte, whose lowest bit is set if one
LZ4 block follows. This module does not decode batches and uses no sockets. Input is bytes in pieces of any size, output is
batches.
"""

from zenlake.errors import DecodeError, EncodeError

__all__ = ["MAX_BATCH", "Splitter", "compress", "decompress", "add_prefix", "room_on_stream"]

MAX_BATCH = 65535

LZ4 = 0x01


def room_on_stream(batch_size: int, low_latency: bool = False) -> int:
    """Return the maximum size of a batch on a stream after `batch_size` was negotiated.

    The negotiated size includes the two bytes of the prefix (divergence A10), but not the four bytes of low latency.
    """
    return batch_size if low_latency else batch_size - 2


class Splitter:
    """Splitter of a byte stream into batches: `feed` it pieces of any size, then iterate over the complete batches.

    Negotiated parameters are valid from the next batch on. Set `batch_size` and `low_latency` when they are known: batches are
    split one at a time, during iteration.
    """

    def __init__(self, batch_size: int = MAX_BATCH, low_latency: bool = False) -> None:
        self.batch_size = batch_size
        self.low_latency = low_latency
        self.at = 0  # offset of the next prefix in the stream
        self._held = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        self._held += data

    def __len__(self) -> int:
        """Return the number of bytes of the incomplete batch."""
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
    """Return the batch with its length prefix."""
    room = room_on_stream(batch_size, low_latency)
    if len(batch) > room:
        raise EncodeError("stream.length", f"batch of {len(batch)} bytes exceeds the negotiated limit of {room}")
    return len(batch).to_bytes(4 if low_latency else 2, "little") + batch


def compress(batch: bytes) -> bytes:
    """Return the batch with a compression header: as an LZ4 block if that is smaller, else unchanged."""
    import lz4.block  # only with compression

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
