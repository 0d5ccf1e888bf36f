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

    __slots__ = ("cut", "file", "have", "packet", "parts", "since", "size")

    def __init__(self, since: int, file: int, packet: int) -> None:
        self.parts: dict[int, bytes] = {}  # by offset
        self.have = 0
        self.size = -1  # known from the last fragment
        self.since = since
        self.file = file
        self.packet = packet
        self.cut = False  # by the snap length


class IpReassembly:
    def __init__(self, lost: Callable[[Key, PartialPacket], None]) -> None:
        self._wholes: dict[Key, PartialPacket] = {}  # oldest first
        self._bytes = 0
        self._lost = lost

    def add(
        self, key: Key, offset: int, more: bool, data: bytes, received: int, file: int, packet: int, cut: bool = False
    ) -> bytes | None:
        """Add a fragment, which the snap length may have cut. Return the whole payload if it is now complete."""
        whole = self._wholes.get(key)
        if whole is not None:
            is_other = whole.parts.get(offset, data) != data  # the identifier is that of another packet too
            if is_other or abs(received - whole.since) > PATIENCE:
                self._give_up(key)
                whole = None
        if whole is None:
            while len(self._wholes) >= MAX_PACKETS or self._bytes > MAX_BYTES:
                self._give_up(next(iter(self._wholes)))
            whole = self._wholes[key] = PartialPacket(received, file, packet)
        if offset in whole.parts or offset + len(data) > MAX_PACKET:
            return None
        whole.cut = whole.cut or cut
        whole.parts[offset] = data
        whole.have += len(data)
        self._bytes += len(data)
        if not more:
            whole.size = offset + len(data)
        if whole.size < 0 or whole.have < whole.size or whole.cut:
            return None
        del self._wholes[key]
        self._bytes -= whole.have
        payload = bytearray()
        for at, part in sorted(whole.parts.items()):
            if at > len(payload):
                self._lost(key, whole)  # fragments overlap but leave a hole
                return None
            payload += part[len(payload) - at :]
        return bytes(payload[: whole.size])

    def _give_up(self, key: Key) -> None:
        whole = self._wholes.pop(key)
        self._bytes -= whole.have
        self._lost(key, whole)

    def finish(self) -> None:
        for key in list(self._wholes):
            self._give_up(key)

    # Save and restore, to continue in another process.

    def save(self) -> dict[Key, PartialPacket]:
        return dict(self._wholes)

    def restore(self, saved: dict[Key, PartialPacket]) -> None:
        self._wholes = saved
        self._bytes = sum(whole.have for whole in saved.values())
