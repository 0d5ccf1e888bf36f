# SPDX-License-Identifier: Apache-2.0
"""Our client, peer and router with those of eclipse-zenoh: every row has eclipse-zenoh on at least one end.

A network has two ends and the nodes between them. Each row runs in both directions. `ours` is Zenlake, `theirs` is eclipse-zenoh.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.interop.nodes import Ours, Theirs, until

Ends = tuple[Any, Any]
LOOPBACK = ("tcp/127.0.0.1:0",)


def endpoint(ports: Iterator[int]) -> tuple[str, ...]:
    return (f"tcp/127.0.0.1:{next(ports)}",)


def direct(ours: str, theirs: str) -> Callable[[Iterator[int], list[Any]], Ends]:
    """Two nodes and one connection. The node with the higher role listens."""

    def build(ports: Iterator[int], made: list[Any]) -> Ends:
        we_listen = ["router", "peer", "client"].index(ours) < ["router", "peer", "client"].index(theirs)
        if we_listen:
            made.append(Ours(ours, listen=LOOPBACK))
            made.append(Theirs(theirs, made[0].locators, () if theirs == "client" else LOOPBACK))
            until(lambda: made[0].node.faces())
            return made[0], made[1]
        where = endpoint(ports)
        made.append(Theirs(theirs, (), where))
        made.append(Ours(ours, where, () if ours == "client" else LOOPBACK))
        until(lambda: made[1].node.faces())
        return made[1], made[0]

    return build


def through_us(ports: Iterator[int], made: list[Any]) -> Ends:
    made.append(Ours("router", listen=LOOPBACK))
    made.append(Theirs("client", made[0].locators))
    made.append(Theirs("client", made[0].locators))
    return made[1], made[2]


def through_our_peer(ports: Iterator[int], made: list[Any]) -> Ends:
    made.append(Ours("peer", listen=LOOPBACK))
    made.append(Theirs("client", made[0].locators))
    made.append(Theirs("peer", made[0].locators, LOOPBACK))
    until(lambda: len(made[0].node.faces()) == 2)
    return made[1], made[2]


def through_them(ports: Iterator[int], made: list[Any]) -> Ends:
    where = endpoint(ports)
    made.append(Theirs("router", (), where))
    made.append(Theirs("client", where))
    made.append(Ours("client", where))
    return made[2], made[1]


NETWORKS = {
    "our client, their router": direct("client", "router"),
    "our client, their peer": direct("client", "peer"),
    "our peer, their peer": direct("peer", "peer"),
    "our peer, their router": direct("peer", "router"),
    "our peer, their client": direct("peer", "client"),
    "our router, their client": direct("router", "client"),
    "our router, their peer": direct("router", "peer"),
    "our router, their router": direct("router", "router"),
    "their clients through our router": through_us,
    "their client and their peer through our peer": through_our_peer,
    "our client and theirs through their router": through_them,
}


@pytest.fixture(scope="module", params=NETWORKS)
def network(request: pytest.FixtureRequest, ports: Iterator[int]) -> Iterator[Ends]:
    made: list[Any] = []
    try:
        yield NETWORKS[request.param](ports, made)
    finally:
        for node in reversed(made):
            node.close()


@pytest.fixture(params=["there", "back"])
def ends(network: Ends, request: pytest.FixtureRequest) -> Ends:
    """Return the publishing node and the receiving node."""
    return network if request.param == "there" else network[::-1]


count = iter(range(1_000_000))


@pytest.fixture
def root(request: pytest.FixtureRequest) -> str:
    """Return a key prefix for this test only."""
    return f"t{next(count)}"


def settle(speaker: Any, root: str) -> Any:
    """Wait until the speaker knows a subscriber on these keys."""
    name = f"settle-{next(count)}"
    speaker.do("pub", name, root)
    until(lambda: speaker.do("matching", name), f"no subscriber to {root}")
    return name


def test_samples_of_every_kind_arrive_once_and_in_order(ends: Ends, root: str) -> None:
    """Publish, delete, 1 MB, metadata. Wildcard, `$*` and `@` subscribers receive exactly the matching samples."""
    speaker, hearer = ends
    for name, key in {"all": "**", "one": "*", "part": "a$*", "at": "@v/*"}.items():
        hearer.do("sub", f"{root}-{name}", f"{root}/{key}")
    settle(speaker, f"{root}/ab")
    settle(speaker, f"{root}/@v/1")
    speaker.do("put", f"{root}/ab", "first")
    speaker.do("put", f"{root}/@v/1", "verbatim")
    speaker.do("put", f"{root}/x/y", "deep")
    speaker.do("put", f"{root}/ab", 1_000_000)
    speaker.do("delete", f"{root}/ab")
    speaker.do("put", f"{root}/end", "end")
    seen = hearer.events.wait("sample", f"{root}-all", 5)
    short = [(key.removeprefix(root + "/"), kind, payload) for key, kind, payload, _ in seen]
    expected = [
        ("ab", "put", "first"),
        ("x/y", "put", "deep"),
        ("ab", "put", 1_000_000),
        ("ab", "delete", ""),
        ("end", "put", "end"),
    ]
    assert short == expected
    assert [e[2] for e in hearer.events.wait("sample", f"{root}-one", 4)] == ["first", 1_000_000, "", "end"]
    assert [e[2] for e in hearer.events.wait("sample", f"{root}-part", 3)] == ["first", 1_000_000, ""]
    assert [e[2] for e in hearer.events.wait("sample", f"{root}-at")] == ["verbatim"]
    for name in ("all", "one", "part", "at"):
        hearer.do("undeclare", f"{root}-{name}")


def test_express_and_every_priority_and_attachment_survive(ends: Ends, root: str) -> None:
    speaker, hearer = ends
    hearer.do("sub", root, f"{root}/*")
    settle(speaker, f"{root}/x")
    names = ["REAL_TIME", "INTERACTIVE_HIGH", "INTERACTIVE_LOW", "DATA_HIGH", "DATA", "DATA_LOW", "BACKGROUND"]
    for number, name in enumerate(names, 1):
        express = number % 2 == 1
        speaker.do(
            "put", f"{root}/{number}", "v", priority=name, express=express, attachment="extra", encoding="text/plain"
        )
    seen = {key: about for key, _, _, about in hearer.events.wait("sample", root, len(names))}
    for number, name in enumerate(names, 1):
        about = seen[f"{root}/{number}"]
        assert (about["attachment"], about["encoding"], about["express"]) == ("extra", "text/plain", number % 2 == 1)
        assert about["priority"] in (number, f"Priority.{name}")
    hearer.do("undeclare", root)


def test_publishers_go_quiet_and_wake(ends: Ends, root: str) -> None:
    """Matching follows the subscribers: none, one, none again; a sample that is put while a subscriber matches arrives."""
    speaker, hearer = ends
    speaker.do("pub", root, f"{root}/x")
    assert speaker.do("matching", root) is False
    hearer.do("sub", root, f"{root}/**")
    until(lambda: speaker.do("matching", root))
    speaker.do("publish", root, "awake")
    assert hearer.events.wait("sample", root)[0][2] == "awake"
    hearer.do("undeclare", root)
    until(lambda: not speaker.do("matching", root))
    if isinstance(speaker, Ours):  # the listener of eclipse-zenoh sometimes misses a change that its status shows
        assert [event[0] for event in speaker.events.wait("matching", root, 2)] == [True, False]
    speaker.do("undeclare", root)


def test_queries_and_every_answer(ends: Ends, root: str) -> None:
    """reply, reply_err, reply_del, 1 MB, two replies under each consolidation, parameters and a body."""
    asker, answerer = ends
    for manner in ("plain", "err", "del", "twice", "big"):
        answerer.do("queryable", f"{root}-{manner}", f"{root}/{manner}", manner)
    asker.do("querier", root, f"{root}/plain")
    until(lambda: asker.do("ask", root) == [["put", f"{root}/plain", f"of {root}-plain"]])
    until(lambda: asker.do("get", f"{root}/big") == [["put", f"{root}/big", 1_000_000]])
    assert asker.do("get", f"{root}/err") == [["err", f"no {root}-err"]]
    assert asker.do("get", f"{root}/del") == [["delete", f"{root}/del", ""]]
    first, second = (["put", f"{root}/twice", f"{n} of {root}-twice"] for n in (1, 2))
    assert asker.do("get", f"{root}/twice", consolidation="NONE") == [first, second]
    assert asker.do("get", f"{root}/twice", consolidation="MONOTONIC") == [first, second]
    assert asker.do("get", f"{root}/twice", consolidation="LATEST") == [second]
    assert asker.do("get", f"{root}/twice?_time=[now(-1h)..]") == [first, second]
    assert asker.do("get", f"{root}/none", target="ALL") == []
    before = len(answerer.events.of("query", f"{root}-plain"))
    asker.do("get", f"{root}/plain?a=1;b=2", payload="body")
    assert answerer.events.wait("query", f"{root}-plain", before + 1)[-1] == [f"{root}/plain", "a=1;b=2", "body"]
    assert asker.do("matching", root) is True
    answerer.do("undeclare", f"{root}-plain")
    until(lambda: not asker.do("matching", root))
    asker.do("undeclare", root)
    for manner in ("err", "del", "twice", "big"):
        answerer.do("undeclare", f"{root}-{manner}")


def test_targets_select_the_queryables(ends: Ends, root: str) -> None:
    """One queryable is complete and includes the query, another on the same node does not. The target All queries both."""
    asker, answerer = ends
    answerer.do("queryable", f"{root}-whole", f"{root}/**", "plain", True)
    answerer.do("queryable", f"{root}-part", f"{root}/a", "plain")
    until(lambda: len(asker.do("get", f"{root}/a", target="ALL", consolidation="NONE")) == 2)
    assert asker.do("get", f"{root}/b", target="ALL_COMPLETE") == [["put", f"{root}/b", f"of {root}-whole"]]
    assert asker.do("get", f"{root}/b") == [["put", f"{root}/b", f"of {root}-whole"]]
    for name in ("whole", "part"):
        answerer.do("undeclare", f"{root}-{name}")


def test_a_question_without_answer_times_out(ends: Ends, root: str) -> None:
    asker, answerer = ends
    answerer.do("queryable", root, f"{root}/x", "silent")
    until(lambda: asker.do("get", f"{root}/x", timeout=0.3) == [["err", "Timeout"]])
    answerer.do("undeclare", root)


def test_liveliness(ends: Ends, root: str) -> None:
    """Tokens appear and disappear. History and queries return the current ones."""
    watcher, alive = ends
    alive.do("token", f"{root}-1", f"{root}/1")
    until(lambda: watcher.do("who", f"{root}/**") == [f"{root}/1"])
    watcher.do("live", f"{root}-history", f"{root}/*", True)
    assert watcher.events.wait("alive", f"{root}-history") == [[f"{root}/1", True]]
    watcher.do("live", f"{root}-new", f"{root}/*", False)
    alive.do("token", f"{root}-2", f"{root}/2")
    alive.do("undeclare", f"{root}-1")
    history = watcher.events.wait("alive", f"{root}-history", 3)
    assert history == [[f"{root}/1", True], [f"{root}/2", True], [f"{root}/1", False]]
    news = watcher.events.wait("alive", f"{root}-new", 2)
    assert news == [[f"{root}/2", True], [f"{root}/1", False]]  # also the end of a token that was not reported
    for name in ("history", "new"):
        watcher.do("undeclare", f"{root}-{name}")
    alive.do("undeclare", f"{root}-2")


def test_a_real_peer_waits_for_peers_from_our_gossip_before_it_publishes() -> None:
    """Its `open` does so only if gossip comes before the final declaration, and not in the same read."""
    first = Ours("peer", listen=("tcp/127.0.0.1:0",))
    second = Ours("peer", first.locators, ("tcp/127.0.0.1:0",))
    assert first.node.wait_for_face()
    for node in (first, second):
        node.do("sub", "s", "early/*")
    try:
        for number in range(3):
            peer = Theirs("peer", first.locators, **{"scouting/delay": 500})  # the longest time that it waits
            assert peer.do("peers") == sorted((first.zid, second.zid))
            peer.do("put", f"early/{number}", "x")
            for node in (first, second):
                node.events.wait("sample", "s", number + 1)
            peer.close()
    finally:
        second.close()
        first.close()
