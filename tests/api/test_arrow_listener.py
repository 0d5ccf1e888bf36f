# SPDX-License-Identifier: Apache-2.0
"""A run of publications enters an ArrowChannel in one pass: the same rows, calls, errors and counts as one by one."""

import gc
import random
import threading
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.columns.test_push_fast_path import NOW
from tests.network.mesh import CLIENT, ROUTER, Wire
from tests.network.test_forwarding import Lock
from zenlake.api.arrow import get_table
from zenlake.api.arrow_listener import ArrowListener
from zenlake.api.handlers import Handler
from zenlake.columns.live_samples import LiveSamples
from zenlake.columns.schemas import select_schema
from zenlake.core.encoding import Encoding
from zenlake.core.enums import Locality
from zenlake.core.identifiers import EntityGlobalId, SourceInfo, Timestamp, ZenohId
from zenlake.errors import DecodeError, ProtocolError
from zenlake.network.access_control import AccessControl, Subject
from zenlake.network.face import SUBSCRIBER, Face
from zenlake.network.forwarding import RxDispatcher
from zenlake.network.namespace import Namespace
from zenlake.network.node import Node
from zenlake.session.state import SessionState
from zenlake.transport.queue_handle import QueueHandle
from zenlake.transport.rx import RxArena, RxPath
from zenlake.transport.tx_queue import TxQueue
from zenlake.wire.batch_reader import BatchReader
from zenlake.wire.declare import Declare, DeclareKeyExpr, UndeclareKeyExpr
from zenlake.wire.message_base import Message
from zenlake.wire.network import Push, Response
from zenlake.wire.zenoh_body import Del, Put, Reply

COLUMNS = [name for name in select_schema("samples", None).names if not name.startswith("received")]
KEYS = ["a/1", "a/2", "b/1", "n/a/1", "n/é", "a/*", "c/secret", "a//wrong"]
MINE = {1: b"a/1", 2: b"b/1", 3: b"n/a/2"}
LIMIT = 3000  # bytes of a batch: larger messages are fragmented
MASK = (1 << 28) - 1
DENIED = AccessControl(
    {
        "default_permission": "allow",
        "rules": [{"id": "r", "permission": "deny", "messages": ["put"], "flows": ["ingress"], "key_exprs": ["c/**"]}],
        "subjects": [{"id": "all"}],
        "policies": [{"rules": ["r"], "subjects": ["all"]}],
    }
)


