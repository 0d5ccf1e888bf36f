# SPDX-License-Identifier: Apache-2.0
# Any bytes are refused with a DecodeError at one of them, or are messages that, written again, read as the same
# messages; and a reader whose records still hold other messages says the same as a fresh one.
"""The transport's batches: what `BatchReader` walks."""

from tests.vectors import batches

from zenlake.core.encoding import Encoding
from zenlake.core.identifiers import EntityGlobalId, SourceInfo, Timestamp, ZenohId
from zenlake.errors import DecodeError
from zenlake.wire.batch_reader import BatchReader, messages
from zenlake.wire.declare import Declare, DeclareEntity, DeclareKeyExpr, Interest, UndeclareEntity
from zenlake.wire.handshake import Close, Init, Join, Open
from zenlake.wire.network import Oam, Push, Request, Response, ResponseFinal
from zenlake.wire.transport import Fragment, Frame, TransportOam
from zenlake.wire.zenoh_body import Del, Err, Put, Query, Reply

CORPUS = [batch.data for batch in batches() if batch.file != "scouting" and len(batch.data) <= 1024]

# A message of each kind with every field there is: what a record may still hold when the next message is read into it.
STAMP = Timestamp.from_wire(1 << 62, b"\x01")
SOURCE = SourceInfo(EntityGlobalId(ZenohId.from_wire(b"\x02"), 3), 4)
ENCODING = Encoding("text/plain;s")
KEY = (1, True, "k")
NET = {"qos": 8, "network_timestamp": STAMP, "unknown_exts": b"\x4e\x01z"}
FULL = {"timestamp": STAMP, "source": SOURCE, "attachment": b"a", "unknown_exts": b"\x0e"}
PUT = Put(encoding=ENCODING, payload=b"p", **FULL)
QUERY = Query(consolidation=1, parameters=b"p", source=SOURCE, encoding=ENCODING, body=b"b", attachment=b"a")
INIT = {
    "ack": True, "zid": b"\x01", "sized": True, "resolution": 0, "batch_size": 9, "cookie": b"c", "qos": True,
    "qos_link": 1, "shm": b"s", "auth": b"a", "multilink": b"m", "low_latency": True, "compression": True, "patch": 1,
    "region": b"r",
}  # fmt: skip
OPEN = {
    "seconds": True, "lease": 1, "initial_sn": 1, "cookie": b"c", "qos": True, "shm": b"s", "shm_number": 1,
    "auth": b"a", "multilink": b"m", "multilink_ack": True, "low_latency": True, "compression": True,
    "remote_bound": 1,
}  # fmt: skip
RICH = b"".join(
    message.encode()
    for message in (
        Init(**INIT),
        Open(**OPEN),
        Join(zid=b"\x01", sized=True, seconds=True, lease=1, lanes=[(1, 2)] * 8, shm=b"s", patch=1),
        TransportOam(id=1, priority=1, body=b"b"),
        Close(session=True, reason=1),
        Frame(priority=1),
        Push(key=KEY, node_id=1, timestamp_stack=b"t", body=PUT, **NET),
        Push(key=KEY, body=Del(**FULL)),
        Request(id=1, key=KEY, node_id=1, target=1, budget=1, timeout=1, timestamp_stack=b"t", body=QUERY, **NET),
        Response(id=1, key=KEY, responder=SOURCE.source_id, body=Reply(consolidation=1, body=PUT), **NET),
        Response(id=1, key=KEY, body=Err(encoding=ENCODING, source=SOURCE, payload=b"p")),
        ResponseFinal(id=1, **NET),
        Declare(interest_id=1, node_id=1, body=DeclareEntity(kind=4, id=1, key=KEY, info=1), **NET),
        Declare(body=UndeclareEntity(kind=5, id=1, key=KEY)),
        Declare(body=DeclareKeyExpr(id=1, key=(0, False, "k"))),
        Interest(mode=3, id=1, options=2, key=KEY, node_id=1, **NET),
        Oam(id=1, body=b"b", **NET),
        Fragment(more=True, priority=1, first=True, drop=True, payload=b"p"),
    )
)

used = BatchReader()


def check(data: bytes) -> None:
    low_latency = len(data) % 8 == 0
    used.low_latency = False
    used.bind(data + RICH)
    used.begin(len(data), len(data) + len(RICH))
    while used.next() >= 0:
        pass
    used.low_latency = low_latency
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
