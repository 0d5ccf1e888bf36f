# SPDX-License-Identifier: Apache-2.0
"""Attacks by keys, puts and queries."""

import itertools
import time

from tests.hostile.catalogue import (
    FOREVER,
    LONG,
    QUERYABLE,
    SUBSCRIBER,
    Steps,
    Target,
    attack,
    declare_many,
    put,
    read_available,
    subscribe,
)
from tests.hostile.client import CONTROL, ROUTER, pack
from tests.hostile.graphs import fragment, invent
from zenlake.wire.declare import Declare, DeclareKeyExpr
from zenlake.wire.network import Push, Request, Response, ResponseFinal
from zenlake.wire.zenoh_body import Del, Put, Query, Reply


@attack("long", "many", "deep", sessions=1)
def puts(target: Target, what: str) -> Steps:
    """Put on keys that have no subscriber: long keys, many keys, or keys of many chunks."""
    link = target.open()
    tail = {"long": LONG, "many": "", "deep": "/".join(["y"] * 30_000)}[what]
    for payload in pack(put(f"put{number}/{tail}".rstrip("/")) for number in range(FOREVER)):
        link.say(payload)
        yield


STARS = "/".join(["x", "**"] * 10_000)
WILDCARDS = {
    "double": ("/".join(["x", "**"] * 9_000), "/".join(["x"] * 18_000) + "/y"),
    "single": ("/".join(["*"] * 30_000), "/".join(["x"] * 30_000)),
    "dollar": ("a/" + "$*x" * 15_000 + "$*y", "a/" + "x" * 60_000),
    "dollar-chunks": ("/".join(["$*a$*"] * 9_000), "/".join(["b" * 5] * 9_000)),  # over the limit of chunks with `$*`
    "dollar-limit": ("**/" + "$*a$*/" * 60 + "a/" * 9_000 + "y$*/**", "/".join(["ab"] * 20_000)),
    "both": ("/".join(["x", "**"] * 10_000), "/".join(["**", "x"] * 10_000)),
    "mixed": ("**/" + "/".join(["a$*b", "*", "**"] * 5_000) + "/z", "/".join(["ab"] * 20_000)),
}


@attack(*WILDCARDS, sessions=2)
def wildcard_put(target: Target, what: str) -> Steps:
    """Subscribe to the worst expression and put on the worst key."""
    pattern, key = WILDCARDS[what]
    subscriber, publisher = target.open(), target.open()
    subscriber.say(subscribe(1, pattern), priority=CONTROL)
    subscriber.say(subscribe(2, pattern[:-1] + "q", QUERYABLE), priority=CONTROL)
    for number in itertools.count():
        publisher.say(put(f"{key}{number}"))
        publisher.say(Request(id=number + 1, key=key, timeout=1 << 40, body=Query()))
        read_available(subscriber)
        yield


@attack("put", "get", "delete", sessions=2)
def storm(target: Target, what: str) -> Steps:
    """Use `**` as the key of many messages, with many declarations known."""
    declarer, link = target.open(), target.open()
    yield from declare_many(declarer, 5_000, "storm/{}/a", QUERYABLE if what == "get" else SUBSCRIBER)
    for number in itertools.count(1):
        if what == "get":
            link.say(Request(id=number, key="**", timeout=1 << 40, body=Query()))
        else:
            body = Put(payload=b"") if what == "put" else Del()
            link.say(*(Push(key=f"storm/*/{'a$*' if n % 2 else '**'}", body=body) for n in range(20)))
        read_available(declarer)
        yield


@attack("pending", "same-id", "no-queryable", sessions=2, refusal={"pending": "queries"})
def queries(target: Target, what: str) -> Steps:
    """Ask with timeouts of years; the queryable is ours and does not reply."""
    silent, asker = target.open(), target.open()
    if what != "no-queryable":
        silent.say(subscribe(1, "ask/**", QUERYABLE), priority=CONTROL)

    def one(number: int) -> Request:
        id = 1 if what == "same-id" else number + 1
        return Request(id=id, key=f"ask/{number}", timeout=1 << 40, body=Query(parameters=b"a=" + b"b" * 200))

    for payload in pack(map(one, range(FOREVER))):
        asker.say(payload)
        read_available(silent)
        yield


@attack(sessions=2, refusal="queries")
def queries_due_together(target: Target) -> Steps:
    """Ask many questions that time out at the same time; the queryable is ours and does not reply."""
    silent, asker = target.open(), target.open()
    silent.say(subscribe(1, "due/**", QUERYABLE), priority=CONTROL)
    ids = itertools.count(1)
    while True:
        end = time.monotonic() + 0.5
        while (left := end - time.monotonic()) > 0.1:
            asker.say(*(Request(id=next(ids), key="due/x", timeout=int(left * 1000), body=Query()) for _ in range(500)))
            read_available(silent)
            yield
        time.sleep(0.1)


@attack(sessions=1)
def replies_to_no_query(target: Target) -> Steps:
    """Reply to queries that do not exist."""
    link = target.open()
    for start in itertools.count(0, 500):
        for id in range(start, start + 500):
            reply = Response(id=id & 0xFFFFFFFF, key=f"reply/{id}", body=Reply(body=Put(payload=bytes(50))))
            link.say(reply, ResponseFinal(id=id & 0xFFFFFFFF))
        yield


@attack("put", "get", sessions=1)
def prefixed(target: Target, what: str) -> Steps:
    """Declare one key of 60 kB, then put and query below it with messages of 10 bytes."""
    link = target.open()
    link.say(Declare(body=DeclareKeyExpr(id=1, key=LONG)), priority=CONTROL)

    def one(number: int) -> Push | Request:
        key = (1, True, f"/{number}")
        if what == "put":
            return Push(key=key, body=Put(payload=b""))
        return Request(id=number + 1, key=key, timeout=1 << 40, body=Query())

    for payload in pack(map(one, range(FOREVER)), 5_000):
        link.say(payload)
        read_available(link)
        yield


@attack("read", "unread", "routes", sessions=2)
def admin_queries(target: Target, what: str) -> Steps:
    """Query the admin space of the node, with many declarations known, or many routers."""
    if what == "routes":  # the next hop for each pair of routers
        router = target.open(ROUTER)
        for payload in fragment(router, invent(router, "chain", int(20 * target.scale), 10, target.random)):
            router.send(payload)
        yield
    else:
        yield from declare_many(target.open(), 2_000, "known/{}")
    link = target.open()
    for number in itertools.count(1):
        link.say(Request(id=number, key="@/**", timeout=1000, body=Query()))
        if what != "unread":
            read_available(link)
        yield
