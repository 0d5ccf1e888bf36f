# SPDX-License-Identifier: Apache-2.0
"""A tee receives every batch once. One end sends what the other receives, with the size on the link."""

import pytest

from tests.transport.ends import Pair, push
from tests.transport.test_unicast import KINDS


class Heard:
    def __init__(self):
        self.inward, self.outward = [], []

    def on_receive(self, data, wire_size, compressed):
        self.inward.append((bytes(data), wire_size, compressed))

    def on_send(self, data, wire_size, compressed):
        self.outward.append((data, wire_size, compressed))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "datagrams"])
def test_both_tees_observe_the_same_batches(kind, stream):
    pair = Pair(stream, **KINDS[kind])
    ends = [Heard(), Heard()]
    pair.opener.record(ends[0])
    pair.acceptor.record(ends[1])
    carried = [0, 0]

    def carry():
        for i, (one, other) in enumerate(((pair.opener, pair.acceptor), (pair.acceptor, pair.opener))):
            for data in pair.batches(one):
                carried[i] += len(data)
                other.receive(data, pair.now)

    pair.opener.start(pair.now)
    for _ in range(4):
        carry()
    assert pair.opener.is_open
    assert pair.acceptor.is_open
    sizes = (5, 700) if "low" in kind else (5, 700, 290, 320, 3000)  # some travel as two fragments in one write
    for size in sizes:
        assert pair.opener.send(push("a/b", bytes(size)))
        assert pair.acceptor.send(push("c", bytes(range(256)) * (size // 256 + 1)))
        carry()
    pair.opener.close()
    carry()
    assert ends[0].outward == ends[1].inward
    assert ends[1].outward == ends[0].inward
    assert [sum(size for _, size, _ in end.outward) for end in ends] == carried
    assert any(compressed for _, _, compressed in ends[0].outward) == ("compression" in kind)
    assert len(ends[0].outward) >= 3 + len(sizes)


def test_a_stopped_tee_receives_no_batch():
    pair = Pair().open()
    heard = Heard()
    pair.opener.record(heard)
    pair.opener.record(None)
    pair.opener.send(push("a", b"x"))
    pair.pump()
    assert heard.outward == heard.inward == []
