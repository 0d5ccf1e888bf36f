# SPDX-License-Identifier: Apache-2.0
"""Reassemble IP fragments into packet payloads.

Packets, bytes and time are limited, because IP identifiers are reused soon.
"""

from collections.abc import Callable

Key = tuple[int, int, int, int, int, int]

MAX_PACKETS = 1024
MAX_BYTES = 1 << 24
MAX_PACKET = 1 << 16
PATIENCE = 2_000_000_000  # ns


class PartialPacket:
    """A packet with some of its fragments."""

    __slots__ = ("cut", "file", "packet", "parts", "received_bytes", "since", "size")

    def __init__(self, since: int, file: int, packet: int) -> None:
        self.parts: dict[int, bytes] = {}  # by offset
        self.received_bytes = 0
        self.size = -1  # known from the last fragment
        self.since = since
        self.file = file
        self.packet = packet
        self.cut = False  # by the snap length


class IpReassembly:
    def __init__(self, on_drop: Callable[[Key, PartialPacket], None]) -> None:
        self._partial: dict[Key, PartialPacket] = {}  # oldest first
        self._bytes = 0
        self._on_drop = on_drop

    def add(
        self, key: Key, offset: int, more: bool, data: bytes, received: int, file: int, packet: int, cut: bool = False
    ) -> bytes | None:
        """Add a fragment, which the snap length may have cut. Return the whole payload if it is now complete."""
        partial = self._partial.get(key)
        if partial is not None:
            is_other = partial.parts.get(offset, data) != data  # the identifier is that of another packet too
            if is_other or abs(received - partial.since) > PATIENCE:
                self._give_up(key)
                partial = None
        if partial is None:
            while len(self._partial) >= MAX_PACKETS or self._bytes > MAX_BYTES:
                self._give_up(next(iter(self._partial)))
            partial = self._partial[key] = PartialPacket(received, file, packet)
        if offset in partial.parts or offset + len(data) > MAX_PACKET:
            return None
        partial.cut = partial.cut or cut
        partial.parts[offset] = data
        partial.received_bytes += len(data)
        self._bytes += len(data)
        if not more:
            partial.size = offset + len(data)
        if partial.size < 0 or partial.received_bytes < partial.size or partial.cut:
            return None
        del self._partial[key]
        self._bytes -= partial.received_bytes
        payload = bytearray()
        for at, part in sorted(partial.parts.items()):
            if at > len(payload):
                self._on_drop(key, partial)  # fragments overlap but leave a hole
                return None
            payload += part[len(payload) - at :]
        return bytes(payload[: partial.size])

    def _give_up(self, key: Key) -> None:
        partial = self._partial.pop(key)
        self._bytes -= partial.received_bytes
        self._on_drop(key, partial)

    def finish(self) -> None:
        for key in list(self._partial):
            self._give_up(key)

    # Save and restore, to continue in another process.

    def save(self) -> dict[Key, PartialPacket]:
        return dict(self._partial)

    def restore(self, saved: dict[Key, PartialPacket]) -> None:
        self._partial = saved
        self._bytes = sum(partial.received_bytes for partial in saved.values())
