# SPDX-License-Identifier: Apache-2.0
"""Random traffic of one session, and the rows of a simple reference decoder.

`traffic` returns batches of both directions: handshake, declarations, publications, queries, replies, fragments, gaps, duplicates.
`expected_samples` decodes them with new objects, dictionaries and plain Python. It is slow and independent of the columns.
"""

import random
import struct
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from zenlake.core.batch_schema import BATCHES_SCHEMA
from zenlake.core.encoding import Encoding
from zenlake.core.identifiers import EntityGlobalId, SourceInfo, Timestamp, ZenohId
from zenlake.wire.batch_reader import messages, read_network
from zenlake.wire.declare import Declare, DeclareEntity, DeclareKeyExpr, Interest, UndeclareEntity, UndeclareKeyExpr
from zenlake.wire.handshake import Close, Init, Open
from zenlake.wire.network import Push, Request, Response, ResponseFinal
from zenlake.wire.timestamp_stack import StackRecord, TimestampStack
from zenlake.wire.transport import Fragment, Frame, KeepAlive
from zenlake.wire.zenoh_body import Del, Err, Put, Query, Reply

MASK = 0x0FFFFFFF
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OPENER, ACCEPTOR = 0, 1

COMPARED = [
    "direction", "packet", "index", "key", "unresolved_key", "kind", "payload", "payload_size", "encoding", "schema", "ntp64",
    "timestamp_id", "source_zid", "source_eid", "source_sn", "attachment", "priority", "congestion", "express", "reliable", "sn",
    "fragments", "request_id", "responder_zid", "responder_eid", "timestamp_stack",
]  # fmt: skip


