# SPDX-License-Identifier: Apache-2.0
"""Credentials, keys, link restrictions and timestamp stacks: recorded bytes, single cases and round trips."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vectors import batches
from tests.wire.strategies import data, timestamp, u64
from zenlake.errors import DecodeError, InvalidValue
from zenlake.wire.auth_multilink import Auth, Credentials, KeyOffer, KeyProof, PublicKey
from zenlake.wire.handshake import Init, Open
from zenlake.wire.qos_link import QosLink
from zenlake.wire.timestamp_stack import StackRecord, TimestampStack

# User and password


def recorded(link):
    """The Auth of each handshake message on a link of the vector."""
    return [
        Auth.decode(message.auth.value)
        for batch in batches("usrpwd")
        if batch.flow[1] == link
        for message in batch.messages()
        if isinstance(message, Init | Open)
    ]


def test_the_recorded_handshake_proves_the_password():
    """alice/secret on link A; the HMAC is the one that 1.10.2 computed."""
    asked, challenged, answered, accepted = recorded("A")
    assert asked == accepted == Auth(usrpwd=True)
    assert answered.credentials == Credentials.of(b"alice", b"secret", challenged.nonce)
    assert answered.credentials.prove(b"secret", challenged.nonce)
    assert not answered.credentials.prove(b"secret", challenged.nonce ^ 1)
    assert not answered.credentials.prove(b"Secret", challenged.nonce)


def test_the_recorded_wrong_password_does_not_prove_the_right_one():
    _, challenged, answered = recorded("B")
    assert answered.credentials.user == b"alice"
    assert not answered.credentials.prove(b"secret", challenged.nonce)


@pytest.mark.parametrize(
    ("auth", "wire"),
    [
        (Auth(usrpwd=True), "02"),
        (Auth(nonce=300), "22 ac02"),
        (Auth(credentials=Credentials(b"al", b"xyz")), "42 07 02 616c 03 78797a"),
        (Auth(pubkey=b"\x01\x0f\x01\x03", usrpwd=True), "c1 04 010f0103 02"),
        (Auth(pubkey_ack=True), "01"),
        (Auth(), ""),
    ],
)
def test_each_byte_of_the_inner_chain(auth, wire):
    assert Auth.decode(bytes.fromhex(wire.replace(" ", ""))) == auth
    assert auth.encode() == bytes.fromhex(wire.replace(" ", ""))


@given(
    st.builds(
        Auth,
        st.none() | data,
        st.booleans(),
        st.booleans(),
        st.none() | u64,
        st.none() | st.builds(Credentials, data, data),
    )
)
def test_encoded_values_decode_to_equal_values(auth):
    assert Auth.decode(auth.encode()) == auth


def test_an_unknown_method_is_skipped_if_it_may_be():
    assert Auth.decode(bytes.fromhex("cf 02 6161 02")) == Auth(usrpwd=True)
    with pytest.raises(DecodeError, match="unknown mandatory"):
        Auth.decode(bytes.fromhex("df 02 6161 02"))


@pytest.mark.parametrize(
    ("kind", "wire", "field", "at"),
    [
        (Auth, "82", "AUTH.exts", 1),  # one more announced
        (Auth, "02 02", "AUTH.end", 1),  # none announced
        (Auth, "42 04 02616c 03", "AUTH.hmac", 5),
        (Auth, "42 05 01 61 01 62 00", "AUTH.credentials", 6),
        (KeyOffer, "01", "PUBKEY.n", 0),
        (KeyOffer, "0105 0103 0101 00", "PUBKEY.end", 6),
        (KeyProof, "0101 00", "PUBKEY.end", 2),
    ],
)
def test_a_bad_payload_is_refused_at_the_right_byte(kind, wire, field, at):
    with pytest.raises(DecodeError) as caught:
        kind.decode(bytes.fromhex(wire.replace(" ", "")))
    assert (caught.value.field, caught.value.at) == (field, at)


# Public keys


def test_each_byte_of_a_key():
    wire = b"\x02\x01\x02\x03\x01\x00\x01\x01\xff"  # n = 0x0201, e = 65537, an encrypted nonce of 1 byte
    offer = KeyOffer(PublicKey(0x0201, 65537), b"\xff")
    assert KeyOffer.decode(wire) == offer
    assert offer.encode() == wire
    assert KeyOffer.decode(wire[:-2]) == KeyOffer(PublicKey(0x0201, 65537))
    assert KeyProof(b"\xff").encode() == b"\x01\xff"


def test_the_recorded_multilink_key_has_512_bits():
    (asked,) = [
        message.multilink.value
        for batch in batches("multilink")
        for message in batch.messages()
        if isinstance(message, Init) and not message.ack and message.multilink.value
    ]
    key = KeyOffer.decode(asked).key
    assert (key.n.bit_length(), key.e) == (512, 65537)


# QoSLink


@pytest.mark.parametrize(
    ("value", "link", "words"),
    [
        (0x0, QosLink(qos=False), "no QoS"),
        (0x1, QosLink(), "every message"),
        (0x180E, QosLink(priorities=(1, 3), reliable=False), "priorities 1 to 3, best effort"),  # vector qoslink
        (0x80004, QosLink(reliable=True), "reliable"),
        (0x3802, QosLink(priorities=(0, 7)), "priorities 0 to 7"),
    ],
)
def test_each_restriction_of_a_link(value, link, words):
    assert QosLink.from_wire(value) == link
    assert link.to_wire() == value
    assert str(link) == words


@pytest.mark.parametrize("value", [0x2 | 3 << 3 | 1 << 11, 0x2 | 8 << 11])
def test_invalid_priorities_are_refused(value):
    with pytest.raises(InvalidValue, match="not within 0 to 7"):
        QosLink.from_wire(value)


# Timestamp stacks


@given(
    st.builds(
        TimestampStack,
        st.integers(1, 255),
        st.lists(st.builds(StackRecord, st.integers(0, 127), timestamp | data), max_size=3).map(tuple),
    )
)
def test_a_stack_that_is_written_is_read_back(stack):
    assert TimestampStack.decode(stack.encode()) == stack


@pytest.mark.parametrize(
    ("wire", "field", "at"),
    [
        ("00 00", "TIMESTAMP_STACK.points", 0),  # no entry
        ("01 8002", "TIMESTAMP_STACK.count", 1),  # 256 records
        ("01 01 01 03 00 00", "TIMESTAMP_STACK.data", 3),  # 3 bytes declared, 2 left
        ("01 01 01 03 00 00 00", "TIMESTAMP_STACK.data.id", 6),
        ("01 01 01 04 00 01 07 00", "TIMESTAMP_STACK.data", 7),
        ("01 00 00", "TIMESTAMP_STACK.end", 2),
    ],
)
def test_a_bad_stack_is_refused_at_the_right_byte(wire, field, at):
    with pytest.raises(DecodeError) as caught:
        TimestampStack.decode(bytes.fromhex(wire.replace(" ", "")))
    assert (caught.value.field, caught.value.at) == (field, at)
