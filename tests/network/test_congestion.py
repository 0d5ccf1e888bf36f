# SPDX-License-Identifier: Apache-2.0
"""A neighbour that does not read, or sends too much: its memory is limited, drops are counted, and others are unaffected."""

import pytest

from tests.network.mesh import ROUTER, Hand, Mesh
from zenlake.errors import CloseReason
from zenlake.wire.declare import Declare, DeclareEntity
from zenlake.wire.network import Push
from zenlake.wire.zenoh_body import Put

DROP, BLOCK = 0x05, 0x0D


@pytest.fixture
def mesh() -> Mesh:
    return Mesh()


@pytest.fixture
def hands(mesh: Mesh) -> list[Hand]:
    """A publisher, a neighbour that never reads, and one that reads. All subscribe to everything."""
    router = mesh.node(ROUTER)
    hands = [mesh.hand(router) for _ in range(4)]
    for hand in hands[1:3]:
        hand.say(Declare(qos=8, body=DeclareEntity(kind=2, id=1, key="**")))
    hands[1].wire.room = 10
    return hands


def push(qos: int) -> Push:
    return Push(key="k", qos=qos, body=Put(payload=b"v"))


def test_droppable_messages_are_dropped_for_the_slow_neighbour_only(hands: list[Hand]) -> None:
    speaker, slow, quick, _ = hands
    speaker.say(*[push(DROP)] * 1000)
    assert len(slow.take_sent()) == 10
    assert len(quick.take_sent()) == 1000
    assert slow.face.dropped == speaker.node.counters["messages dropped: no room"] == 990
    assert not speaker.wire.paused


def test_blocking_messages_stop_their_sender_until_there_is_room(hands: list[Hand], mesh: Mesh) -> None:
    speaker, slow, quick, bystander = hands
    speaker.say(*[push(BLOCK)] * 12)
    assert len(slow.wire.waiting) == 10
    assert speaker.wire.paused
    assert not bystander.wire.paused
    bystander.say(push(DROP))
    assert len(quick.take_sent()) == 13
    mesh.pass_time(4.9)
    assert slow.wire.closed is None
    assert len(slow.take_sent()) == 10
    assert len(slow.take_sent()) == 2  # the stored ones, in order, before any other message
    assert not speaker.wire.paused
    mesh.pass_time(10)
    assert slow.wire.closed is None


def test_a_neighbour_that_does_not_read_for_five_seconds_is_closed(hands: list[Hand], mesh: Mesh) -> None:
    speaker, slow, quick, _ = hands
    speaker.say(*[push(BLOCK)] * 12)
    mesh.pass_time(5.1)
    assert slow.wire.closed is CloseReason.UNRESPONSIVE
    slow.leave()
    assert not speaker.wire.paused
    assert len(quick.take_sent()) == 12
    assert speaker.node.counters["faces closed: no room for a message in time"] >= 1