class Receiving:
    """A node with a connection that it reads from and one that it may forward to. Its subscribers accept runs or not."""

    def __init__(self, runs: bool, namespace: bytes = b"", guarded: bool = False, stamps: bool = False) -> None:
        self.accepts_runs = runs
        self.node = Node(
            b"\x07", ROUTER, now=lambda: 0.0, wall=lambda: NOW, lock=threading.RLock, adds_timestamps=stamps
        )
        self.node.application.namespace = Namespace(namespace)
        self.node.on_error = lambda error: self.reports.append(error)
        self.node.is_guarded = guarded
        self.reports: list[object] = []
        self.channels: list[Handler[pa.RecordBatch]] = []
        self.subscribers: dict[int, tuple[Any, ArrowListener | None]] = {}
        self.queue = TxQueue(2)
        self.queue.start(65535, MASK, 0, True, False, 1000, 0.05)
        self.other = Face(Wire(), b"\x08", ROUTER, CLIENT)
        self.lock = Lock()
        self.other.queue_handle = QueueHandle(self.queue, self.lock, lambda: None)
        self.source = Face(Wire(), b"\x09", ROUTER, CLIENT)
        if guarded:
            self.source.guard = DENIED.guard(Subject("tcp", "9", None, None, []))
        for id, key in MINE.items():
            self.source.local_keys.declare(id, key)
        for face in (self.other, self.source):
            self.node.add_face(face)
        dispatcher = RxDispatcher(self.node)
        dispatcher.attach(self.source)
        self.rx = RxPath(RxArena(), self, dispatcher, 2)
        self.rx.start(SessionState().sides[0].lanes, 65535, True, False, False)

    def arrow(self, number: int, key: bytes, rows: int, size: int, origin: Locality = Locality.ANY) -> ArrowListener:
        channel: Handler[pa.RecordBatch] = Handler(1 << 30)
        self.channels.append(channel)
        filling = ArrowListener(LiveSamples(COLUMNS, rows, size), channel, 60.0)
        filling.accepts_runs = self.accepts_runs
        self.undeclare(number)
        self.subscribers[number] = self.node.application.declare_subscriber(key, filling, origin), filling
        return filling

    def callback(self, number: int, key: bytes) -> None:
        self.undeclare(number)
        self.subscribers[number] = self.node.application.declare_subscriber(key, self.called), None

    def called(self, key: bytes, reader: Any) -> None:
        """Declare and undeclare from a callback in the middle of a read."""
        payload = reader.push.put.payload.value if reader.push.is_put else None
        self.reports.append((key, payload))
        if payload == b"less":
            self.undeclare(0)
        elif payload == b"more":
            self.arrow(1, b"a/**", 3, 1 << 20)

    def undeclare(self, number: int) -> None:
        subscriber, filling = self.subscribers.pop(number, (None, None))
        if subscriber is not None:
            subscriber.undeclare()
        if filling is not None:
            filling.close()

    def forward(self, key: bytes | None) -> None:
        """Let the other connection subscribe to this key only."""
        if self.other.declared_keys[SUBSCRIBER]:
            self.node.declarations.undeclare(self.other, SUBSCRIBER, 1)
        if key is not None:
            self.node.declarations.declare(self.other, SUBSCRIBER, 1, key)

    def read(self, data: bytes) -> None:
        try:
            self.rx.receive(data)
        except (DecodeError, ProtocolError) as error:
            self.reports.append(str(error))
            self.rx.stop()

    def on_close(self, reason: int, session: bool) -> None:
        """Handle a CLOSE, which damaged bytes may contain."""
        self.rx.stop()

    def on_join(self, join: object) -> None:
        self.reports.append("JOIN")

    def outcome(self, with_batches: bool) -> dict[str, Any]:
        for number in list(self.subscribers):
            self.undeclare(number)
        written = []
        while (view := self.queue.data(0.0)) is not None:
            written.append(bytes(view))
            self.queue.advance(len(view))
        found = [list(channel) for channel in self.channels]
        for batch in [batch for batches in found for batch in batches]:
            batch.validate(full=True)
        return {
            "reports": self.reports,
            "written": written,
            "counters": dict(self.node.counters),
            "messages": self.rx.messages,
            "rows": [[row for batch in batches for row in batch.to_pylist()] for batches in found],
            "batches": [[batch.num_rows for batch in batches] for batches in found] if with_batches else None,
        }


def publication(r: random.Random) -> Message:
    """Draw mostly common publications on few keys, otherwise any message."""
    scope, by_sender, suffix = r.choice(
        [(1, True, None)] * 8 + [(2, True, None), (3, True, None), (r.randrange(9), True, None), (r.randrange(4), False, None)]
        + [(0, True, r.choice(KEYS[:5])), (1, True, "/x")]
    )  # fmt: skip
    qos = r.choice([5, 5, 0x0D, 0x1D, 0x21])
    if r.random() < 0.05:
        return Push(key=(scope, by_sender, suffix), qos=qos, body=Del())
    values: dict[str, Any] = {
        "payload": r.choice([b"12345678"] * 9 + [b"", b"less", b"more", bytes(60), bytes(r.randrange(9000))])
    }
    zid = ZenohId.from_wire(r.choice([b"\x01", bytes(range(1, 17))]))
    if r.random() < 0.8:
        values["timestamp"] = Timestamp.from_wire(NOW + r.randrange(100), zid.to_wire())
    if r.random() < 0.1:
        values["encoding"] = Encoding.from_wire(r.choice([0, 4, 65535]), r.choice([None, b"utf-8"]))
        values["source"] = SourceInfo(EntityGlobalId(zid, 6), r.choice([0, 1 << 28]))
        values["attachment"] = bytes(r.choice([0, 5, 200]))
    return Push(key=(scope, by_sender, suffix), qos=qos, node_id=r.choice([0] * 30 + [9]), body=Put(**values))


