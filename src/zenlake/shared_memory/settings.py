# SPDX-License-Identifier: Apache-2.0
"""Settings of shared memory. The module is separate, because every node has them and few need the rest of the package."""

from dataclasses import dataclass

__all__ = ["SharedMemorySettings"]


@dataclass(frozen=True, slots=True)
class SharedMemorySettings:
    """The configuration section `transport/shared_memory`."""

    is_eager: bool = False
    """Whether the metadata segment is created when the node starts."""
    optimises: bool = True
    """Whether large payloads are copied into shared memory."""
    pool_size: int = 16777216
    threshold: int = 3072
    """Smallest payload in bytes that is copied."""
    messages: frozenset[str] = frozenset(("put", "query", "reply"))
