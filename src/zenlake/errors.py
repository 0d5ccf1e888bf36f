# SPDX-License-Identifier: Apache-2.0
"""Exceptions of Zenlake, by the party that caused them.

    ZenlakeError
    ├── InvalidValue       the caller: an invalid text, number or byte string
    │   ├── KeyExprError       an invalid key expression
    │   ├── EndpointError      an invalid locator or endpoint
    │   └── ConfigError        an invalid configuration
    ├── DecodeError        the sender: bytes that violate the wire format
    ├── EncodeError        the caller: a message that cannot be encoded
    ├── ProtocolError      a well-formed message in the wrong state, or beyond the negotiated parameters
    │   ├── LocalError         a call would violate the protocol
    │   └── RemoteError        a received message violates it
    ├── QueryError         a queryable: error replies to a query
    ├── LinkError          the network: an unreachable address, an untrusted certificate
    ├── LogError           a wire log cannot be read or written
    │   ├── LogFull            the disk is full; free some space and continue; acknowledged data is safe
    │   └── LogRemoved         the requested data was removed, by retention or by another process
    ├── LakeError          a lake cannot be read or landed into
    ├── ClosedError        the caller: a closed session, declaration or channel was used
    └── DeadlockError      the caller: a wait that only the waiting thread could end

InvalidValue, DecodeError and EncodeError are also ValueErrors. DecodeError and ProtocolError have the `reason` of the CLOSE that
they cause. All errors can be pickled, so that a Spark task can pass them to its driver.
"""

from enum import IntEnum

from zenlake.core.secret_redaction import redact

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
    """Base class of all errors of Zenlake. Secrets in the message are redacted."""

    def __str__(self) -> str:
        return redact(super().__str__())

    def __repr__(self) -> str:
        return redact(super().__repr__())


class InvalidValue(ZenlakeError, ValueError):
    """An invalid value. The message quotes it and states the expected value."""


class KeyExprError(InvalidValue):
    """A text is not a canonical key expression."""


class EndpointError(InvalidValue):
    """A text is not a locator or an endpoint."""


class ConfigError(InvalidValue):
    """A configuration cannot be read, or contradicts itself."""


class DecodeError(ZenlakeError, ValueError):
    """Received bytes cannot be decoded.

    Attributes:
        field: The field.
        at: Offset of its first byte.
        why: The reason.
    """

    reason = CloseReason.INVALID

    def __init__(self, field: str, at: int, why: str) -> None:
        super().__init__(field, at, why)  # all three in `args`, which are pickled
        self.field = field
        self.at = at
        self.why = why

    def __str__(self) -> str:
        return f"{self.field} at byte {self.at}: {self.why}"


class EncodeError(ZenlakeError, ValueError):
    """A message cannot be encoded.

    Attributes:
        field: The field.
        why: The reason.
    """

    def __init__(self, field: str, why: str) -> None:
        super().__init__(field, why)
        self.field = field
        self.why = why

    def __str__(self) -> str:
        return f"{self.field}: {self.why}"


class ProtocolError(ZenlakeError):
    """A violation of the protocol.

    Attributes:
        why: The violation.
        reason: Reason of the CLOSE that ends the session.
    """

    def __init__(self, why: str, reason: CloseReason = CloseReason.GENERIC) -> None:
        super().__init__(why, reason)
        self.why = why
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.why} ({self.reason.name})"


class LocalError(ProtocolError):
    """A call would violate the protocol. Nothing was sent."""


class RemoteError(ProtocolError):
    """The other node violated the protocol."""


class QueryError(ZenlakeError):
    """Some replies to a query are errors.

    Attributes:
        errors: Payloads of the error replies.
        table: Table of the other replies.
    """

    def __init__(self, errors: tuple[bytes, ...], table: object = None) -> None:
        super().__init__(errors, table)
        self.errors = errors
        self.table = table

    def __str__(self) -> str:
        more = f" (and {len(self.errors) - 1} more)" if len(self.errors) > 1 else ""
        return f"the query was answered with an error: {self.errors[0].decode(errors='replace')}{more}"


class LinkError(ZenlakeError):
    """A link could not be opened, or broke.

    Attributes:
        endpoint: The endpoint.
        why: The reason.
    """

    def __init__(self, endpoint: str, why: str) -> None:
        super().__init__(endpoint, why)
        self.endpoint = endpoint
        self.why = why

    def __str__(self) -> str:
        return redact(f"{self.endpoint}: {self.why}")


class LogError(ZenlakeError):
    """A wire log cannot be read or written."""


class LogFull(LogError):
    """The disk is full. Acknowledged data is safe and the rest is buffered. Free some space and flush again."""


class LogRemoved(LogError):
    """The requested data was removed, by retention or by another process."""


class LakeError(ZenlakeError):
    """A lake cannot be read or landed into."""


class ClosedError(ZenlakeError):
    """The object is closed, undeclared, cancelled or dropped, or belongs to the parent process."""


class DeadlockError(ZenlakeError):
    """A wait would never end: a callback on the event loop thread waits for the event loop."""


ZError = ZenlakeError  # the only error class of zenoh-python
