# SPDX-License-Identifier: Apache-2.0
"""QoSLink: the extension of INIT that limits a link to some priorities or one reliability.

    bits 2:0     000 no QoS; 001 QoS for every message; bit 1 priorities follow; bit 2 reliability follows
    bits 10:3    the first priority
    bits 18:11   the last priority
    bit  19      1 reliable, 0 best effort

The metadata of an endpoint requests it: `prio=1-3;rel=0` is 0x180E (vector qoslink). It replaces the plain QoS extension.
"""

from dataclasses import dataclass

from zenlake.errors import InvalidValue

__all__ = ["QosLink"]

QOS = 0b001
PRIORITIES = 0b010
RELIABILITY = 0b100
LOWEST = 7  # the priority Background


@dataclass(frozen=True, slots=True)
class QosLink:
    """Limits of a link. `priorities` is (first, last), or None for all. `reliable` is None for both kinds."""

    qos: bool = True
    priorities: tuple[int, int] | None = None
    reliable: bool | None = None

    def __post_init__(self) -> None:
        if self.priorities is not None and not 0 <= self.priorities[0] <= self.priorities[1] <= LOWEST:
            raise InvalidValue(
                f"priorities from {self.priorities[0]} to {self.priorities[1]} are not within 0 to {LOWEST}"
            )

    @classmethod
    def from_wire(cls, value: int) -> "QosLink":
        if not value & (PRIORITIES | RELIABILITY):
            return cls(value & QOS != 0)
        priorities = (value >> 3 & 0xFF, value >> 11 & 0xFF) if value & PRIORITIES else None
        return cls(True, priorities, value >> 19 & 1 != 0 if value & RELIABILITY else None)

    def to_wire(self) -> int:
        if self.priorities is None and self.reliable is None:
            return QOS if self.qos else 0
        value = 0
        if self.priorities is not None:
            value |= PRIORITIES | self.priorities[0] << 3 | self.priorities[1] << 11
        if self.reliable is not None:
            value |= RELIABILITY | self.reliable << 19
        return value

    def __str__(self) -> str:
        if not self.qos:
            return "no QoS"
        parts = [] if self.priorities is None else [f"priorities {self.priorities[0]} to {self.priorities[1]}"]
        if self.reliable is not None:
            parts.append("reliable" if self.reliable else "best effort")
        return ", ".join(parts) or "every message"
