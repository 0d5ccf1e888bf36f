# SPDX-License-Identifier: Apache-2.0
"""All recorded batches of eclipse-zenoh are decoded, without unknown parts, and encoded to the same bytes."""

from collections import defaultdict

import pytest

from tests.vectors import FILES, batches, nested
from zenlake.errors import DecodeError
from zenlake.wire import linkstate
from zenlake.wire.auth_multilink import Auth, KeyOffer, KeyProof
from zenlake.wire.batch_reader import read_network
from zenlake.wire.handshake import Init, Open
from zenlake.wire.network import Oam, Push, Request, Response
from zenlake.wire.qos_link import QosLink
from zenlake.wire.timestamp_stack import TimestampStack
from zenlake.wire.transport import Fragment

# Hand-made batches of `probe` that no reader may accept: test_probe says why each of them.
REFUSED = {"probe:14", "probe:26", "probe:113", "probe:126", "probe:139", "probe:157", "probe:163"}

# Hand-made batches of `probe` that carry an unknown extension, because the case is about that.
UNKNOWN = {
    "probe:11": ("INIT", "0e"),  # optional, no payload
    "probe:89": ("FRAME", "2101"),  # the priority with its M bit clear is another extension (divergence A9)
    "probe:120": ("PUSH", "4e03616263"),  # optional, bytes
    "probe:342": ("KEEP_ALIVE", "0e"),
}

# Hand-made batches of `probe` whose encoding is longer than ours.
REWORDED = {
    "probe:11": "the unknown extension stands before a known one; ours come first",
    "probe:151": "numbers with needless continuation bytes",
}


def readable(file):
    return [batch for batch in batches(file) if batch.id not in REFUSED]


def test_invalid_vectors_are_refused():
    for batch in batches("probe"):
        if batch.id in REFUSED:
            with pytest.raises(DecodeError):
                batch.messages()


@pytest.mark.parametrize("file", FILES)
def test_every_batch_decodes_without_unknown_extensions(file):
    for batch in readable(file):
        unknown = [
            (part.NAME, part.unknown_exts.hex())
            for message in batch.messages()
            for part in nested(message)
            if part.unknown
        ]
        assert unknown == ([UNKNOWN[batch.id]] if batch.id in UNKNOWN else []), batch.id


@pytest.mark.parametrize("file", FILES)
def test_every_message_is_written_to_the_same_bytes(file):
    for batch in readable(file):
        found = batch.messages()
        again = b"".join(message.encode() for message in found)
        rebuilt = b"".join(type(message)(**message.fields()).encode() for message in found)
        assert again == rebuilt, batch.id
        assert (again == batch.data) == (batch.id not in REWORDED), batch.id


def test_fragments_rejoin_into_messages_that_are_written_to_the_same_bytes():
    joined = 0
    halves = defaultdict(bytes)
    for batch in batches():
        if batch.id in REFUSED:
            continue
        for message in batch.messages():
            if not isinstance(message, Fragment):
                continue
            lane = (batch.file, batch.flow, message.priority, message.reliable)
            if message.first:
                halves[lane] = b""
            halves[lane] += message.payload.value
            if message.more or message.drop or "probe" in batch.file:  # probes leave fragments out on purpose
                continue
            whole = halves.pop(lane)
            again = read_network(whole)
            assert again.encode() == whole
            assert type(again)(**again.fields()).encode() == whole
            joined += 1
    assert joined == 7
    assert all("probe" in file for file, *_ in halves)


def test_the_content_of_fields_encodes_to_the_same_bytes():
    """Link states, credentials, keys, link restrictions and timestamp stacks: read, and written again."""
    seen = defaultdict(int)
    for batch in batches():
        if batch.id in REFUSED:
            continue
        for message in batch.messages():
            if isinstance(message, Oam) and message.id == linkstate.OAM_ID:
                body = message.body.value
                assert linkstate.encode(linkstate.decode(body)) == body
                seen["linkstate"] += 1
            if isinstance(message, Push | Request | Response) and message.timestamp_stack.value is not None:
                stack = message.timestamp_stack.value
                assert TimestampStack.decode(stack).encode() == stack
                seen["stack"] += 1
            if isinstance(message, Init) and message.qos_link:
                assert QosLink.from_wire(message.qos_link).to_wire() == message.qos_link
                seen["qos_link"] += 1
            if isinstance(message, Init | Open):
                if message.auth.value is not None:
                    assert Auth.decode(message.auth.value).encode() == message.auth.value
                    seen["auth"] += 1
                if message.multilink.value is not None:
                    key = KeyOffer if isinstance(message, Init) else KeyProof
                    assert key.decode(message.multilink.value).encode() == message.multilink.value
                    seen["multilink"] += 1
    assert dict(seen) == {"linkstate": 24, "stack": 8, "qos_link": 2, "auth": 7, "multilink": 3}
