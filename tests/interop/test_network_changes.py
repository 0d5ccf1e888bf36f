# SPDX-License-Identifier: Apache-2.0
"""Networks that change: nodes that find each other through others, and routers that go and come back."""

import time
from collections.abc import Iterator

import pytest

from tests.interop.nodes import Ours, Theirs, until

LOOPBACK = ("tcp/127.0.0.1:0",)


def test_two_real_peers_find_each_other_through_our_router() -> None:
    """Our router passes on where peers listen; they connect, and a sample comes once: directly, not through us too."""
    router = Ours("router", listen=LOOPBACK)
    a, b = (Theirs("peer", router.locators, LOOPBACK) for _ in range(2))
    try:
        until(lambda: a.zid in b.do("peers"))
        until(lambda: b.zid in a.do("peers"))
        b.do("sub", "s", "x/**")
        a.do("pub", "p", "x/1")
        until(lambda: a.do("matching", "p"))
        for n in range(10):
            a.do("publish", "p", str(n))
        assert [event[2] for event in b.events.wait("sample", "s", 10)] == [str(n) for n in range(10)]
        router.do("put", "x/last", "last")
        b.events.wait("sample", "s", 11)
        assert len(b.events.of("sample", "s")) == 11
    finally:
        for node in (a, b, router):
            node.close()


@pytest.mark.parametrize("whose", ["our router", "their router", "their peer"])
def test_our_peer_and_a_real_one_find_each_other(whose: str, ports: Iterator[int]) -> None:
    where = (f"tcp/127.0.0.1:{next(ports)}",)
    kind = Ours if whose.startswith("our") else Theirs
    hub = kind(whose.split()[1], (), where)
    theirs = Theirs("peer", where, LOOPBACK)
    ours = Ours("peer", where, LOOPBACK)
    try:
        until(lambda: theirs.zid in ours.do("peers"))
        for name, hearer, speaker in (("a", ours, theirs), ("b", theirs, ours)):
            hearer.do("sub", name, f"{name}/**")
            speaker.do("pub", name, f"{name}/1")
            until(lambda name=name, speaker=speaker: speaker.do("matching", name))
            for n in range(5):
                speaker.do("publish", name, str(n))
            assert [event[2] for event in hearer.events.wait("sample", name, 5)] == list("01234")
        hub.do("put", "a/end", "end")
        ours.events.wait("sample", "a", 6)
        assert len(ours.events.of("sample", "a")) == 6
    finally:
        for node in (ours, theirs, hub):
            node.close()


def test_our_client_outlives_a_real_router_killed_under_load(ports: Iterator[int]) -> None:
    """It connects again and declares all again: subscriber, queryable, token and the publisher's interest."""
    where = (f"tcp/127.0.0.1:{next(ports)}",)
    router = Theirs("router", (), where)
    ours = Ours("client", where)
    ours.do("sub", "s", "x/**")
    ours.do("queryable", "q", "q/1", "plain")
    ours.do("token", "t", "tok/1")
    ours.do("pub", "p", "y/1")
    try:
        for n in range(200):
            ours.do("publish", "p", str(n))
        router.kill()
        for n in range(200):
            ours.do("publish", "p", str(n))
        until(lambda: not ours.node.faces())
        router = Theirs("router", (), where)
        router.do("sub", "y", "y/*")
        until(lambda: ours.do("matching", "p"))
        ours.do("publish", "p", "after")
        assert router.events.wait("sample", "y")[0][2] == "after"
        until(lambda: router.do("get", "q/1") == [["put", "q/1", "of q"]])
        assert router.do("who", "tok/*") == ["tok/1"]
        router.do("put", "x/1", "again")
        assert ours.events.wait("sample", "s")[0][2] == "again"
    finally:
        ours.close()
        router.close()


def test_real_clients_outlive_our_router(ports: Iterator[int]) -> None:
    where = (f"tcp/127.0.0.1:{next(ports)}",)
    router = Ours("router", listen=where)
    a, b = (Theirs("client", where) for _ in range(2))
    try:
        a.do("sub", "s", "x/**")
        b.do("pub", "p", "x/1")
        until(lambda: b.do("matching", "p"))
        router.close()
        until(lambda: not b.do("matching", "p"))
        router = Ours("router", listen=where)
        until(lambda: b.do("matching", "p"))
        deadline = time.monotonic() + 10
        while not a.events.of("sample", "s") and time.monotonic() < deadline:
            b.do("publish", "p", "again")
            time.sleep(0.05)
        assert a.events.wait("sample", "s")[0][2] == "again"
    finally:
        for node in (a, b, router):
            node.close()


def test_a_real_client_sees_our_router_in_its_admin_space() -> None:
    router = Ours("router", listen=LOOPBACK)
    client = Theirs("client", router.locators)
    try:
        client.do("sub", "s", "x/**")
        ((kind, key, content),) = client.do("get", "@/*/router")
        assert (kind, key) == ("put", f"@/{router.zid}/router")
        assert client.zid in content
        until(lambda: client.do("get", f"@/{router.zid}/router/subscriber/**"))
    finally:
        client.close()
        router.close()