class Traffic:
    """Generator of batches as (direction, bytes), from a seed."""

    def __init__(self, seed: int, size: int = 40, has_stacks: bool = True) -> None:
        self.has_stacks = has_stacks
        self.r = random.Random(seed)
        self.for_stacks = random.Random(~seed)
        self.batches: list[tuple[int, bytes]] = []
        self.sn = {(d, p, rel): 0 for d in (0, 1) for p in range(8) for rel in (True, False)}
        self.declared: dict[int, set[int]] = {0: set(), 1: set()}
        self.handshake()
        for _ in range(size):
            self.step()
        if self.r.random() < 0.5:
            self.batches.append((self.r.randrange(2), Close(reason=self.r.randrange(9)).encode()))

    def handshake(self) -> None:
        zids = [self.zid(), self.zid()]
        self.batches += [
            (OPENER, Init(zid=zids[0].to_wire(), qos=True, patch=1).encode()),
            (ACCEPTOR, Init(ack=True, whatami=0, zid=zids[1].to_wire(), cookie=b"c", qos=True, patch=1).encode()),
        ]
        for direction in (OPENER, ACCEPTOR):
            first = self.r.choice([0, 5, MASK - 3, self.r.randrange(MASK)])
            opened = Open(ack=direction == ACCEPTOR, seconds=True, lease=10, initial_sn=first, cookie=b"c")
            self.batches.append((direction, opened.encode()))
            for lane in self.sn:
                if lane[0] == direction:
                    self.sn[lane] = first

    def step(self) -> None:
        direction = self.r.randrange(2)
        dice = self.r.random()
        if dice < 0.05:
            self.batches.append((direction, KeepAlive().encode()))
        elif dice < 0.2:
            self.fragmented(direction)
        else:
            parts = b"".join(self.frame(direction) for _ in range(self.r.choice([1, 1, 1, 2, 3])))
            self.batches.append((direction, parts))
            if self.r.random() < 0.05:  # the same frames once more: receivers ignore them
                self.batches.append((direction, parts))

    def lane(self, direction: int) -> tuple[int, bool, int]:
        priority, reliable = self.r.choice([5, 5, 5, 0, 7]), self.r.random() < 0.8
        if self.r.random() < 0.05:
            self.sn[direction, priority, reliable] += self.r.randrange(1, 4)  # lost frames
        return priority, reliable, self.number(direction, priority, reliable)

    def number(self, direction: int, priority: int, reliable: bool) -> int:
        sn = self.sn[direction, priority, reliable] & MASK
        self.sn[direction, priority, reliable] = sn + 1
        return sn

    def frame(self, direction: int) -> bytes:
        priority, reliable, sn = self.lane(direction)
        head = Frame(sn=sn, priority=priority, reliable=reliable).encode()
        return head + b"".join(self.message(direction) for _ in range(self.r.randrange(1, 5)))

    def fragmented(self, direction: int) -> None:
        data = self.message(direction, big=True)
        priority, reliable, sn = self.lane(direction)
        cut = max(1, len(data) // self.r.randrange(1, 5))
        pieces = [data[i : i + cut] for i in range(0, len(data), cut)]
        lost = self.r.randrange(len(pieces)) if self.r.random() < 0.2 else None
        for i, piece in enumerate(pieces):
            one = Fragment(
                sn=sn, priority=priority, reliable=reliable, first=i == 0, more=i + 1 < len(pieces), payload=piece
            )
            if i != lost:
                self.batches.append((direction, one.encode()))
            if i + 1 < len(pieces):
                sn = self.number(direction, priority, reliable)

    def message(self, direction: int, big: bool = False) -> bytes:
        r = self.r
        key = self.key(direction)
        qos = r.choice([5, 5, 0x0D, 0x15, 0x25, 0x00])
        dice = r.random()
        if dice < 0.55 or big:
            body = self.put(big) if r.random() < 0.8 or big else self.delete()
            return Push(key=key, qos=qos, timestamp_stack=self.stack(), body=body).encode()
        if dice < 0.65:
            id = r.randrange(1, 70)
            self.declared[direction].add(id)
            return Declare(qos=8, body=DeclareKeyExpr(id=id, key=r.choice(["a/b", "fleet/é", f"k/{id}"]))).encode()
        if dice < 0.68 and self.declared[direction]:
            return Declare(qos=8, body=UndeclareKeyExpr(id=r.choice(sorted(self.declared[direction])))).encode()
        if dice < 0.74:
            body = r.choice([DeclareEntity(kind=2, id=3, key=key), UndeclareEntity(kind=5, id=3, key=(0, False, None))])
            return Declare(interest_id=r.choice([None, 4]), body=body).encode()
        if dice < 0.78:
            return Interest(mode=3, id=2, options=0x03, key=key).encode()
        if dice < 0.86:
            query = Query(parameters=r.choice([None, b"a=1;b=2"]), body=r.choice([None, b"QB"]))
            return Request(id=r.randrange(99), key=key, qos=13, timeout=1000, body=query).encode()
        if dice < 0.93:
            inner = r.choice([Reply(body=self.put(False)), Reply(body=self.delete()), Err(payload=b"no")])
            entity = r.choice([None, EntityGlobalId(self.zid(), 3)])
            return Response(
                id=r.randrange(99), key=key, qos=qos, responder=entity, timestamp_stack=self.stack(), body=inner
            ).encode()
        return ResponseFinal(id=r.randrange(99), qos=13).encode()

    def key(self, direction: int) -> tuple[int, bool, str | None]:
        sender = self.r.random() < 0.5
        ids = sorted(self.declared[direction if sender else 1 - direction])
        if ids and self.r.random() < 0.6:
            return self.r.choice([*ids, 99]), sender, self.r.choice([None, "/pose", "/**"])
        return 0, sender, self.r.choice(["demo/x", "a", "fleet/é/1"])

    def zid(self) -> ZenohId:
        return ZenohId.from_wire(self.r.randbytes(self.r.randrange(16)) + b"\x01")

    def origin(self) -> dict[str, object]:
        r, values = self.r, {}
        if r.random() < 0.5:
            values["timestamp"] = Timestamp.from_wire(r.randrange(1 << 64), self.zid().to_wire())
        if r.random() < 0.3:
            values["source"] = SourceInfo(EntityGlobalId(self.zid(), r.randrange(1 << 32)), r.randrange(1 << 32))
        if r.random() < 0.3:
            values["attachment"] = r.randbytes(r.randrange(9))
        return values

    def stack(self) -> bytes | None:
        r = self.for_stacks
        if not self.has_stacks or r.random() < 0.9:
            return None
        if r.random() < 0.1:
            return b"\x00"  # not valid
        records = [StackRecord(1 << r.randrange(4), self.stamp()) for _ in range(r.randrange(1, 5))]
        return TimestampStack(7, tuple(records)).encode()

    def stamp(self) -> Timestamp | bytes:
        r = self.for_stacks
        node = r.randbytes(r.randrange(16)) + b"\x01"
        return r.choice([b"custom", *[Timestamp.from_wire(r.randrange(1 << 64), node)] * 3])

    def put(self, big: bool) -> Put:
        r = self.r
        values = self.origin()
        if r.random() < 0.5:
            schema = r.choice([None, b"", b"utf-8", b"\xff\xfe"])
            values["encoding"] = Encoding.from_wire(r.choice([0, 4, 5, 52, 53, 1000, 65535]), schema)
        return Put(payload=r.randbytes(r.randrange(400, 900) if big else r.randrange(20)), **values)

    def delete(self) -> Del:
        return Del(**self.origin())


def as_rows(batches: list[tuple[int, bytes]]) -> pa.RecordBatch:
    """Return batches of one session in the input schema of the decoder. Packets are numbered from 1."""
    count = len(batches)
    columns = [
        pa.array(range(count), pa.int64()).cast(BATCHES_SCHEMA.field("received").type),
        pa.array([0] * count, pa.int32()),
        pa.array([direction for direction, _ in batches], pa.int8()),
        pa.array([data for _, data in batches], pa.binary()),
        pa.array([len(data) + 2 for _, data in batches], pa.int32()),
        pa.array([False] * count, pa.bool_()),
        pa.array(range(1, count + 1), pa.int64()),
        pa.array([0] * count, pa.int32()),
    ]
    return pa.record_batch(columns, schema=BATCHES_SCHEMA)


def list_records(stack: bytes | None) -> list[dict[str, object]] | None:
    """Return the column `timestamp_stack` of a sample."""
    if stack is None or stack == b"\x00":
        return None
    found = []
    for record in TimestampStack.decode(stack).records:
        row: dict[str, object] = dict.fromkeys(("point", "timestamp", "ntp64", "timestamp_id", "data"))
        row["point"] = {1: "send", 2: "route", 4: "receive"}.get(record.point)
        if isinstance(record.data, bytes):
            row["data"] = record.data
        else:
            seconds, fraction = divmod(record.data.ntp64, 1 << 32)
            row["timestamp"] = EPOCH + timedelta(seconds=seconds, microseconds=fraction * 1_000_000 >> 32)
            row["ntp64"] = struct.unpack("<q", struct.pack("<Q", record.data.ntp64))[0]
            row["timestamp_id"] = str(record.data.id)
        found.append(row)
    return found


def expected_samples(batches: list[tuple[int, bytes]]) -> list[dict[str, object]]:
    """Return the rows of `samples`, computed without the decoder."""
    keys: dict[int, dict[int, str]] = {0: {}, 1: {}}
    last: dict[tuple[int, int, bool], int] = {}
    partial: dict[tuple[int, int, bool], tuple[int, bytes, int]] = {}
    rows: list[dict[str, object]] = []

    def resolve(direction: int, key: tuple[int, bool, str | None]) -> tuple[str | None, str | None]:
        scope, sender, suffix = key
        if scope == 0:
            return suffix, None
        prefix = keys[direction if sender else 1 - direction].get(scope)
        return (None, f"{scope}:{suffix or ''}") if prefix is None else (prefix + (suffix or ""), None)

    def take(
        direction: int, packet: int, index: int, message: object, lane: tuple[int, bool, int], pieces: int
    ) -> None:
        if isinstance(message, Declare):
            body = message.body
            if isinstance(body, DeclareKeyExpr):
                keys[direction].setdefault(body.id, body.key.value[2])
            elif isinstance(body, UndeclareKeyExpr):
                keys[direction].pop(body.id, None)
        elif isinstance(message, Push):
            rows.append(row(direction, packet, index, message, message.body, lane, pieces))
        elif isinstance(message, Response) and isinstance(message.body, Reply):
            found = row(direction, packet, index, message, message.body.body, lane, pieces)
            responder = message.responder.value
            found |= {"request_id": message.id}
            if responder is not None:
                found |= {"responder_zid": str(responder.zid), "responder_eid": responder.eid}
            rows.append(found)

    def row(direction, packet, index, message, body, lane, pieces) -> dict[str, object]:
        key, unresolved = resolve(direction, message.key.value)
        found: dict[str, object] = dict.fromkeys(COMPARED)
        found |= {
            "direction": direction, "packet": packet, "index": index, "key": key, "unresolved_key": unresolved,
            "kind": "put" if isinstance(body, Put) else "del", "attachment": body.attachment.value,
            "priority": message.qos & 7, "express": message.qos & 16 != 0, "reliable": lane[1], "sn": lane[2],
            "congestion": "block" if message.qos & 8 else "block_first" if message.qos & 32 else "drop",
            "fragments": pieces or None,
        }  # fmt: skip
        if isinstance(body, Put):
            encoding = body.encoding.value
            schema = encoding.schema
            found |= {"payload": body.payload.value, "payload_size": len(body.payload), "schema": schema}
            try:
                found["encoding"] = str(encoding) if schema is None or schema.decode() is not None else ""
            except UnicodeDecodeError:
                found["encoding"] = str(Encoding.from_wire(encoding.id, None))
        found["timestamp_stack"] = list_records(message.timestamp_stack.value)
        stamp, source = body.timestamp.value, body.source.value
        if stamp is not None:
            signed = stamp.ntp64 - (1 << 64) if stamp.ntp64 >> 63 else stamp.ntp64
            found |= {"ntp64": signed, "timestamp_id": str(stamp.id)}
        if source is not None:
            found |= {
                "source_zid": str(source.source_id.zid), "source_eid": source.source_id.eid, "source_sn": source.source_sn,
            }  # fmt: skip
        return found

    for packet, (direction, data) in enumerate(batches, 1):
        lane = (5, True, 0)
        accepted = True
        for index, message in enumerate(messages(data)):
            if isinstance(message, Open):
                for priority in range(8):
                    for reliable in (True, False):
                        last[direction, priority, reliable] = (message.initial_sn - 1) & MASK
            elif isinstance(message, Frame | Fragment):
                lane = (message.priority, bool(message.reliable), message.sn)
                where = (direction, *lane[:2])
                gap = (message.sn - last[where]) & MASK
                accepted = 0 < gap <= MASK >> 1
                if not accepted:
                    continue
                last[where] = message.sn
                if isinstance(message, Fragment):
                    if message.first:
                        partial[where] = (message.sn, b"", 0)
                    next_sn, so_far, pieces = partial.pop(where, (-1, b"", 0))
                    if next_sn == message.sn:
                        so_far, pieces = so_far + message.payload.value, pieces + 1
                        if message.more:
                            partial[where] = ((message.sn + 1) & MASK, so_far, pieces)
                        else:
                            take(direction, packet, index, read_network(so_far), lane, pieces)
            elif accepted:
                take(direction, packet, index, message, lane, 0)
    return rows
