# SPDX-License-Identifier: Apache-2.0
"""Messages assembled byte by byte from the specification, each byte with its meaning, decoded and encoded."""

import pytest

from zenlake.core.encoding import Encoding
from zenlake.core.identifiers import EntityGlobalId, SourceInfo, Timestamp, ZenohId
from zenlake.wire.batch_reader import messages, read_network
from zenlake.wire.declare import Declare, DeclareEntity, DeclareFinal, DeclareKeyExpr, Interest, UndeclareEntity
from zenlake.wire.handshake import Close, Init, Join, Open
from zenlake.wire.network import Oam, Push, Request, Response, ResponseFinal
from zenlake.wire.scouting import Hello, Scout, read_scouting
from zenlake.wire.transport import Fragment, Frame, KeepAlive
from zenlake.wire.zenoh_body import Del, Err, Put, Query, Reply

ID = bytes(range(1, 17))

TRANSPORT = {
    "a client's InitSyn with QoS and Patch 1": (
        b"\xc1"  # Z=1 S=1 A=0, INIT
        b"\x09"  # version 9
        b"\xf2" + ID +  # 16 bytes of ZenohID, client
        b"\x0a"  # resolution: sequence numbers and request ids of 32 bits
        b"\xc8\xff"  # batch size 65480
        b"\x81"  # extension QoS: no content; more follow
        b"\x27\x01",  # extension Patch: the number 1
        Init(whatami=2, zid=ID, sized=True, batch_size=65480, qos=True, patch=1),
    ),
    "an InitAck without sizes, which means the defaults": (
        b"\x21"  # Z=0 S=0 A=1, INIT
        b"\x09"  # version 9
        b"\x00\x07"  # one byte of ZenohID, router
        b"\x02ck",  # cookie of 2 bytes
        Init(ack=True, whatami=0, zid=b"\x07", resolution=0x0A, batch_size=65535, cookie=b"ck"),
    ),
    "an OpenSyn that promises a sign of life every 10 s": (
        b"\x42"  # Z=0 T=1 (seconds) A=0, OPEN
        b"\x0a"  # lease 10
        b"\xac\x02"  # initial sequence number 300
        b"\x02ck",  # the cookie
        Open(seconds=True, lease=10, initial_sn=300, cookie=b"ck"),
    ),
    "CLOSE of the whole session": (
        b"\x23"  # S=1, CLOSE
        b"\x00",  # generic
        Close(session=True, reason=0),
    ),
    "KEEP_ALIVE": (b"\x04", KeepAlive()),
    "an empty FRAME in the Control lane": (
        b"\xa5"  # Z=1 R=1, FRAME
        b"\x7f"  # sequence number 127: the last of one byte
        b"\x31\x00",  # extension priority, mandatory: Control
        Frame(reliable=True, sn=127, priority=0),
    ),
    "the first of several fragments": (
        b"\xe6"  # Z=1 M=1 R=1, FRAGMENT
        b"\x80\x01"  # sequence number 128: the first of two bytes
        b"\x02"  # extension First: no content
        b"part",  # the rest of the batch
        Fragment(more=True, sn=128, first=True, payload=b"part"),
    ),
    "a JOIN with a lane of each priority": (
        b"\xa7"  # Z=1 S=0 T=1, JOIN
        b"\x09"  # version 9
        b"\x01\x05"  # one byte of ZenohID, peer
        b"\x0a"  # lease 10 s
        b"\x00\x00"  # the two sequence numbers, superseded
        b"\xd1\x10" + bytes(range(16)) +  # extension QoS, mandatory: reliable and best effort of priority 0, 1, ...
        b"\x27\x01",  # extension Patch: 1
        Join(
            whatami=1, zid=b"\x05", seconds=True, lease=10, patch=1, lanes=[(2 * i, 2 * i + 1) for i in range(8)],
            batch_size=8192,
        ),
    ),
}  # fmt: skip

