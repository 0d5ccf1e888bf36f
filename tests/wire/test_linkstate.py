# SPDX-License-Identifier: Apache-2.0
"""The link state: single bytes, round trips, and invalid lists."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.strategies import text, u16, u64, zenoh_id
from zenlake.core.enums import WhatAmI
from zenlake.core.identifiers import ZenohId
from zenlake.errors import DecodeError, EncodeError
from zenlake.wire.linkstate import LinkState, decode, encode


def test_each_byte():
    wire = (
        b"\x02"  # two nodes
        b"\x1f"  # options: zid, whatami, locators, weights, gateway
        b"\x00\x02"  # psid 0 (the sender), version 2
        b"\x01\x07"  # ZenohID of 1 byte
        b"\x02"  # a peer: not INIT's code for it
        b"\x01\x05tcp/x"  # one locator
        b"\x02\x01\x03"  # two links, to psid 1 and 3
        b"\x64\xac\x02"  # their weights: 100 and 300
        b"\x00"  # the second node: no options
        b"\x01\x00"  # psid 1, version 0
        b"\x00"  # no links
    )
    nodes = (
        LinkState(0, 2, ZenohId.from_wire(b"\x07"), WhatAmI.PEER, ("tcp/x",), (1, 3), (100, 300), gateway=True),
        LinkState(1, 0),
    )
    assert decode(wire) == nodes
    assert encode(nodes) == wire


def weighted(links):
    return st.tuples(st.just(links), st.none() | st.tuples(*(u16 for _ in links)))


nodes = st.builds(
    lambda psid, sn, zid, whatami, locators, links, gateway, unknown: LinkState(
        psid, sn, zid, whatami, locators, *links, gateway, unknown << 5
    ),
    u64,
    u64,
    st.none() | zenoh_id,
    st.none() | st.sampled_from(WhatAmI),
    st.none() | st.lists(text, max_size=2).map(tuple),
    st.lists(u64, max_size=3).map(tuple).flatmap(weighted),
    st.booleans(),
    st.integers(0, 3),
)


@given(st.lists(nodes, max_size=3).map(tuple))
def test_encoded_values_decode_to_equal_values(some):
    assert decode(encode(some)) == some


@pytest.mark.parametrize(
    ("wire", "field", "at"),
    [
        ("", "LINKSTATE.count", 0),
        ("01 01 00 00 00", "LINKSTATE.zid", 5),  # of no length
        ("01 01 00 00 11", "LINKSTATE.zid", 5),  # of 17 bytes
        ("01 01 00 00 02 0000", "LINKSTATE.zid", 5),  # of zeros
        ("01 02 00 00 00", "LINKSTATE.whatami", 4),  # 0 is INIT's router
        ("01 02 00 00 03", "LINKSTATE.whatami", 4),
        ("01 04 00 00 01 01 ff", "LINKSTATE.locators", 6),
        ("01 08 00 00 01 01 808004", "LINKSTATE.weights", 6),  # 65536
        ("01 00 00 00 00 00", "LINKSTATE.end", 5),
        ("ffffffffffffffffff", "LINKSTATE.options", 9),
        ("01 04 00 00 ffffffffffffffffff", "LINKSTATE.locators", 13),
        ("01 00 00 00 ffffffffffffffffff", "LINKSTATE.links", 13),
    ],
)
def test_a_bad_list_is_refused_at_the_right_byte_without_allocation(wire, field, at):
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError) as caught:
            decode(bytes.fromhex(wire.replace(" ", "")))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    assert (caught.value.field, caught.value.at) == (field, at)


def test_a_weight_belongs_to_a_link():
    with pytest.raises(EncodeError, match="1 weights for 0 links"):
        encode([LinkState(0, 0, weights=(1,))])
