# SPDX-License-Identifier: Apache-2.0
"""Networks that change: nodes that discover each other through others, and routers that end and restart."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.nodes import Ours, Theirs, until

LOOPBACK = ("tcp/127.0.0.1:0",)


def test_two_eclipse_peers_discover_each_other_through_our_router() -> None:
    """Our router passes on the locators of peers. The peers connect, and a sample arrives once: not through the router."""
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
def test_our_peer_and_an_eclipse_peer_discover_each_other(whose: str, ports: Iterator[int]) -> None:
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
    """The node connects again and repeats its declarations: subscriber, queryable, token and the interest of the publisher."""
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


@pytest.mark.parametrize(("client", "router"), [(Ours, Theirs), (Theirs, Ours)], ids=["our client", "their client"])
def test_a_client_fails_over_to_the_second_router(client: Any, router: Any, ports: Iterator[int]) -> None:
    where = [f"tcp/127.0.0.1:{next(ports)}" for _ in range(2)]
    routers = [router("router", (), (one,)) for one in where]
    node = client("client", tuple(where))
    try:
        node.do("sub", "s", "x/*")
        for number, one in enumerate(routers):
            one.do("pub", "p", "x/1")
            until(lambda one=one: one.do("matching", "p"))
            one.do("publish", "p", str(number))
            assert [event[2] for event in node.events.wait("sample", "s", number + 1)] == list("01"[: number + 1])
            one.close()
    finally:
        for each in (node, *routers):
            each.close()


@contextlib.contextmanager
def our_router(*options: str) -> Iterator[subprocess.Popen[str]]:
    """A router in its own process, so that it can be killed."""
    command = [sys.executable, "-c", "from zenlake.cli import main; main()", "router", *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        assert " listens on " in process.stderr.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def test_real_nodes_outlive_our_router_killed_under_load(ports: Iterator[int]) -> None:
    """A client and a peer publish without a pause, and a client receives both. All connect to the new router."""
    where = f"tcp/127.0.0.1:{next(ports)}"
    with our_router("-l", where):
        soon = {"connect/retry": {"period_init_ms": 200, "period_max_ms": 400, "period_increase_factor": 1.5}}
        hearer, client = (Theirs("client", (where,), **soon) for _ in range(2))
        peer = Theirs("peer", (where,), LOOPBACK, **soon)
        hearer.do("sub", "s", "x/**")
        for name, node in (("client", client), ("peer", peer)):
            node.do("pub", name, f"x/{name}")
            until(lambda name=name, node=node: node.do("matching", name))
            for n in range(200):
                node.do("publish", name, str(n))
        until(lambda: {event[0] for event in hearer.events.of("sample", "s")} == {"x/client", "x/peer"})
    for name, node in (("client", client), ("peer", peer)):
        for _ in range(200):
            node.do("publish", name, "no subscriber")
        until(lambda name=name, node=node: not node.do("matching", name))
    try:
        with our_router("-l", where):
            for name, node in (("client", client), ("peer", peer)):

                def comes_again(name: str = name, node: Theirs = node) -> bool:
                    node.do("publish", name, "again")
                    return [f"x/{name}", "put", "again"] in [event[:3] for event in hearer.events.of("sample", "s")]

                until(comes_again, name)
    finally:
        for node in (hearer, client, peer):
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
