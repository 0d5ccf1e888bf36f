# SPDX-License-Identifier: Apache-2.0
"""The forwarding path of samples: from the bytes of a connection directly into the queues of the subscribers."""

import threading
from typing import Any

import pytest

from tests.network.mesh import CLIENT, ROUTER, Wire
from zenlake.network.face import SUBSCRIBER, Face
from zenlake.network.forwarding import RxDispatcher
from zenlake.network.node import Node
from zenlake.session.state import SessionState
from zenlake.transport.queue_handle import QueueHandle
from zenlake.transport.rx import RxArena, RxPath
from zenlake.transport.tx_queue import TxQueue
from zenlake.wire.batch_reader import messages
from zenlake.wire.declare import Declare, DeclareFinal
from zenlake.wire.network import Push
from zenlake.wire.transport import Frame
from zenlake.wire.zenoh_body import Del, Put

BLOCK, EXPRESS = 0x0D, 0x15
LIMIT = 2000


class Lock:
    """A lock that counts its acquisitions and shows whether it is held."""

    def __init__(self) -> None:
        self.taken = 0
        self.depth = 0

    def acquire(self) -> None:
        self.taken += 1
        self.depth += 1

    def release(self) -> None:
        self.depth -= 1


class Ways:
    """A router with one connection that publishes and some that subscribe, without sockets."""

    def __init__(self, fan: int = 2, size: int = 16) -> None:
        self.seconds = 1000
        self.node = Node(b"\x07" * 4, ROUTER, now=lambda: 0.0, wall=lambda: self.seconds << 32, lock=threading.RLock)
        self.queues: list[TxQueue] = []
        self.locks = [Lock() for _ in range(fan)]
        self.wires = [Wire() for _ in range(fan)]
        self.armed: list[int] = []
        for number in range(fan):
            face = Face(self.wires[number], bytes([number + 1]), ROUTER, CLIENT)
            queue = TxQueue(2)
            queue.start(LIMIT, (1 << 28) - 1, 0, True, False, size, 0.05)
            face.queue_handle = QueueHandle(queue, self.locks[number], lambda number=number: self.armed.append(number))
            self.queues.append(queue)
            self.node.add_face(face)
            self.node.declarations.declare(face, SUBSCRIBER, 1, b"a/**")
        self.source = Wire()
        source = Face(self.source, b"\x09", ROUTER, CLIENT)
        self.node.add_face(source)
        dispatcher = RxDispatcher(self.node)
        dispatcher.attach(source)
        self.rx = RxPath(RxArena(), None, dispatcher, 2)
        self.rx.start(SessionState().sides[0].lanes, 65535, True, False, False)
        self._sn = 0

    def read(self, *batches: list[Any]) -> None:
        """Let the router read batches at once."""
        data = b""
        for batch in batches:
            whole = Frame(sn=self._sn, reliable=True).encode() + b"".join(message.encode() for message in batch)
            data += len(whole).to_bytes(2, "little") + whole
            self._sn += 1
        self.rx.get_buffer()[: len(data)] = data
        self.rx.receive_buffered(len(data))

    def written(self, number: int) -> list[Any]:
        """Return the queued messages of a subscriber, without FRAME."""
        found: list[Any] = []
        queue = self.queues[number]
        while (view := queue.data(0.0)) is not None:
            data = bytes(view)
            queue.advance(len(data))
            found += [message for message in messages(data[2:]) if not isinstance(message, Frame)]
        return found


def put(payload: bytes = b"x", key: str = "a/b", **more: Any) -> Push:
    return Push(key=key, body=Put(payload=payload), **more)


def test_every_receiver_gets_every_sample_stamped_alike() -> None:
    ways = Ways()
    ways.read([put(b"%d" % n, f"a/{n % 3}", qos=BLOCK) for n in range(10)], [Push(key="a/0", body=Del())])
    first, second = ways.written(0), ways.written(1)
    assert first == second
    assert [push.put.payload.value for push in first[:10]] == [b"%d" % n for n in range(10)]
    assert [push.key.suffix.text for push in first] == [*(f"a/{n % 3}" for n in range(10)), "a/0"]
    stamps = [push.put.timestamp.value.ntp64 for push in first[:10]]
    assert stamps == sorted(set(stamps))
    assert not first[10].is_put


def test_the_clock_is_looked_at_for_each_read() -> None:
    """The first sample of a read may be further on in the buffer than the last one of the previous read."""
    ways = Ways(1)
    ways.read([put()])
    ways.seconds = 2000
    ways.read([Declare(body=DeclareFinal()), put()])
    ways.seconds = 3000
    ways.read([put()], [put()])
    seconds = [push.put.timestamp.value.ntp64 >> 32 for push in ways.written(0)]
    assert seconds == [1000, 2000, 3000, 3000]


def test_a_lock_is_taken_once_for_each_read_and_given_back_before_others_are_called() -> None:
    ways = Ways()
    held: list[int] = []
    ways.read([put()])  # computes the route
    before = ways.locks[0].taken
    ways.read([put() for _ in range(20)], [put() for _ in range(20)])
    assert ways.locks[0].taken == before + 1
    ways.node.application.declare_subscriber(
        b"a/own", lambda key, reader: held.append(sum(lock.depth for lock in ways.locks))
    )
    ways.read([put(), put(key="a/own"), put()])
    assert held == [0]
    assert [lock.depth for lock in ways.locks] == [0, 0]


def test_a_bad_message_leaves_no_lock_behind() -> None:
    ways = Ways()
    ways.read([put()])
    broken = put().encode() + b"\x1d\xff"
    whole = Frame(sn=1, reliable=True).encode() + broken
    data = len(whole).to_bytes(2, "little") + whole
    ways.rx.get_buffer()[: len(data)] = data
    with pytest.raises(ValueError, match="PUSH"):
        ways.rx.receive_buffered(len(data))
    assert [lock.depth for lock in ways.locks] == [0, 0]
    assert len(ways.written(0)) == 2, "earlier messages have been forwarded"


def test_large_samples_are_fragmented_and_an_express_sample_closes_its_batch() -> None:
    ways = Ways(1)
    ways.read([put(), put(bytes(5000)), put(qos=EXPRESS), put()])
    kinds = [type(message).__name__ for message in ways.written(0)]
    assert kinds == ["Push", "Fragment", "Fragment", "Fragment", "Push", "Push"]
    assert ways.armed == [0]


def test_a_full_queue_refuses_and_the_outlet_is_asked() -> None:
    ways = Ways(1, size=1)
    ways.wires[0].room = 0
    ways.read([put(bytes(1500)) for _ in range(4)])
    assert len(ways.written(0)) < 4
    assert ways.node.counters["messages dropped: no room"] > 0


def test_a_full_queue_accepts_blocking_messages_and_pauses_their_sender() -> None:
    ways = Ways(2, size=1)
    ways.read([put(bytes(1500), qos=BLOCK) for _ in range(4)])
    assert ways.source.paused
    ways.node.flush()
    assert ways.source.paused
    assert len(ways.written(0)) == 4
    ways.node.flush()
    assert ways.source.paused, "the other one has not read yet"
    assert len(ways.written(1)) == 4
    ways.node.flush()
    assert not ways.source.paused
    assert not ways.node.dirty_faces
