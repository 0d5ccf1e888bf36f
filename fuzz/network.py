# SPDX-License-Identifier: Apache-2.0
# Any bytes are refused with a DecodeError at one of them, or are one network message that can be rebuilt from its
# Python values and, written, reads as the same message.
"""One bare network message: what fragments join to."""

from tests.vectors import batches

from zenlake.errors import DecodeError
from zenlake.wire.batch_reader import NETWORK_MESSAGES, messages, read_network


def bare() -> set[bytes]:
    found: set[bytes] = set()
    for batch in batches():
        if "probe" in batch.file or batch.file == "scouting" or len(batch.data) > 1024:
            continue
        found.update(m.encode() for m in messages(batch.data, batch.low_latency) if isinstance(m, NETWORK_MESSAGES))
    return found


CORPUS = sorted(bare())


def check(data: bytes) -> None:
    try:
        message = read_network(data)
    except DecodeError as error:
        assert 0 <= error.at <= len(data)
        return
    rebuilt = type(message)(**message.fields())
    assert rebuilt == message
    assert read_network(rebuilt.encode()) == message
