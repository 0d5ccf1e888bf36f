# SPDX-License-Identifier: Apache-2.0
import copy
import pickle

import pytest

from zenlake import errors
from zenlake.errors import (
    CloseReason,
    ConfigError,
    DecodeError,
    EncodeError,
    EndpointError,
    InvalidValue,
    KeyExprError,
    LocalError,
    ProtocolError,
    QueryError,
    RemoteError,
    ZenlakeError,
)

ONE_OF_EACH = [
    InvalidValue("why"),
    KeyExprError("why"),
    EndpointError("why"),
    ConfigError("why"),
    DecodeError("PUT.payload", at=17, why="64 bytes declared, 54 left"),
    EncodeError("PUT.encoding", why="a schema is at most 255 bytes"),
    ProtocolError("why"),
    LocalError("why", CloseReason.MAX_LINKS),
    RemoteError("why", reason=CloseReason.EXPIRED),
    QueryError((b"why", b"not"), [1]),
]


def test_a_decode_error_names_field_byte_and_reason():
    error = DecodeError("PUT.payload", at=17, why="64 bytes declared, 54 left")
    assert str(error) == "PUT.payload at byte 17: 64 bytes declared, 54 left"
    assert (error.field, error.at, error.why) == ("PUT.payload", 17, "64 bytes declared, 54 left")
    assert error.reason is CloseReason.INVALID


def test_an_encode_error_names_field_and_reason():
    assert str(EncodeError("PUT.encoding", "too long")) == "PUT.encoding: too long"


def test_a_protocol_error_has_its_close_reason():
    assert RemoteError("silent", CloseReason.EXPIRED).reason == 5
    assert str(RemoteError("silent", CloseReason.EXPIRED)) == "silent (EXPIRED)"
    assert ProtocolError("silent").reason is CloseReason.GENERIC


@pytest.mark.parametrize("error", ONE_OF_EACH, ids=lambda error: type(error).__name__)
def test_errors_survive_pickle_and_copy(error):
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert vars(other) == vars(error)


def test_the_tree_in_the_docstring_is_the_tree():
    """Each class is drawn one level below its parent."""
    levels = {}
    for line in errors.__doc__.splitlines():
        name = next((word for word in line.split() if hasattr(errors, word.strip("│├└─"))), None)
        if name and line.startswith("    "):
            levels.setdefault(name, line.index(name))
    assert set(levels) == {name for name in errors.__all__ if name != "CloseReason"}
    for name, level in levels.items():
        parents = [base.__name__ for base in getattr(errors, name).__bases__ if issubclass(base, ZenlakeError)]
        assert all(levels[parent] < level for parent in parents)
        assert bool(parents) == (name != "ZenlakeError")


def test_values_and_bytes_errors_are_value_errors():
    assert all(issubclass(kind, ValueError) for kind in (InvalidValue, DecodeError, EncodeError))
    assert not issubclass(ProtocolError, ValueError)
