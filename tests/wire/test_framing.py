# SPDX-License-Identifier: Apache-2.0
"""Streams are split into batches for any pieces of input. No block decompresses to more than the negotiated size."""

import tracemalloc

import lz4.block
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenlake.errors import DecodeError, EncodeError
from zenlake.wire.framing import Splitter, add_prefix, compress, decompress, room_on_stream


@given(st.lists(st.binary(max_size=300), max_size=6), st.booleans(), st.lists(st.integers(1, 50), min_size=1))
def test_a_stream_in_any_pieces_gives_the_batches_that_went_in(wanted, low_latency, sizes):
    stream = b"".join(add_prefix(batch, low_latency=low_latency) for batch in wanted)
    splitter = Splitter(low_latency=low_latency)
    found, at, turn = [], 0, 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        splitter.feed(stream[at : at + size])
        found.extend(splitter)
        at, turn = at + size, turn + 1
    assert found == wanted
    assert len(splitter) == 0
    assert splitter.at == len(stream)


def test_the_prefix_is_two_bytes_and_four_in_low_latency():
    assert add_prefix(b"abc") == b"\x03\x00abc"
    assert add_prefix(b"abc", low_latency=True) == b"\x03\x00\x00\x00abc"


def test_negotiated_parameters_apply_from_the_next_batch():
    """The four bytes of low latency may already lie behind the OpenAck when it is read."""
    splitter = Splitter()
    splitter.feed(add_prefix(b"OpenAck") + add_prefix(b"first", low_latency=True))
    assert next(splitter) == b"OpenAck"
    splitter.low_latency = True
    assert next(splitter) == b"first"


def test_the_agreed_size_counts_the_prefix_except_in_low_latency():
    assert room_on_stream(300) == 298
    assert room_on_stream(300, low_latency=True) == 300
    assert len(add_prefix(bytes(298), 300)) == 300
    with pytest.raises(EncodeError, match="batch of 299 bytes exceeds the negotiated limit of 298"):
        add_prefix(bytes(299), 300)


def test_a_length_above_the_agreed_size_is_refused_before_its_bytes_come():
    splitter = Splitter(300)
    splitter.feed(b"\x01\x00\x04" + b"\x2b\x01")  # a batch of 1, then the length 299
    assert next(splitter) == b"\x04"
    with pytest.raises(DecodeError) as caught:
        next(splitter)
    assert (caught.value.field, caught.value.at) == ("stream.length", 3)


def test_incompressible_batches_are_sent_uncompressed():
    assert compress(b"ab") == b"\x00ab"
    assert compress(b"a" * 100)[0] == 1
    assert len(compress(b"a" * 100)) < 100


@given(st.binary(max_size=400) | st.binary(max_size=8).map(lambda some: some * 100))
def test_compressed_batches_decompress_to_the_original(batch):
    assert decompress(compress(batch)) == batch


@pytest.mark.parametrize(
    ("batch", "field", "at"),
    [
        (b"", "compression.header", 0),
        (b"\x02abc", "compression.header", 0),  # bits that must be 0
        (b"\x81abc", "compression.header", 0),
        (b"\x01", "compression.block", 1),  # no block
        (b"\x01\xff\xff", "compression.block", 1),  # a missing literal
        (b"\x01\x10", "compression.block", 1),  # cut short
    ],
)
def test_a_bad_header_or_block_is_refused(batch, field, at):
    with pytest.raises(DecodeError) as caught:
        decompress(batch)
    assert (caught.value.field, caught.value.at) == (field, at)


def test_a_bomb_is_refused_without_being_unpacked():
    bomb = b"\x01" + lz4.block.compress(bytes(50_000_000), store_size=False)
    assert len(bomb) < 250_000
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match="not an LZ4 block of at most 65535 bytes"):
            decompress(bomb)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert decompress(compress(bytes(300)), 300) == bytes(300)
    with pytest.raises(DecodeError, match="not an LZ4 block of at most 299 bytes"):
        decompress(compress(bytes(300)), 299)
