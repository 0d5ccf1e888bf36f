# SPDX-License-Identifier: Apache-2.0
"""Shared memory: publish buffers that other processes of this host read without a copy.

    provider = zenlake.shm.ShmProvider.default_backend(1 << 24)
    buffer = provider.alloc(1 << 20, zenlake.shm.BlockOn(zenlake.shm.GarbageCollect()))
    buffer[:] = image
    publisher.put(buffer)

Large payloads of bytes travel in shared memory too, without this module. See `docs/design/shm.md`.
"""

from zenlake.api.shared_memory import (
    AllocAlignment,
    BlockOn,
    Deallocate,
    Defragment,
    GarbageCollect,
    JustAlloc,
    MemoryLayout,
    ShmProvider,
    ZShm,
    ZShmMut,
)

__all__ = [
    "AllocAlignment", "BlockOn", "Deallocate", "Defragment", "GarbageCollect", "JustAlloc", "MemoryLayout",
    "ShmProvider", "ZShm", "ZShmMut",
]  # fmt: skip
