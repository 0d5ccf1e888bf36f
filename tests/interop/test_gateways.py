# SPDX-License-Identifier: Apache-2.0
"""Our peer south of a real peer that is a gateway."""

from collections.abc import Iterator

import pytest

from tests.interop.nodes import Ours, Theirs, until

pytestmark = pytest.mark.interop

REGION = {"south": [{"filters": [{"modes": ["peer"]}]}]}


def test_a_peer_exchanges_samples_and_queries_with_its_peer_gateway(ports: Iterator[int]) -> None:
    where = f"tcp/127.0.0.1:{next(ports)}"
    above = Theirs("peer", listen=(where,), gateway=REGION)
    try:
        below = Ours("peer", (where,))
        try:
            above.do("sub", "s", "up")
            above.do("queryable", "q", "asked", "reply")
            below.do("sub", "s", "down")
            above.do("pub", "p", "down")
            until(lambda: above.do("matching", "p"))
            below.do("put", "up", "1")
            above.do("put", "down", "2")
            assert [event[:3] for event in above.events.wait("sample", "s")] == [["up", "put", "1"]]
            assert [event[:3] for event in below.events.wait("sample", "s")] == [["down", "put", "2"]]
            assert below.do("get", "asked") == [["put", "asked", "of q"]]
        finally:
            below.close()
    finally:
        above.close()
