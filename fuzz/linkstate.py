# SPDX-License-Identifier: Apache-2.0
# Any body is refused with a DecodeError at one of its bytes, or is a list of nodes that, written, reads as the same.
"""The link state in an OAM."""

from tests.vectors import batches

from zenlake.errors import DecodeError
from zenlake.wire import linkstate
from zenlake.wire.network import Oam

CORPUS = [
    message.body.value
    for batch in batches()
    if "probe" not in batch.file
    for message in batch.messages()
    if isinstance(message, Oam)
]


def check(data: bytes) -> None:
    try:
        nodes = linkstate.decode(data)
    except DecodeError as error:
        assert 0 <= error.at <= len(data)
        return
    assert linkstate.decode(linkstate.encode(nodes)) == nodes