def traffic(r: random.Random) -> list[bytes]:
    """Draw batches of a connection: frames on several lanes, fragments, declarations in between, some repeated, some damaged."""
    queue = TxQueue(2)
    queue.start(LIMIT, MASK, 0, True, False, 1000, 0.05)
    for id, key in enumerate(KEYS, 1):
        queue.send(Declare(qos=8, body=DeclareKeyExpr(id=id, key=key)).encode(), 0, True, 1, False)
    batches = []
    for _ in range(r.randrange(1, 6)):
        for _ in range(r.choice([3, 20, 60])):
            message: Message = publication(r)
            if r.random() < 0.02:
                id = r.randrange(1, 9)
                body = r.choice([UndeclareKeyExpr(id=id), DeclareKeyExpr(id=id, key=r.choice(KEYS[:5]))])
                message = Declare(qos=8, body=body)
            lane, reliable = r.choice([5] * 40 + [2]), r.random() < 0.98
            for _ in range(r.choice([1, 1, 1, 2, 9])):
                queue.send(message.encode(), lane, reliable, 1, False)
        while (view := queue.data(0.0)) is not None:
            batches.append(bytes(view))
            queue.advance(len(view))
        if r.random() < 0.3:
            batches.append(batches[-1])
    if r.random() < 0.3:
        broken = bytearray(batches[-1])
        for _ in range(3):
            broken[r.randrange(2, len(broken))] = r.choice([0, 0x1D, 0x7F, 0x80, 0xFF])
        batches[-1] = bytes(broken)
    return batches


def played(seed: int, runs: bool) -> dict[str, Any]:
    r = random.Random(seed)
    size = r.choice([1 << 20, 1 << 20, 700])
    receiving = Receiving(runs, r.choice([b"", b"", b"n"]), r.random() < 0.3, r.random() < 0.1)
    receiving.arrow(0, b"a/**", r.choice([1, 7, 300, 16384]), size)
    batches = traffic(r)
    while batches:
        number, key = r.randrange(5), r.choice([b"**", b"a/*", b"b/1", b"a/2", b"n/**"])
        step = r.randrange(12)
        if step == 0:
            receiving.arrow(number, key, r.choice([2, 100]), size, r.choice([Locality.ANY, Locality.SESSION_LOCAL]))
        elif step == 1:
            receiving.callback(number, key)
        elif step == 2:
            receiving.undeclare(number)
        elif step == 3:
            receiving.forward(r.choice([None, key]))
        elif step == 4:
            receiving.node.application.put(r.choice([b"a/1", b"b/1"]), b"of our own")
        elif step == 5:
            for _, filling in receiving.subscribers.values():
                if filling is not None:
                    filling.finish()
        else:
            count = r.choice([1, 1, 5])
            receiving.read(b"".join(batches[:count]))
            del batches[:count]
    return receiving.outcome(size > 700)


@given(st.integers(0, 1 << 32))
@settings(max_examples=60, deadline=None)
def test_runs_and_single_messages_come_to_the_same(seed):
    assert played(seed, True) == played(seed, False)


def frames(*messages: Message, each: int = 1000) -> bytes:
    """Return declarations of all keys, then the messages, `count` in a batch."""
    queue = TxQueue(2)
    queue.start(65535, MASK, 0, True, False, 1 << 10, 0.05)
    for id, key in enumerate(KEYS, 1):
        queue.send(Declare(qos=8, body=DeclareKeyExpr(id=id, key=key)).encode(), 0, True, 1, False)
    data = b""
    for first in range(0, len(messages), each):
        for message in messages[first : first + each]:
            queue.send(message.encode(), 5, True, 1, False)
        while (view := queue.data(0.0)) is not None:
            data += bytes(view)
            queue.advance(len(view))
    return data


def usual(number: int, id: int = 1, **more: Any) -> Push:
    stamp = Timestamp.from_wire(NOW + number, bytes(range(1, 17)))
    return Push(key=(id, True, None), qos=0x0D, body=Put(**{"payload": b"%08d" % number, "timestamp": stamp, **more}))


@pytest.mark.parametrize(
    "more", [{}, {"encoding": Encoding("text/plain").with_schema("x" * 200), "payload": bytes(100)}]
)
@pytest.mark.parametrize("rows", [100, 300])
def test_each_of_several_channels_gets_its_own_in_order(rows, more):
    """The staged rows may exceed the limit of staged bytes, and a record batch may end among the staged rows."""
    receiving = Receiving(True)
    for number, key in enumerate(["a/1", "b/1", "n/é"]):
        receiving.arrow(number, key.encode(), rows, 1 << 20)
    ids = [1] * 300 + [1, 1, 3, 5, 3, 1, 5]
    receiving.read(frames(*[usual(number, ids[number % 307], **more) for number in range(2000)], each=400))
    found = receiving.outcome(True)
    for id, of, counts in zip([1, 3, 5], found["rows"], found["batches"], strict=True):
        assert [row["ntp64"] - NOW for row in of] == [number for number in range(2000) if ids[number % 307] == id]
        assert {row["key"] for row in of} == {KEYS[id - 1]}
        assert set(counts[:-1]) <= {rows}


