# SPDX-License-Identifier: Apache-2.0
"""Settings of one end of a connection: identity, offered parameters and timeouts.

Times are in seconds, sizes in bytes. The defaults are those of eclipse-zenoh 1.10.2 (companion defaults.md). Contradictory
settings are rejected here, before anything is sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from zenlake.core.enums import WhatAmI
from zenlake.errors import ConfigError

__all__ = ["Settings"]

RESOLUTIONS = {8: 0, 16: 1, 32: 2}
MIN_BATCH = 64  # space for the header of a fragment and part of its message
MAX_BATCH = 65535
MAX_REGION_NAME = 32


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one node for every session that it opens or accepts."""

    zid: bytes
    """ZenohID of the node in wire form: 1 to 16 bytes, little-endian, without zero bytes at the high end."""
    whatami: WhatAmI = WhatAmI.CLIENT

    # Offered in INIT and OPEN
    lease: float = 10.0
    resolution: int = 32
    """Width of sequence numbers in bits: 8, 16 or 32. (The protocol also defines 64, which is never negotiated.)"""
    batch_size: int = MAX_BATCH
    qos: bool = True
    low_latency: bool = False
    compression: bool = False
    patch: int = 1
    region_name: str | None = None
    """Name by which a gateway can select this node (since 1.9): 1 to 32 bytes of UTF-8."""

    # Authentication
    user: str | None = None
    password: bytes = field(default=b"", repr=False)
    """Password that this node presents, together with `user`, when a peer requires authentication."""
    users: Mapping[str, bytes] | None = field(default=None, repr=False)
    """Passwords by user name for nodes that may open a session. None disables authentication."""

    # Timeouts and queue sizes
    open_timeout: float = 10.0
    accept_timeout: float = 10.0
    keep_alive: int = 4
    """Number of KEEP_ALIVE messages per lease."""
    max_message_size: int = 1 << 30
    queue_size: int = 2
    """Maximum number of queued batches of each priority."""
    wait_before_drop: float = 0.001
    wait_before_drop_fragments: float = 0.05
    wait_before_close: float = 5.0
    batching_limit: float = 0.001

    # Multicast
    multicast_qos: bool = False
    multicast_batch_size: int = 8192
    """Advertised in JOIN. Members with different values ignore each other."""
    multicast_max_sessions: int = 1000
    """Maximum number of accepted group members. JOIN messages of further nodes are ignored."""
    join_interval: float = 2.5

    def __post_init__(self) -> None:
        def refuse(name: str, why: str) -> None:
            raise ConfigError(f"invalid {name}={getattr(self, name)!r}; {why}")

        if not 1 <= len(self.zid) <= 16 or not self.zid[-1]:
            refuse("zid", "expected 1 to 16 bytes without a zero byte at the high end")
        if self.resolution not in RESOLUTIONS:
            refuse("resolution", "expected 8, 16 or 32 bits")
        if not MIN_BATCH <= self.batch_size <= MAX_BATCH:
            refuse("batch_size", f"expected {MIN_BATCH} to {MAX_BATCH} bytes")
        if self.low_latency and (self.qos or self.compression):
            refuse("low_latency", "low latency excludes QoS and compression; set `qos` and `compression` to False")
        if not self.lease > 0:
            refuse("lease", "expected a number above 0")
        if self.keep_alive < 2:
            refuse("keep_alive", "expected at least 2 per lease; otherwise one late message ends the session")
        if self.queue_size < 1:
            refuse("queue_size", "expected at least 1 batch")
        if self.patch not in (0, 1):
            refuse("patch", "expected 0 or 1")
        if self.region_name is not None and not 1 <= len(self.region_name.encode()) <= MAX_REGION_NAME:
            refuse("region_name", f"expected 1 to {MAX_REGION_NAME} bytes")
        if self.password and self.user is None:
            refuse("user", "a password requires a user")

    @property
    def resolution_code(self) -> int:
        """Resolution byte of INIT: 32-bit request ids, sequence numbers as configured."""
        return 0x08 | RESOLUTIONS[self.resolution]

    @property
    def lease_ms(self) -> int:
        return max(1, round(self.lease * 1000))
