# SPDX-License-Identifier: Apache-2.0
"""What users may pass in several forms, in the one that the package uses; and the refusal of what is none of them.

Arguments are checked here, at the door: behind it a number that is no Priority would be written into the bits of a message that
mean something else. Our enums are ints, so they compare equal to what is refused.
"""

import math
from enum import Enum
from typing import Any, TypeVar

from zenlake.choices import CongestionControl, Locality, Priority
from zenlake.encoding import Encoding
from zenlake.errors import InvalidValue
from zenlake.keyexpr import KeyExpr

__all__ = [
    "as_count",
    "as_encoding",
    "as_flag",
    "as_key",
    "as_locality",
    "as_period",
    "as_qos",
    "as_seconds",
    "as_told",
    "given",
]

T = TypeVar("T")
D = TypeVar("D")

USUAL = {  # what a put has that says nothing about it
    "priority": Priority.DATA,
    "congestion": CongestionControl.DROP,
    "express": False,
    "reliable": True,
    "destination": Locality.ANY,
}


def given(name: str, value: T | None, kind: type[T], usual: D) -> T | D:
    """The argument, or `usual` if it is None. TypeError if it is not of its kind."""
    if value is None:
        return usual
    if isinstance(value, kind):
        return value
    raise TypeError(f"{name} is {_described(kind)}, not {value!r}")


def _described(kind: type[Any]) -> str:
    if kind is bool:
        return "True or False"
    article = "an" if kind.__name__[0] in "AEIO" else "a"
    choices = f" ({', '.join(each.name for each in kind)})" if issubclass(kind, Enum) else ""
    return f"{article} {kind.__name__}{choices}"


def as_flag(name: str, value: bool | None) -> bool:
    return given(name, value, bool, False)


def as_seconds(name: str, value: Any) -> float:
    """A span of time: any real number that is not negative."""
    kind = type(value)
    if not (hasattr(kind, "__float__") or hasattr(kind, "__index__")):
        raise TypeError(f"{name} is a number of seconds, not {value!r}")
    seconds = float(value)
    if not 0 <= seconds < math.inf:
        raise InvalidValue(f"{name} of {value} seconds: it cannot be negative, nor without end")
    return seconds


def as_period(name: str, value: Any) -> float:
    """How often something is done: as seconds, and not without a pause."""
    seconds = as_seconds(name, value)
    if not seconds:
        raise InvalidValue(f"{name} of 0 seconds would be done without a pause: leave it out, or make it longer")
    return seconds


def as_count(name: str, value: Any) -> int:
    """How many to keep or to ask for: at least one."""
    if not hasattr(type(value), "__index__"):
        raise TypeError(f"{name} is a whole number, not {value!r}")
    if value < 1:
        raise InvalidValue(f"{name} of {value}: leave it out, or make it one at least")
    return int(value)


def as_key(key_expr: KeyExpr | str) -> KeyExpr:
    return key_expr if isinstance(key_expr, KeyExpr) else KeyExpr(key_expr)


def as_encoding(encoding: Encoding | str | None) -> Encoding | None:
    return encoding if encoding is None or isinstance(encoding, Encoding) else Encoding(encoding)


def as_told(encoding: Encoding | None) -> Encoding | None:
    """What need not be said is not: bytes without a schema."""
    return None if encoding is not None and encoding.id == 0 and encoding.schema is None else encoding


def as_locality(name: str, locality: Locality | None) -> Locality:
    return given(name, locality, Locality, Locality.ANY)


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
        "priority": given("priority", priority, Priority, Priority.DATA),
        "congestion": given("congestion_control", congestion_control, CongestionControl, CongestionControl.DROP),
        "express": as_flag("express", express),
        "reliable": True,
        "destination": as_locality("allowed_destination", destination),
    }
