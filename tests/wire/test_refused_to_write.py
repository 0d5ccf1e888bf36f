# SPDX-License-Identifier: Apache-2.0
"""A message without a valid encoding is refused when it is encoded: we send nothing that we would not decode."""

import pytest

from zenlake.core.encoding import Encoding
from zenlake.errors import EncodeError, InvalidValue
from zenlake.wire.declare import Declare, DeclareEntity, DeclareKeyExpr, Interest, UndeclareEntity
from zenlake.wire.handshake import Init, Join, Open
from zenlake.wire.network import Push, Request
from zenlake.wire.scouting import Hello, Scout
from zenlake.wire.transport import Frame
from zenlake.wire.zenoh_body import Put


@pytest.mark.parametrize(
    "message",
    [
        Init(zid=b""), Init(zid=b"\0\0"), Init(zid=bytes(17)), Init(zid=b"\1", whatami=3), Init(zid=b"\1", version=256),
        Init(zid=b"\1", patch=256), Init(zid=b"\1", region=b"a" * 33), Init(zid=b"\1", ack=True, cookie=bytes(65536)),
        Join(zid=b"\1", patch=256), Open(remote_bound=256), Open(shm_number=1 << 32), Frame(priority=8),
        Push(key=(65536, True, None)), Push(key="a" * 65536), Push(qos=256), Push(node_id=65536), Request(target=3),
        Put(encoding=Encoding.from_wire(0, bytes(256))), Put(encoding=Encoding.from_wire(0x80000000)),
        Put(shm=True), DeclareKeyExpr(id=0), DeclareKeyExpr(id=65536), DeclareEntity(kind=3), UndeclareEntity(kind=2),
        Interest(mode=4), Interest(mode=1, options=256), Scout(what=8), Scout(zid=b""), Hello(zid=b"\1", whatami=3),
    ],
    ids=repr,
)  # fmt: skip
def test_it_is_refused(message):
    with pytest.raises(EncodeError):
        message.encode()


@pytest.mark.parametrize(
    ("chain", "error"),
    [
        (b"\x21\x05", InvalidValue),  # PUSH knows it: the QoS
        (b"\x11", ValueError),  # mandatory: a receiver must refuse it
        (b"\x61", ValueError),  # the reserved encoding
        (b"\x4e\x05ab", ValueError),  # cut short
    ],
)
def test_extensions_to_carry_along_must_be_unknown_optional_and_whole(chain, error):
    with pytest.raises(error):
        Push(unknown_exts=chain)


def test_the_error_of_a_misspelt_field_lists_the_valid_ones():
    with pytest.raises(TypeError, match="PUT has no field 'playload'; it has timestamp, encoding"):
        Put(playload=b"")


@pytest.mark.parametrize("body", [None, Put(), DeclareEntity(kind=3), UndeclareEntity(kind=4)], ids=repr)
def test_a_declaration_is_one_of_nine(body):
    with pytest.raises(TypeError):
        Declare(body=body)


def test_the_order_in_which_fields_are_given_does_not_matter():
    assert Interest(key="a/b", options=2, mode=1, id=3) == Interest(id=3, mode=1, options=2, key="a/b")
