# SPDX-License-Identifier: Apache-2.0
# Any bytes are refused with a DecodeError at one of them, or are messages that, written again, read as the same
# messages; and a reader that has met all the bytes before says the same as a fresh one.
"""The transport's batches: what `Reader` walks."""

from tests.vectors import batches

from zenlake.errors import DecodeError
from zenlake.wire.reader import Reader, messages

CORPUS = [batch.data for batch in batches() if batch.file != "scouting" and len(batch.data) <= 1024]

used = Reader()


def check(data: bytes) -> None:
    low_latency = len(data) % 8 == 0
    used.low_latency = low_latency
    used.bind(data)
    used.begin(0, len(data))
    seen = []
    refusal = None
    try:
        while (kind := used.next()) >= 0:
            seen.append(used.record(kind).encode())
    except DecodeError as error:
        refusal = error
    try:
        found = messages(data, low_latency)
    except DecodeError as error:
        assert refusal is not None
        assert error.args == refusal.args
        assert 0 <= error.at <= len(data)
        return
    assert refusal is None
    assert [message.encode() for message in found] == seen
    assert messages(b"".join(seen), low_latency) == found
