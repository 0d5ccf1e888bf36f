# SPDX-License-Identifier: Apache-2.0
# Any datagram is refused with a DecodeError at one of its bytes, or is one message that, written, reads as the same.
"""Scouting datagrams."""

from tests.vectors import batches

from zenlake.errors import DecodeError
from zenlake.wire.scouting import read_scouting

CORPUS = [batch.data for batch in batches("scouting")]


def check(data: bytes) -> None:
    try:
        message = read_scouting(data)
    except DecodeError as error:
        assert 0 <= error.at <= len(data)
        return
    assert read_scouting(type(message)(**message.fields()).encode()) == message