def test_no_lock_of_a_connection_is_held_while_rows_are_handed_over():
    receiving = Receiving(True)
    receiving.arrow(0, b"a/1", 1, 1 << 20)
    receiving.forward(b"b/1")
    held: list[int] = []
    receiving.channels[0].wake = lambda: held.append(receiving.lock.depth)
    tiny = Push(
        key=(3, True, None), body=Put(payload=b"")
    )  # the last bytes of its frame: fewer than the scan reads ahead
    receiving.read(frames(usual(0), tiny, *[usual(number) for number in range(1, 10)], each=2))
    assert held == [0] * 10
    assert len(receiving.outcome(False)["written"]) == 1


def test_more_keys_than_are_remembered():
    """Key ids are redeclared repeatedly. Each row has the key that was declared when it was sent."""
    receiving = Receiving(True)
    receiving.arrow(0, b"**", 1000, 1 << 30)
    long, count = "x" * 4000, 600
    messages: list[Message] = []
    for number in range(count):
        messages += [
            Declare(qos=0x0D, body=DeclareKeyExpr(id=20, key=f"{long}/{number}")),
            *[usual(number, 20) for _ in range(3)],
            Declare(qos=0x0D, body=UndeclareKeyExpr(id=20)),
        ]
    receiving.read(frames(*messages, each=40))
    rows = receiving.outcome(False)["rows"][0]
    assert [row["key"] for row in rows] == [f"{long}/{number}" for number in range(count) for _ in range(3)]


def test_a_put_from_a_finalizer_within_a_run_is_a_separate_row():
    receiving = Receiving(True)
    receiving.arrow(0, b"**", 50, 1 << 20)

    class Dying:
        def __init__(self, number: int) -> None:
            self.itself, self.number = self, number

        def __del__(self) -> None:
            receiving.node.application.put(b"dying", b"%d" % self.number)

    data, before = frames(*[usual(number) for number in range(3000)], each=100), gc.get_threshold()
    at = number = 0
    try:
        while at < len(data):  # batch by batch, with garbage before each
            end = at + 2 + int.from_bytes(data[at : at + 2], "little")
            gc.set_threshold(1 + number % 37)
            Dying(number)
            receiving.read(data[at:end])
            at, number = end, number + 1
    finally:
        gc.set_threshold(*before)
    gc.collect()
    rows = receiving.outcome(False)["rows"][0]
    assert [row["ntp64"] - NOW for row in rows if row["key"] == "a/1"] == list(range(3000))
    assert sorted(int(row["payload"]) for row in rows if row["key"] == "dying") == list(range(number))


def test_a_reply_from_a_finalizer_during_a_table_is_a_separate_row(monkeypatch):
    monkeypatch.setattr("zenlake.api.arrow.LiveSamples", lambda: LiveSamples(rows=3))
    count = 300

    class Asked:
        """A session whose replies are available immediately."""

        def get(self, selector: str, handler: Any) -> None:
            receiver = handler._receiver()

            class Dying:
                def __init__(self, number: int) -> None:
                    self.itself, self.reader = self, reply("dying", number)

                def __del__(self) -> None:
                    receiver.deliver.take(b"dying", self.reader)

            before = gc.get_threshold()
            try:
                for number in range(count):
                    living = reply("living", number)
                    Dying(number)
                    gc.set_threshold(1 + gc.get_count()[0] + number % 37)
                    receiver.deliver.take(b"living", living)
                    gc.set_threshold(*before)
            finally:
                gc.set_threshold(*before)
            gc.collect()
            receiver.close()

    table = get_table(Asked(), "**")
    table.validate(full=True)
    rows = table.select(["key", "payload"]).to_pylist()
    for key in ("living", "dying"):
        assert sorted(int(row["payload"]) for row in rows if row["key"] == key) == list(range(count))


def reply(key: str, number: int) -> BatchReader:
    message = Response(id=1, key=key, body=Reply(body=Put(payload=b"%d" % number))).encode()
    reader = BatchReader()
    reader.bind(message)
    reader.begin_network(0, len(message))
    reader.next()
    return reader
