# SPDX-License-Identifier: Apache-2.0
"""Long work runs in slices, and its face is suspended in the meantime."""

from collections.abc import Iterator

from tests.network.mesh import CLIENT, ROUTER, Hand, Mesh
from zenlake.network.face import Face
from zenlake.network.forwarding import RxDispatcher
from zenlake.network.jobs import BUDGET, MAX_RESUMES, SLICE
from zenlake.transport.rx import RETRY, SUSPEND
from zenlake.wire.batch_reader import BatchReader
from zenlake.wire.declare import Interest


class Working:
    """A router with clients whose work takes time."""

    def __init__(self, clients: int = 2) -> None:
        self.mesh = Mesh()
        self.node = self.mesh.node(ROUTER)
        self.clients = [self.mesh.hand(self.node, CLIENT) for _ in range(clients)]
        for client in self.clients:
            RxDispatcher(self.node).attach(client.face)
        self.steps: list[str] = []
        self.turns = 0
        self.node.jobs.wake = lambda: setattr(self, "turns", self.turns + 1)

    def job(self, name: str, steps: int, wait: Face | None = None) -> Iterator[Face | None]:
        for step in range(steps):
            self.mesh.now += SLICE / 2
            self.steps.append(name)
            yield wait if step == 0 else None

    def is_suspended(self, client: Hand) -> bool:
        assert client.face.sink is not None
        return client.wire.paused and client.face.sink.suspended != 0


def test_a_short_job_runs_immediately() -> None:
    it = Working()
    assert it.node.jobs.start(it.clients[0].face, it.job("a", 1))
    assert it.steps == ["a"]
    assert not it.is_suspended(it.clients[0])
    assert not it.turns


def test_long_jobs_of_faces_take_turns() -> None:
    it = Working()
    one, two = it.clients
    assert not it.node.jobs.start(one.face, it.job("a", 20))
    assert not it.node.jobs.start(two.face, it.job("b", 20), retry=True)
    assert it.is_suspended(one)
    assert it.is_suspended(two)
    assert (one.face.sink.suspended, two.face.sink.suspended) == (SUSPEND, RETRY)
    began = it.mesh.now
    it.node.jobs.run()
    assert it.mesh.now - began <= 2 * SLICE
    assert abs(it.steps.count("a") - it.steps.count("b")) <= 2
    while it.is_suspended(one) or it.is_suspended(two):
        it.node.jobs.run()
        one.face.sink.suspended *= one.wire.paused  # as a receive path does that is resumed
        two.face.sink.suspended *= two.wire.paused
    assert (it.steps.count("a"), it.steps.count("b")) == (20, 20)


def test_jobs_of_one_face_run_in_order() -> None:
    it = Working()
    face = it.clients[0].face
    it.node.jobs.start(face, it.job("a", 5))
    it.node.jobs.start(face, it.job("b", 5))
    for _ in range(10):
        it.node.jobs.run()
    assert "".join(it.steps) == "aaaaabbbbb"
    assert not face.pause_reasons


def test_a_job_waits_for_a_backlog() -> None:
    it = Working()
    one, two = (client.face for client in it.clients)
    it.node.jobs.start(one, it.job("a", 5, wait=two))
    it.node.jobs.run()
    assert it.steps == ["a"]
    it.node.jobs.resume_blocked(two)
    for _ in range(3):
        it.node.jobs.run()
    assert it.steps == ["a"] * 5


def test_the_jobs_of_a_closed_face_are_dropped_and_those_that_wait_for_it_continue() -> None:
    it = Working()
    one, two = it.clients
    it.node.jobs.start(one.face, it.job("a", 5, wait=two.face))
    it.node.jobs.start(two.face, it.job("b", 50))
    two.leave()
    for _ in range(5):
        it.node.jobs.run()
    assert it.steps.count("a") == 5
    assert it.steps.count("b") < 5


def test_a_face_over_its_time_continues_in_a_later_turn() -> None:
    it = Working(10)
    for client in it.clients:
        it.node.jobs.defer(client.face)
        it.node.jobs.defer(client.face)
    assert all(map(it.is_suspended, it.clients))
    it.node.jobs.run()
    assert [client.wire.paused for client in it.clients] == [False] * MAX_RESUMES + [True] * (10 - MAX_RESUMES)
    assert it.turns


def test_a_read_of_expensive_messages_is_interrupted() -> None:
    """One read may hold thousands of INTERESTs. The rest of it waits for the next turn."""
    it = Working(1)
    [client] = it.clients
    dispatcher, reader = client.face.sink, BatchReader()
    assert isinstance(dispatcher, RxDispatcher)
    dispatcher.begin()
    count = 0
    while not dispatcher.suspended and count < 100:
        count += 1
        message = Interest(mode=3, id=count, options=2, key="k", qos=8).encode()
        reader.bind(message)
        reader.begin_network(0, len(message))
        dispatcher.on_message(reader.next(), reader)
        dispatcher.finish()
        it.mesh.now += BUDGET / 4
    assert count == 6
    assert it.is_suspended(client)
    it.node.jobs.run()
    assert not client.wire.paused
