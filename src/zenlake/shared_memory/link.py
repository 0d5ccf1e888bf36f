# SPDX-License-Identifier: Apache-2.0
"""Shared memory of one connection: its negotiation, its received references, and those that it sends.

Safety: a partner may send any bytes and change any shared word. A reference that does not name valid bytes is refused and
counted. It affects only its own message. `shared_buffers.mount` has the checks.

Threading: received messages are handled on the event loop thread. References are lent under the lock of the connection.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from zenlake.errors import CloseReason, DecodeError, LocalError, RemoteError
from zenlake.shared_memory.auth_segment import COUNTERS, PRIORITIES, AuthSegment, PartnerSegment
from zenlake.shared_memory.segment import SegmentError
from zenlake.shared_memory.shared_buffers import MetadataSegment, SharedBuffer, copies, mount
from zenlake.transport.references import KINDS, Slice, read_slices, set_payload, slices_of
from zenlake.wire import message_ids
from zenlake.wire.batch_reader import BatchReader
from zenlake.wire.cursor import Cursor
from zenlake.wire.writer import WireWriter

if TYPE_CHECKING:
    from zenlake.shared_memory.node import SharedMemory

__all__ = ["MountedMessage", "Negotiation", "SharedMemoryLink"]

IDLE = 5.0
"""Seconds without a copy after which the memory of earlier copies is freed."""
HANDOFF = 1.0
"""Seconds for which the sender confirms a reference if the receiver cannot acknowledge it, or has broken the counter."""


class Negotiation:
    """Negotiation of one connection. A side that cannot use shared memory omits the extension, and payloads stay inline."""

    def __init__(
        self, node: "SharedMemory", reliable: bool, is_local: Callable[[], bool], refuse: Callable[[str], None]
    ) -> None:
        self.node = node
        self.reliable = reliable
        """Whether the link has handoff counters."""
        self._is_local = is_local
        self._refuse = refuse
        self._partner: PartnerSegment | None = None
        self._own: tuple[int, ...] | None = None
        self._theirs: tuple[int, ...] | None = None
        self._is_agreed = False

    def init_syn(self) -> bytes | None:
        auth = self.node.auth() if self._is_local() else None
        return None if auth is None else _numbers(auth.id)

    def init_ack(self, syn: bytes | None) -> bytes | None:
        if syn is None or not self._open(syn):
            return None
        auth = self.node.auth()
        return None if auth is None or self._partner is None else _numbers(self._partner.challenge, auth.id)

    def open_syn(self, ack: bytes | None) -> bytes | None:
        auth = self.node.auth() if ack is not None and self._is_local() else None
        if ack is None or auth is None:
            return None
        try:
            c = Cursor(ack, 0, None, "shm")
            challenge, id = c.z64("challenge"), c.z32("segment")
        except DecodeError:
            return None
        if challenge != auth.challenge or not self._open(_numbers(id)) or self._partner is None:
            return None
        counters = self._lease(auth)
        return None if counters is None else _numbers(self._partner.challenge) + counters

    def open_ack(self, init_syn: bytes, syn: bytes | None) -> bytes | None:
        auth = self.node.auth()
        if syn is None or auth is None or (self._partner is None and not self._open(init_syn)):
            return None
        try:
            c = Cursor(syn, 0, None, "shm")
            if c.z64("challenge") != auth.challenge:
                raise RemoteError("OpenSyn has a wrong challenge of shared memory", CloseReason.GENERIC)
            self._theirs = _read_counters(c)
        except DecodeError as error:
            raise RemoteError(f"OpenSyn: {error}", CloseReason.GENERIC) from None
        counters = self._lease(auth)
        self._is_agreed = counters is not None
        return counters

    def finish(self, ack: bytes | None) -> None:
        if ack is None or self._partner is None:
            return
        try:
            self._theirs = _read_counters(Cursor(ack, 0, None, "shm"))
        except DecodeError as error:
            raise RemoteError(f"OpenAck: {error}", CloseReason.GENERIC) from None
        self._is_agreed = True

    def _open(self, syn: bytes) -> bool:
        """Open the segment of the partner. Return False if it cannot be used: another host, another version, another user."""
        try:
            self._partner = PartnerSegment(Cursor(syn, 0, None, "shm").z32("segment"))
        except (DecodeError, SegmentError, OSError, ValueError) as error:
            self.node.log("shared memory is not used with a partner: %s", error)
            return False
        return True

    def _lease(self, auth: AuthSegment) -> bytes | None:
        """Return the list of own counters, or None if no more links can have counters."""
        if not self.reliable:
            return b"\0"
        self._own = auth.lease()
        if self._own is None:
            self.node.log("shared memory is not used with a partner: all %d handoff counters are in use", COUNTERS)
            return None
        return b"\1" + _numbers(*self._own)

    def agree(self) -> "SharedMemoryLink | None":
        """Return the agreed link, or release all resources and return None."""
        partner = self._partner
        auth = self.node.auth() if self._is_agreed else None
        if auth is None or partner is None:
            self.close()
            return None
        self._partner, own, self._own = None, self._own, None
        link = SharedMemoryLink(self.node, auth, partner, own, self._theirs, self._refuse)
        self.node.links.add(link)
        return link

    def close(self) -> None:
        """Release the resources of a failed handshake."""
        if self._own is not None:
            auth = self.node.auth()
            if auth is not None:
                auth.end_lease(self._own)
            self._own = None
        if self._partner is not None:
            self._partner.close()
            self._partner = None


def _numbers(*values: int) -> bytes:
    w = WireWriter(32)
    for value in values:
        w.z64("shm", value)
    data: bytes = w.to_bytes()
    return data


def _read_counters(c: Any) -> tuple[int, ...] | None:
    if not c.u8("has_counters"):
        return None
    counters = tuple(c.z16("counter") for _ in range(PRIORITIES))
    if max(counters) >= COUNTERS:
        raise DecodeError("counter", c.at, f"{max(counters)} is not below {COUNTERS}")
    return counters


class MountedMessage:
    """A received message with its mapped buffers."""

    def __init__(
        self,
        link: "SharedMemoryLink",
        kind: int,
        message: bytes,
        parts: list[bytes | SharedBuffer],
        count: int,
        priority: int,
    ) -> None:
        self.parts = parts
        self.buffers = tuple(part for part in parts if isinstance(part, SharedBuffer))
        self.buffer = self.buffers[0] if len(parts) == 1 and self.buffers else None
        self.priority = priority
        self._link = link
        self._kind = kind
        self._message = message
        self._count = count

    def inline(self, message: bytes | None = None) -> bytes | None:
        """Return the message with a copy of the bytes, or None if they are not valid any more.

        `message` is the same one with another key or timestamp.
        """
        size = sum(len(part) if isinstance(part, bytes) else part.size for part in self.parts)
        if self._kind == message_ids.REQUEST:  # the payload is not the last field
            record = KINDS[self._kind]().decode(Cursor(message or self._message))
            data, view = copies.allocate(size)
            if not self._fill(view):
                return None
            set_payload(self._kind, record, data, False)
            changed: bytes = record.encode()
            return changed
        head = self.without_payload(message)[:-1] + _numbers(size)
        data, view = copies.allocate(len(head) + size)
        view[: len(head)] = head
        return data if self._fill(view[len(head) :]) else None

    def without_payload(self, message: bytes | None = None) -> bytes:
        """Return the message with an empty payload."""
        record = KINDS[self._kind]().decode(Cursor(message or self._message))
        set_payload(self._kind, record, b"", False)
        head: bytes = record.encode()
        return head

    def _fill(self, view: memoryview) -> bool:
        """Copy the bytes. Return False if a buffer became invalid before the end of the copy."""
        at = 0
        for part in self.parts:
            if isinstance(part, bytes):
                view[at : at + len(part)] = part
                at += len(part)
            elif part.copy_into(view[at : at + part.size]):
                at += part.size
            else:
                return False
        return True

    def settle(self) -> None:
        """Acknowledge the references. The sender stops confirming their buffers."""
        count, self._count = self._count, 0
        self._link.acknowledge(self.priority, count)


class SharedMemoryLink:
    """Shared memory between this node and the partner of one connection."""

    def __init__(
        self, node: "SharedMemory", auth: AuthSegment, partner: PartnerSegment, own: tuple[int, ...] | None,
        theirs: tuple[int, ...] | None, refuse: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.node = node
        self.auth = auth
        self.partner = partner
        self.own = own
        self.theirs = theirs
        self.takes_references = partner.maps_posix
        """Whether this node sends references to the partner."""
        self.received = 0
        """Number of references that were taken over."""
        self.sent = 0
        self._refuse = refuse
        self._is_closed = False
        self._lent: list[deque[tuple[MetadataSegment, int, float]]] = [deque() for _ in range(PRIORITIES)]
        """For each priority, the slots that are confirmed until the partner takes over."""

    # Receive

    def mount(self, kind: int, reader: BatchReader) -> MountedMessage | None:
        """Map the references of a message. If one is invalid, acknowledge all, refuse the message and return None."""
        record: Any = reader.record(kind)
        priority = record.qos & 7
        parts: list[bytes | SharedBuffer] = []
        slices: list[Slice] = []
        count = 0
        try:
            slices = read_slices(slices_of(kind, record))
            count = sum(not isinstance(part, bytes) for part in slices)
            size = sum(len(part) if isinstance(part, bytes) else part.size for part in slices)
            if size > self.node.max_message_size:
                raise SegmentError(f"{size} bytes exceed the maximum message size")
            for part in slices:
                parts.append(part if isinstance(part, bytes) else mount(part))
        except (DecodeError, SegmentError, OSError, ValueError) as error:
            self.acknowledge(priority, count)
            self._refuse(str(error))
            return None
        self.received += count
        span = reader.cursor.span()
        span.at, span.size = reader.start, reader.cursor.at - reader.start
        return MountedMessage(self, kind, span.value, parts, count, priority)

    def acknowledge(self, priority: int, count: int) -> None:
        """Lower the handoff counter of the partner."""
        if count and self.theirs is not None and not self._is_closed:
            self.partner.lower(self.theirs[priority], count)

    # Send

    def lend(self, buffers: tuple[SharedBuffer, ...], priority: int) -> None:
        """Prepare the references of a message that is about to be sent: each buffer has one more holder."""
        if self._is_closed:
            raise LocalError("the session is closed")
        self.trim(priority)
        now = time.monotonic()
        for buffer in buffers:
            if self.own is not None:
                self.auth.add(self.own[priority], 1)
            buffer.keep()
            buffer.add_reference()
            self._lent[priority].append((buffer.metadata, buffer.index, now))
        self.sent += len(buffers)

    def take_back(self, buffers: tuple[SharedBuffer, ...], priority: int) -> None:
        """Undo `lend`: the message was not queued."""
        lent = self._lent[priority]
        for buffer in buffers:
            if self._is_closed:  # everything but the refcount was released by `close`
                buffer.drop_reference()
                continue
            for i in range(len(lent) - 1, -1, -1):
                if lent[i][:2] == (buffer.metadata, buffer.index):
                    del lent[i]
                    break
            if self.own is not None:
                self.auth.add(self.own[priority], -1)
            buffer.drop_reference()
            buffer.end_keep()
        self.sent -= len(buffers)

    def trim(self, priority: int) -> None:
        """Stop confirming the buffers that the partner has taken over."""
        lent = self._lent[priority]
        if not lent:
            return
        waiting = len(lent) if self.own is None else self.auth.value(self.own[priority])
        while len(lent) > waiting:
            _end(lent.popleft(), False)
        latest = time.monotonic() - HANDOFF
        if self.own is None or waiting > len(lent):  # no counter, or one that the partner has broken
            while lent and lent[0][2] < latest:
                _end(lent.popleft(), True)

    def sweep(self) -> None:
        """Trim every priority, and free the memory of earlier copies if there were none for a while."""
        copies.trim(time.monotonic() - IDLE)
        for priority in range(PRIORITIES):
            self.trim(priority)

    def close(self) -> None:
        """Release all resources: the session has ended."""
        if self._is_closed:
            return
        self._is_closed = True
        self.sweep()
        for lent in self._lent:
            while lent:
                _end(lent.popleft(), True)
        if self.own is not None:
            self.auth.end_lease(self.own)
        self.partner.close()
        self.node.on_close(self)


def _end(lent: tuple[MetadataSegment, int, float], is_lost: bool) -> None:
    """Stop confirming a slot. A lost reference may never be released, so the owner counts it."""
    metadata, index, _ = lent
    if metadata.words is not None:
        metadata.words.let_go(index)
        if is_lost and metadata.is_own:
            metadata.lost[index] = metadata.lost.get(index, 0) + 1
