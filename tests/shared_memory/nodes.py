# SPDX-License-Identifier: Apache-2.0
"""Sessions of this process that use shared memory with each other."""

from typing import Any

import zenlake
import zenlake.shm
from tests.api import nodes
from zenlake.api.shared_memory import ZShmMut
from zenlake.shared_memory.shared_buffers import SharedBuffer

ON = {"transport__shared_memory__enabled": True}


def listener(**changes: Any) -> tuple[zenlake.Session, str]:
    session, where = nodes.listening(**ON | changes)
    return session, where


def client(where: str, **changes: Any) -> zenlake.Session:
    return zenlake.open(nodes.config("client", where, **ON | changes))


def is_shared(session: zenlake.Session) -> list[bool]:
    return [each.is_shm for each in session.info.transports()]


def buffer_of(shared: ZShmMut) -> SharedBuffer:
    assert shared._buffer is not None
    return shared._buffer


def is_unused(provider: zenlake.shm.ShmProvider, size: int) -> bool:
    """Return whether all buffers have come back."""
    provider.garbage_collect()
    return provider.available == size
