# SPDX-License-Identifier: Apache-2.0
"""Primitive values of the z_serialize format.

Numbers are little-endian with the width of their type. A length is LEB128. A text or blob consists of a length and bytes. A
sequence has a length and items, and a map has a length and pairs. A tuple has only items. The format stores no types, so a reader
must know them.
"""

from zenlake.errors import DecodeError

__all__ = ["ByteReader", "write_length"]

MAX_LENGTH_BYTES = 10  # maximum bytes of a length: 64 bits, seven per byte


class ByteReader:
    """Reader of one value. Every step is bounds-checked."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.end = len(data)

    def skip(self, size: int) -> int:
        """Skip bytes. Return the offset of the first."""
        at = self.at
        if size > self.end - at:
            raise DecodeError("value", at, f"{size} bytes expected, {self.end - at} left")
        self.at = at + size
        return at

    def take(self, size: int) -> bytes:
        at = self.skip(size)
        return self.data[at : at + size]

    def length(self) -> int:
        start = self.at
        value = shift = 0
        for byte in self.data[start : start + MAX_LENGTH_BYTES]:
            value |= (byte & 0x7F) << shift
            self.at += 1
            if byte < 0x80:
                return value
            shift += 7
        why = "it ends here" if self.at == self.end else "it does not fit 64 bits"
        raise DecodeError("value.length", start, why)

    def count(self, least: int) -> int:
        """Return the length of a sequence, bounded by the remaining bytes at `least` bytes per item."""
        start = self.at
        count = self.length()
        if count * least > self.end - self.at:
            raise DecodeError("value.length", start, f"{count} items declared, {self.end - self.at} bytes left")
        return count

    def flag(self) -> bool:
        byte = self.take(1)[0]
        if byte > 1:
            raise DecodeError("value", self.at - 1, f"{byte} is neither true (1) nor false (0)")
        return byte == 1

    def blob(self) -> bytes:
        return self.take(self.length())

    def text(self) -> str:
        data = self.blob()
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise DecodeError("value", self.at - len(data) + error.start, f"not UTF-8: {error.reason}") from None

    def close(self) -> None:
        """Check that no bytes are left."""
        if self.at != self.end:
            raise DecodeError("value", self.at, f"{self.end - self.at} bytes left over")


def write_length(length: int, out: bytearray) -> None:
    while length > 0x7F:
        out.append(length & 0x7F | 0x80)
        length >>= 7
    out.append(length)
