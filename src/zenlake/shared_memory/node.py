# SPDX-License-Identifier: Apache-2.0
"""Shared memory of one node: its settings, its metadata segment, its links, and the pool for large payloads.

By default, nothing is created before it is needed. The metadata segment is created with the first link on this host, and the pool
with the first large payload. If the system has no shared memory, or none left, payloads stay inline. This is logged once.
"""

import atexit
import threading
import weakref
from collections.abc import Callable
from logging import getLogger
from typing import Any

from zenlake.shared_memory import shared_buffers as metadata
from zenlake.shared_memory.auth_segment import AuthSegment
from zenlake.shared_memory.link import Negotiation, SharedMemoryLink
from zenlake.shared_memory.provider import BufferPool
from zenlake.shared_memory.segment import FOLDER, is_available, remove_orphans
from zenlake.shared_memory.settings import SharedMemorySettings
from zenlake.shared_memory.shared_buffers import forget_idle
from zenlake.transport.references import KINDS, ReferenceMessage, payload_of, set_payload, write_slices
from zenlake.wire import message_ids
from zenlake.wire.cursor import Cursor

__all__ = ["SharedMemory"]

log = getLogger("zenlake.shm")

NAMES = {message_ids.PUSH: "put", message_ids.REQUEST: "query", message_ids.RESPONSE: "reply"}


class SharedMemory:
    """Shared memory of one node."""

    def __init__(self, settings: SharedMemorySettings, max_message_size: int) -> None:
        self.settings = settings
        self.max_message_size = max_message_size
        self.links: set[SharedMemoryLink] = set()
        self._lock = threading.Lock()
        self._auth: AuthSegment | None = None
        self._pool: BufferPool | None = None
        self._has_failed = not is_available()
        self._has_logged = False
        self._is_closed = False
        self._generation = metadata.process.generation
        _nodes.add(self)
        if settings.is_eager:
            self.auth()

    def auth(self) -> AuthSegment | None:
        """Return the transport metadata segment of this node, created on first use. Return None if that is not possible."""
        with self._lock:
            if self._auth is None and not self._has_failed and not self._is_closed:
                try:
                    remove_orphans()
                    self._auth = AuthSegment()
                except OSError as error:
                    self._has_failed = True
                    self.log(
                        "shared memory is not used: cannot create a segment in %s: %s", FOLDER, error.strerror or error
                    )
            return self._auth

    def log(self, text: str, *values: object) -> None:
        """Log the first problem of this node."""
        if not self._has_logged:
            self._has_logged = True
            log.info(text, *values)

    def negotiate(
        self, reliable: bool, is_local: Callable[[], bool], refuse: Callable[[str], None]
    ) -> Negotiation | None:  # fmt: skip
        """Return the negotiation of a new connection, or None if this node cannot use shared memory.

        Args:
            reliable: Whether the link loses nothing.
            is_local: Returns whether the other end is on this host. Called when this node opens the session.
            refuse: Called with the reason when a received reference is refused.
        """
        return None if self._has_failed or self._is_closed else Negotiation(self, reliable, is_local, refuse)

    def on_close(self, link: SharedMemoryLink) -> None:
        """Forget a link, and close the segments of other processes without a handle. They are opened again when needed."""
        self.links.discard(link)
        forget_idle(float("inf"))

    def move(self, message: bytes, priority: int) -> ReferenceMessage | None:
        """Return a message with its large payload in the pool, or None if it has none or the pool has no room."""
        kind = message[0] & message_ids.KIND
        if NAMES.get(kind) not in self.settings.messages:
            return None
        record = KINDS[kind]().decode(Cursor(message))
        payload = payload_of(kind, record)
        if payload is None or len(payload) < self.settings.threshold:
            return None
        pool = self._get_pool()
        if pool is None:
            return None
        buffer = pool.allocate(len(payload))
        if buffer is None:
            pool.collect(safe=False)
            buffer = pool.allocate(len(payload))
        if buffer is None:
            return None
        try:
            buffer.data.segment.write(payload, buffer.at)
        except OSError as error:
            buffer.release()
            self._has_failed_pool(error)
            return None
        set_payload(kind, record, write_slices((buffer.reference,)), True)
        return ReferenceMessage.make(record.encode(), (buffer,), priority, lambda moved: message)

    def _get_pool(self) -> BufferPool | None:
        """Return the pool, created on first use. Return None if that is not possible."""
        with self._lock:
            if self._pool is None and not self._has_failed and not self._is_closed:
                try:
                    self._pool = BufferPool(self.settings.pool_size)
                except OSError as error:
                    self._has_failed_pool(error)
            return self._pool

    def _has_failed_pool(self, error: OSError) -> None:
        self._has_failed = True
        self._pool = None
        self.log("large payloads stay inline: %s: %s", FOLDER, error.strerror or error)

    def close(self) -> None:
        """Remove the segments of this node that no other process uses."""
        if self._generation != metadata.process.generation:
            return  # the segments belong to the parent process
        with self._lock:
            self._is_closed = True
            auth, self._auth = self._auth, None
            pool, self._pool = self._pool, None
        for link in list(self.links):
            link.close()
        if pool is not None:
            pool.close()
        if auth is not None:
            auth.close()
            remove_orphans()


_nodes: "weakref.WeakSet[Any]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close the nodes that the application has left open."""
    for node in list(_nodes):
        node.close()