NETWORK = {
    "PUSH of a full key, PUT with everything": (
        b"\xfd"  # Z=1 M=1 (the sender's ids) N=1 (a suffix), PUSH
        b"\x00\x03a/b"  # no prefix; suffix of 3 bytes
        b"\x21\x1d"  # extension QoS: Data, Block, express; the last
        b"\xe1"  # Z=1 E=1 T=1, PUT
        b"\x80\x80\x80\x80\x90\x80\x80\x80\x80\x01\x07"  # time 2**63 + 2**32 in nine bytes; id of 1 byte
        b"\x0b\x02qs"  # encoding 5 with a schema of 2 bytes
        b"\xc1\x04\x00\x07\x05\x06"  # extension source: ZenohID of 1 byte, entity 5, sample 6; more follow
        b"\x43\x03att"  # extension attachment
        b"\x02hi",  # payload
        Push(
            key="a/b",
            qos=0x1D,
            body=Put(
                timestamp=Timestamp.from_wire((1 << 63) + (1 << 32), b"\x07"),
                encoding=Encoding("application/json;qs"),
                source=SourceInfo(EntityGlobalId(ZenohId.from_wire(b"\x07"), 5), 6),
                attachment=b"att",
                payload=b"hi",
            ),
        ),
    ),
    "PUSH under an id that the receiver declared, DEL": (
        b"\x1d"  # M=0: the receiver's id; N=0: no suffix
        b"\x05"  # id 5
        b"\x02",  # DEL
        Push(key=(5, False, None), body=Del()),
    ),
    "REQUEST as 1.10.2 sends it, with a body": (
        b"\xfc"  # Z=1 M=1 N=1, REQUEST
        b"\x07"  # request 7
        b"\x00\x01q"  # the key `q`
        b"\xa1\x0d"  # extension QoS: Data, Block; more follow
        b"\xb4\x01"  # extension target, mandatory: all; more follow
        b"\x26\x90\x4e"  # extension timeout: 10000 ms
        b"\xe3"  # Z=1 P=1 C=1, QUERY
        b"\x03"  # consolidation: latest
        b"\x03x=1"  # parameters
        b"\x43\x09\x0b\x02qsQBODY",  # extension body: encoding 5, schema `qs`, then the bytes up to the end (A4)
        Request(
            id=7, key="q", qos=0x0D, target=1, timeout=10000,
            body=Query(consolidation=3, parameters=b"x=1", encoding=Encoding("application/json;qs"), body=b"QBODY"),
        ),
    ),
    "RESPONSE with a REPLY": (
        b"\xfb"  # Z=1 M=1 N=1, RESPONSE
        b"\x07"  # to request 7
        b"\x00\x01q"  # the key `q`
        b"\x43\x03\x00\x07\x06"  # extension responder: ZenohID of 1 byte, entity 6
        b"\x04"  # REPLY
        b"\x01\x02ok",  # PUT, payload
        Response(
            id=7, key="q", responder=EntityGlobalId(ZenohId.from_wire(b"\x07"), 6), body=Reply(body=Put(payload=b"ok"))
        ),
    ),
    "a router's timeout: RESPONSE without a key": (
        b"\x5b"  # M=1 N=0, RESPONSE
        b"\x07"  # to request 7
        b"\x00"  # no prefix, and no suffix: no key
        b"\x05"  # ERR
        b"\x07Timeout",  # payload
        Response(id=7, key=(0, True, None), body=Err(payload=b"Timeout")),
    ),
    "RESPONSE_FINAL": (b"\x9a\x07\x21\x0d", ResponseFinal(id=7, qos=0x0D)),  # request 7; extension QoS: Data, Block
    "D_KEYEXPR": (
        b"\x9e\x21\x08"  # Z=1, DECLARE; extension QoS: Control, Block
        b"\x20"  # N=1, D_KEYEXPR
        b"\x01"  # id 1
        b"\x00\x04demo",  # stands for `demo`
        Declare(qos=8, body=DeclareKeyExpr(id=1, key=(0, False, "demo"))),
    ),
    "D_QUERYABLE, complete": (
        b"\x9e\x21\x08"  # DECLARE; Control, Block
        b"\xe4"  # Z=1 M=1 N=1, D_QUERYABLE
        b"\x02"  # queryable 2
        b"\x01\x03/**"  # the sender's id 1, then `/**`
        b"\x21\x01",  # extension info: complete
        Declare(qos=8, body=DeclareEntity(kind=4, id=2, key=(1, True, "/**"), info=1)),
    ),
    "U_SUBSCRIBER between routers: known by its key": (
        b"\x9e\x21\x08"  # DECLARE; Control, Block
        b"\x83"  # Z=1, U_SUBSCRIBER
        b"\x00"  # id 0
        b"\x5f\x04"  # extension key, mandatory, 4 bytes
        b"\x03"  # its own flags: M=1 N=1
        b"\x01/*",  # the sender's id 1, then `/*` up to the extension's end
        Declare(qos=8, body=UndeclareEntity(kind=3, id=0, key=(1, True, "/*"))),
    ),
    "D_FINAL, the answer to interest 2": (
        b"\xbe\x02"  # Z=1 I=1, DECLARE; interest 2
        b"\x21\x08"  # Control, Block
        b"\x1a",  # D_FINAL
        Declare(interest_id=2, qos=8, body=DeclareFinal()),
    ),
    "a liveliness subscriber's INTEREST": (
        b"\xd9"  # Z=1 MOD=10 (future), INTEREST
        b"\x01"  # interest 1
        b"\x79"  # A=0 M=1 N=1 R=1 T=1 Q=0 S=0 K=1
        b"\x01\x03/**"  # the sender's id 1, then `/**`
        b"\x21\x08",  # the extensions come last: Control, Block
        Interest(mode=2, id=1, options=0x79, key=(1, True, "/**"), qos=8),
    ),
    "INTEREST, final": (b"\x99\x01\x21\x08", Interest(mode=0, id=1, qos=8)),  # MOD=00: nothing but the id
    "OAM with bytes": (
        b"\xdf"  # Z=1 ENC=10, OAM
        b"\x01"  # id 1: link state
        b"\x21\x08"  # the extensions come before the body: Control, Block
        b"\x01\x00",  # body of 1 byte: no entries
        Oam(id=1, qos=8, body=b"\x00"),
    ),
}  # fmt: skip

