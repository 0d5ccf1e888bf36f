# SPDX-License-Identifier: Apache-2.0
"""What one end brings to a connection: who it is, what it offers, and how patient it is.

Times are in seconds, sizes in bytes. The defaults are those of eclipse-zenoh 1.10.2 (companion defaults.md). A setting
that contradicts itself is refused here, before anything is sent.
"""

from collections.abc import Mapping

from zenlake.errors import ConfigError
from zenlake.record import dataclass, field
from zenlake.values import WhatAmI

__all__ = ["Settings"]

RESOLUTIONS = {8: 0, 16: 1, 32: 2}
SMALLEST_BATCH = 64  # room for a fragment's head and some of its message
LARGEST_BATCH = 65535


@dataclass(frozen=True, slots=True)
class Settings:
    """One node's side of every session it opens or accepts."""

    zid: bytes
    """The node's id as it travels: 1 to 16 bytes, little end first, no zeros at the high end."""
    whatami: WhatAmI = WhatAmI.CLIENT

    # Offered in INIT and OPEN
    lease: float = 10.0
    resolution: int = 32
    """Bits of a sequence number, by name: 8, 16 or 32. (64 exists in the protocol and is never negotiated.)"""
    batch_size: int = LARGEST_BATCH
    qos: bool = True
    low_latency: bool = False
    compression: bool = False
    patch: int = 1

    # Who may come in
    user: str | None = None
    password: bytes = field(default=b"", repr=False)
    """With `user`, what we present to those who ask."""
    users: Mapping[str, bytes] | None = field(default=None, repr=False)
    """Passwords of those who may open a session with us; None lets everyone in."""

    # Patience
    open_timeout: float = 10.0
    accept_timeout: float = 10.0
    keep_alive: int = 4
    """How many signs of life in a lease."""
    max_message_size: int = 1 << 30
    queue_size: int = 2
    """Batches that may wait in each priority."""
    wait_before_drop: float = 0.001
    wait_before_drop_fragments: float = 0.05
    wait_before_close: float = 5.0
    batching_limit: float = 0.001

    # Multicast
    multicast_qos: bool = False
    multicast_batch_size: int = 8192
    """Told in JOIN, and equal in all members or they ignore each other."""
    multicast_max_sessions: int = 1000
    """Members of a group that are accepted; the JOINs of further ones are ignored."""
    join_interval: float = 2.5

    def __post_init__(self) -> None:
        def refuse(name: str, why: str) -> None:
            raise ConfigError(f"{name} = {getattr(self, name)!r}: {why}")

        if not 1 <= len(self.zid) <= 16 or not self.zid[-1]:
            refuse("zid", "a ZenohID has 1 to 16 bytes and no zeros at its high end")
        if self.resolution not in RESOLUTIONS:
            refuse("resolution", "sequence numbers have 8, 16 or 32 bits")
        if not SMALLEST_BATCH <= self.batch_size <= LARGEST_BATCH:
            refuse("batch_size", f"a batch has {SMALLEST_BATCH} to {LARGEST_BATCH} bytes")
        if self.low_latency and (self.qos or self.compression):
            refuse("low_latency", "it excludes QoS and compression: set `qos` and `compression` to False")
        if not self.lease > 0:
            refuse("lease", "must be above zero")
        if self.keep_alive < 2:
            refuse("keep_alive", "with less than 2 in a lease, one that is late ends the session")
        if self.queue_size < 1:
            refuse("queue_size", "a queue holds at least one batch")
        if self.patch not in (0, 1):
            refuse("patch", "0 and 1 are known")
        if self.password and self.user is None:
            refuse("user", "a password needs a user")

    @property
    def resolution_code(self) -> int:
        """The resolution byte: request ids of 32 bits, sequence numbers as set."""
        return 0x08 | RESOLUTIONS[self.resolution]

    @property
    def lease_ms(self) -> int:
        return max(1, round(self.lease * 1000))
