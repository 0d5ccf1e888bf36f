# SPDX-License-Identifier: Apache-2.0
"""Every exception that Zenlake raises on purpose, and whose fault each one is.

    ZenlakeError
    ├── InvalidValue       the caller's fault: a text, number or byte string that is not what it was passed as
    │   ├── KeyExprError       a key expression
    │   ├── EndpointError      a locator or an endpoint
    │   └── ConfigError        a configuration
    ├── DecodeError        the sender's fault: bytes that do not say what the protocol says they must
    ├── EncodeError        the caller's fault: a message that no bytes can express
    ├── ProtocolError      a well-formed message at the wrong moment, or beyond what was agreed
    │   ├── LocalError         ours: what we were asked to send would break the protocol
    │   └── RemoteError        theirs: what we received breaks it
    ├── QueryError         the other end's: what it answered to a query is an error
    ├── LinkError          the network's fault: an address out of reach, a certificate that nobody trusts
    ├── LogError           a wire log that cannot be read or written as it is
    │   ├── LogFull            the disk is full: free some space and go on, nothing acknowledged is lost
    │   └── LogRemoved         retention, or somebody, has removed what was asked for
    ├── LakeError          a lake that cannot be read or landed into as it is
    ├── ClosedError        the caller's fault: a session, a declaration or a channel used after its end
    └── DeadlockError      the caller's fault: a wait for what only the thread that waits could bring

InvalidValue, DecodeError and EncodeError are ValueErrors too. DecodeError and ProtocolError know the `reason` to give
in a CLOSE that they cause. All of them survive a pickle, so a Spark task can tell its driver what it met.
"""

from enum import IntEnum

from zenlake.redact import redact

__all__ = [
    "CloseReason",
    "ZenlakeError",
    "InvalidValue",
    "KeyExprError",
    "EndpointError",
    "ConfigError",
    "DecodeError",
    "EncodeError",
    "ProtocolError",
    "LocalError",
    "RemoteError",
    "QueryError",
    "LinkError",
    "LogError",
    "LogFull",
    "LogRemoved",
    "LakeError",
    "ClosedError",
    "DeadlockError",
]


class CloseReason(IntEnum):
    """The reason byte of a CLOSE message."""

    GENERIC = 0
    UNSUPPORTED = 1
    INVALID = 2
    MAX_SESSIONS = 3
    MAX_LINKS = 4
    EXPIRED = 5
    UNRESPONSIVE = 6
    CONNECTION_TO_SELF = 7


class ZenlakeError(Exception):
    """Catches everything below. Secrets in the message are hidden."""

    def __str__(self) -> str:
        return redact(super().__str__())

    def __repr__(self) -> str:
        return redact(super().__repr__())


class InvalidValue(ZenlakeError, ValueError):
    """A value that cannot be what it was passed as; the message quotes it and says how to mend it."""


class KeyExprError(InvalidValue):
    """A text that is not a (canonical) key expression."""


class EndpointError(InvalidValue):
    """A text that is neither a locator nor an endpoint."""


class ConfigError(InvalidValue):
    """A configuration that cannot be read, or that contradicts itself."""


class DecodeError(ZenlakeError, ValueError):
    """Received bytes that cannot be read: which `field`, the byte it starts `at`, and `why`."""

    reason = CloseReason.INVALID

    def __init__(self, field: str, at: int, why: str) -> None:
        super().__init__(field, at, why)  # all three in `args`: that is what pickles
        self.field = field
        self.at = at
        self.why = why

    def __str__(self) -> str:
        return f"{self.field} at byte {self.at}: {self.why}"


class EncodeError(ZenlakeError, ValueError):
    """A message that cannot be written: which `field`, and `why`."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(field, why)
        self.field = field
        self.why = why

    def __str__(self) -> str:
        return f"{self.field}: {self.why}"


class ProtocolError(ZenlakeError):
    """A breach of the protocol: `why`, and the `reason` to give in the CLOSE that ends the session."""

    def __init__(self, why: str, reason: CloseReason = CloseReason.GENERIC) -> None:
        super().__init__(why, reason)
        self.why = why
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.why} ({self.reason.name})"


class LocalError(ProtocolError):
    """We were asked to do what the protocol forbids here. Nothing was sent."""


class RemoteError(ProtocolError):
    """The other end did what the protocol forbids here."""


class QueryError(ZenlakeError):
    """A query some of whose answers are errors: their `errors` (payloads), and the `table` of those that are not."""

    def __init__(self, errors: tuple[bytes, ...], table: object = None) -> None:
        super().__init__(errors, table)
        self.errors = errors
        self.table = table

    def __str__(self) -> str:
        more = f" (and {len(self.errors) - 1} more)" if len(self.errors) > 1 else ""
        return f"the query was answered with an error: {self.errors[0].decode(errors='replace')}{more}"


class LinkError(ZenlakeError):
    """A link that could not be made, or broke: which `endpoint`, and `why`."""

    def __init__(self, endpoint: str, why: str) -> None:
        super().__init__(endpoint, why)
        self.endpoint = endpoint
        self.why = why

    def __str__(self) -> str:
        return redact(f"{self.endpoint}: {self.why}")


class LogError(ZenlakeError):
    """A wire log that cannot be read or written as it is."""


class LogFull(LogError):
    """The disk is full. What was acknowledged is safe, the rest waits; free some space and flush again."""


class LogRemoved(LogError):
    """Retention, or somebody, has removed what was asked for."""


class LakeError(ZenlakeError):
    """A lake that cannot be read or landed into as it is."""


class ClosedError(ZenlakeError):
    """Something that was closed, undeclared, cancelled or dropped before, or that belongs to the process we forked from."""


class DeadlockError(ZenlakeError):
    """A wait that would never end: in a callback that runs in the loop, for what the loop is to receive."""


ZError = ZenlakeError  # as zenoh-python calls the one error that it has
