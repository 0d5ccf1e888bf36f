# SPDX-License-Identifier: Apache-2.0
"""Validation and normalisation of arguments that users may pass in several forms.

Safety: arguments are checked here, before encoding. An integer that is not a valid Priority would otherwise set other bits of a
message. Our enums are ints, so they compare equal to rejected values.
"""

import math
from enum import Enum
from typing import Any, TypeVar

from zenlake.core.encoding import Encoding
from zenlake.core.enums import CongestionControl, Locality, Priority
from zenlake.core.keyexpr import KeyExpr
from zenlake.errors import InvalidValue

__all__ = [
    "as_count",
    "as_encoding",
    "as_flag",
    "as_key",
    "as_locality",
    "as_period",
    "as_qos",
    "as_seconds",
    "as_wire_encoding",
    "require_type",
]

T = TypeVar("T")
D = TypeVar("D")

USUAL = {  # options of a put with their default values
    "priority": Priority.DATA,
    "congestion": CongestionControl.DROP,
    "express": False,
    "reliable": True,
    "destination": Locality.ANY,
}


def require_type(name: str, value: T | None, kind: type[T], usual: D) -> T | D:
    """Return the argument, or `usual` if it is None. Raise TypeError if it has another type."""
    if value is None:
        return usual
    if isinstance(value, kind):
        return value
    raise TypeError(f"invalid {name}={value!r}; expected {_describe(kind)}")


def _describe(kind: type[Any]) -> str:
    if kind is bool:
        return "True or False"
    article = "an" if kind.__name__[0] in "AEIO" else "a"
    choices = f" ({', '.join(each.name for each in kind)})" if issubclass(kind, Enum) else ""
    return f"{article} {kind.__name__}{choices}"


def as_flag(name: str, value: bool | None) -> bool:
    return require_type(name, value, bool, False)


def as_seconds(name: str, value: Any) -> float:
    """Return a duration in seconds: any finite real number that is not negative."""
    kind = type(value)
    if not (hasattr(kind, "__float__") or hasattr(kind, "__index__")):
        raise TypeError(f"invalid {name}={value!r}; expected a number of seconds")
    seconds = float(value)
    if not 0 <= seconds < math.inf:
        raise InvalidValue(f"invalid {name}={value}; expected a finite number of seconds, 0 or more")
    return seconds


def as_period(name: str, value: Any) -> float:
    """Return a period in seconds, greater than zero."""
    seconds = as_seconds(name, value)
    if not seconds:
        raise InvalidValue(f"invalid {name}=0; expected a period greater than 0 seconds, or None")
    return seconds


def as_count(name: str, value: Any) -> int:
    """Return a count of at least one."""
    if not hasattr(type(value), "__index__"):
        raise TypeError(f"invalid {name}={value!r}; expected an integer")
    if value < 1:
        raise InvalidValue(f"invalid {name}={value}; expected 1 or more, or None")
    return int(value)


def as_key(key_expr: KeyExpr | str) -> KeyExpr:
    return key_expr if isinstance(key_expr, KeyExpr) else KeyExpr(key_expr)


def as_encoding(encoding: Encoding | str | None) -> Encoding | None:
    return encoding if encoding is None or isinstance(encoding, Encoding) else Encoding(encoding)


def as_wire_encoding(encoding: Encoding | None) -> Encoding | None:
    """Return the encoding, or None for the default: bytes without a schema."""
    return None if encoding is not None and encoding.id == 0 and encoding.schema is None else encoding


def as_locality(name: str, locality: Locality | None) -> Locality:
    return require_type(name, locality, Locality, Locality.ANY)


def as_qos(
    congestion_control: CongestionControl | None,
    priority: Priority | None,
    express: bool | None,
    destination: Locality | None,
) -> dict[str, Any]:
    """Return the QoS of a sample in the form of the node's `put`."""
    if congestion_control is None and priority is None and express is None and destination is None:
        return USUAL
    return {
        "priority": require_type("priority", priority, Priority, Priority.DATA),
        "congestion": require_type("congestion_control", congestion_control, CongestionControl, CongestionControl.DROP),
        "express": as_flag("express", express),
        "reliable": True,
        "destination": as_locality("allowed_destination", destination),
    }
