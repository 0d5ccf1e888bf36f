# SPDX-License-Identifier: Apache-2.0
"""What users may pass in several forms, in the one that the package uses."""

from typing import Any

from zenlake.choices import CongestionControl, Locality, Priority
from zenlake.encoding import Encoding
from zenlake.keyexpr import KeyExpr

__all__ = ["as_encoding", "as_key", "as_locality", "as_qos", "as_told"]

USUAL = {  # what a put has that says nothing about it
    "priority": Priority.DATA,
    "congestion": CongestionControl.DROP,
    "express": False,
    "reliable": True,
    "destination": Locality.ANY,
}


def as_key(key_expr: KeyExpr | str) -> KeyExpr:
    return key_expr if isinstance(key_expr, KeyExpr) else KeyExpr(key_expr)


def as_encoding(encoding: Encoding | str | None) -> Encoding | None:
    return encoding if encoding is None or isinstance(encoding, Encoding) else Encoding(encoding)


def as_told(encoding: Encoding | None) -> Encoding | None:
    """What need not be said is not: bytes without a schema."""
    return None if encoding is not None and encoding.id == 0 and encoding.schema is None else encoding


def as_locality(locality: Locality | None) -> Locality:
    return Locality.ANY if locality is None else locality


def as_qos(
    congestion_control: CongestionControl | None,
    priority: Priority | None,
    express: bool | None,
    destination: Locality | None,
) -> dict[str, Any]:
    """How a sample travels, as the node's `put` has it."""
    if congestion_control is None and priority is None and express is None and destination is None:
        return USUAL
    return {
        "priority": Priority.DATA if priority is None else priority,
        "congestion": CongestionControl.DROP if congestion_control is None else congestion_control,
        "express": bool(express),
        "reliable": True,
        "destination": as_locality(destination),
    }
