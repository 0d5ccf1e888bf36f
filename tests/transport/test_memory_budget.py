# SPDX-License-Identifier: Apache-2.0
"""The memory limit of all connections of a node together."""

from hypothesis import given
from hypothesis import strategies as st

from tests.transport.ends import Collector, push
from zenlake.session.state import SessionState
from zenlake.transport.memory_budget import MemoryBudget
from zenlake.transport.rx import RxArena, RxPath
from zenlake.transport.tx_queue import TxQueue
from zenlake.wire.transport import Fragment

BATCH = 300
MASK = (1 << 28) - 1
DROP, BLOCK = 0, 1


def queue(budget: MemoryBudget, size: int = 4) -> TxQueue:
    made = TxQueue(2)
    made.budget = budget
    made.start(BATCH, MASK, 0, True, False, size, 0.05)
    return made


def emptied(one: TxQueue) -> None:
    while (view := one.data(0.0)) is not None:
        one.advance(len(view))


def rx(budget: MemoryBudget) -> tuple[RxPath, Collector]:
    heard = Collector()
    made = RxPath(RxArena(), None, heard, 0)
    made.budget = budget
    made.start(SessionState().sides[0].lanes, 65535, True, False, False)
    return made, heard


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2), st.sampled_from([10, 200, 1000, 3000]), st.sampled_from([DROP, BLOCK]), st.booleans()
        ),
        max_size=60,
    ),
    st.lists(st.integers(0, 2), max_size=10),
)
def test_the_sum_is_right_whatever_happens(sends: list[tuple[int, int, int, bool]], reads: list[int]) -> None:
    budget = MemoryBudget(5000)
    queues = [queue(budget) for _ in range(3)]
    turns = iter(reads)
    for number, size, congestion, express in sends:
        before = budget.held
        if queues[number].send(push("k", bytes(size)), 5, True, congestion, express) and congestion == DROP:
            assert budget.held <= max(before, 5000) + BATCH  # an open batch is completed
        if size == 1000 and (turn := next(turns, None)) is not None:
            emptied(queues[turn])
        assert budget.held == sum(one.held for one in queues)
    emptied(queues[0])
    queues[1].discard()
    queues[2].discard()
    assert [one.held for one in queues] == [0, 0, 0]
    assert budget.held == 0


def test_droppable_messages_are_refused_and_blocking_ones_accepted() -> None:
    budget = MemoryBudget(5000)
    one, two = queue(budget), queue(budget)
    assert one.send(push("k", bytes(4000)), 5, True, DROP, False)
    assert not two.send(push("k", bytes(4000)), 5, True, DROP, False)
    assert (two.is_over_budget, budget.refused) == (True, 1)
    assert two.send(push("k", bytes(4000)), 5, True, BLOCK, False)
    assert budget.is_full
    assert not one.send(push("k", bytes(10)), 5, True, DROP, True)
    emptied(two)
    assert not budget.is_full
    assert one.send(push("k", bytes(10)), 5, True, DROP, False)


def test_a_full_queue_is_not_for_lack_of_memory() -> None:
    one = queue(MemoryBudget(1 << 20), size=1)
    assert one.send(push("k", bytes(4000)), 5, True, DROP, False)
    assert not one.send(push("k", bytes(4000)), 5, True, DROP, False)
    assert not one.is_over_budget


def test_partial_messages_are_charged_and_dropped_over_the_limit() -> None:
    budget = MemoryBudget(4000)  # half of it is for those
    whole = push("k", bytes(1500)).encode()
    (one, heard), (two, lost) = rx(budget), rx(budget)

    def part(to: RxPath, sn: int, data: bytes, more: bool = True) -> None:
        to.receive(Fragment(sn=sn, reliable=True, more=more, first=sn == 0, payload=data).encode())

    part(one, 0, whole[:1000])
    part(two, 0, whole[:900])
    assert budget.held == 1900
    part(two, 1, whole[900:1200])
    assert (budget.held, two.lost, budget.refused) == (1000, 1, 1)
    part(two, 2, whole[1200:], more=False)
    part(one, 1, whole[1000:], more=False)
    assert ([len(payload) for _, payload in heard.got], lost.got) == ([1500], [])
    assert budget.held == 0
    part(one, 2, whole[:10])
    one.stop()
    assert budget.held == 0