SCOUTING = {
    "SCOUT for routers and peers": (b"\x01\x09\x03", Scout(what=3)),  # version 9; I=0, what=011
    "SCOUT with the zid of its sender": (
        b"\x01\x09"  # version 9
        b"\x19\x01\x02",  # zid_len=1 (2 bytes) I=1, what=001 (router)
        Scout(what=1, zid=b"\x01\x02"),
    ),
    "HELLO with an address": (
        b"\x22\x09"  # L=1; version 9
        b"\x01\x07"  # one byte of ZenohID, peer
        b"\x01\x08tcp/x:17",  # one locator of 8 bytes
        Hello(whatami=1, zid=b"\x07", locators=["tcp/x:17"]),
    ),
    "HELLO without locators": (b"\x02\x09\x02\x07", Hello(whatami=2, zid=b"\x07")),
}


@pytest.mark.parametrize("name", TRANSPORT)
def test_transport(name):
    wire, message = TRANSPORT[name]
    assert messages(wire) == [message]
    assert message.encode() == wire


@pytest.mark.parametrize("name", NETWORK)
def test_network(name):
    wire, message = NETWORK[name]
    assert read_network(wire) == message
    assert message.encode() == wire
    assert messages(b"\x25\x00" + wire) == [Frame(), message]


@pytest.mark.parametrize("name", SCOUTING)
def test_scouting(name):
    wire, message = SCOUTING[name]
    assert read_scouting(wire) == message
    assert message.encode() == wire


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16383, "ff7f"),
        (16384, "808001"),
        (2**32 - 1, "ffffffff0f"),
        (2**56 - 1, "ffffffffffffff7f"),
        (2**56, "808080808080808001"),
        (2**63, "808080808080808080"),  # the ninth byte carries eight raw bits (divergence A1)
        (2**64 - 1, "ffffffffffffffffff"),
    ],
)
def test_numbers_of_every_length(value, wire):
    message = Open(ack=True, lease=value)
    assert message.encode() == b"\x22" + bytes.fromhex(wire) + b"\x00"
    assert messages(message.encode())[0].lease == value
