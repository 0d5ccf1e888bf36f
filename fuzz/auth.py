# SPDX-License-Identifier: Apache-2.0
# Any payload raises a DecodeError at one of its bytes, or decodes to a value that survives a round trip.
"""The content of extensions: credentials, keys, timestamp stacks."""

from tests.vectors import batches

from zenlake.errors import DecodeError
from zenlake.wire.auth_multilink import Auth, KeyOffer, KeyProof
from zenlake.wire.handshake import Init, Open
from zenlake.wire.network import Push, Request, Response
from zenlake.wire.timestamp_stack import TimestampStack


def payloads() -> list[bytes]:
    found = []
    for batch in batches("usrpwd", "multilink", "put_ts_instrumentation"):
        for message in batch.messages():
            if isinstance(message, Init | Open):
                found += [message.auth.value, message.multilink.value]
            elif isinstance(message, Push | Request | Response):
                found.append(message.timestamp_stack.value)
    return [payload for payload in found if payload]


CORPUS = payloads()


def check(data: bytes) -> None:
    for kind in (Auth, KeyOffer, KeyProof, TimestampStack):
        try:
            value = kind.decode(data)
        except DecodeError as error:
            assert 0 <= error.at <= len(data)
            continue
        assert kind.decode(value.encode()) == value
