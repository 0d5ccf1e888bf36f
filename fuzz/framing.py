# SPDX-License-Identifier: Apache-2.0
# A stream gives the same batches and the same refusal whether it comes whole or byte by byte, and they are what was put
# in; no block decompresses to more than was agreed on.
"""The stream's prefix and the compression header."""

from tests.vectors import batches

from zenlake.errors import DecodeError
from zenlake.wire.framing import Splitter, add_prefix, compress, decompress

AGREED = 1024

PLAIN = [batch.data for batch in batches() if len(batch.data) < 500]
CORPUS = [add_prefix(one) + add_prefix(compress(two)) for one, two in zip(PLAIN, reversed(PLAIN), strict=True)]


def split(pieces: list[bytes], low_latency: bool) -> tuple[list[bytes], tuple[object, ...], int]:
    splitter = Splitter(AGREED, low_latency)
    found = []
    try:
        for piece in pieces:
            splitter.feed(piece)
            found.extend(splitter)
    except DecodeError as error:
        return found, error.args, 0
    return found, (), len(splitter)


def check(data: bytes) -> None:
    data = data[:1200]
    low_latency = len(data) % 4 == 0
    whole = split([data], low_latency)
    found, refusal, left = whole
    assert split([data[i : i + 1] for i in range(len(data))], low_latency) == whole
    size = sum(len(add_prefix(batch, AGREED, low_latency)) for batch in found)
    assert b"".join(add_prefix(batch, AGREED, low_latency) for batch in found) == data[:size]
    assert refusal or size + left == len(data)
    for batch in found:
        try:
            plain = decompress(batch, AGREED)
        except DecodeError as error:
            assert 0 <= error.at <= len(batch)
        else:
            assert len(plain) <= AGREED
            assert decompress(compress(plain), AGREED) == plain
