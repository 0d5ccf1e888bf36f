# SPDX-License-Identifier: Apache-2.0
"""Attacks by declarations, interests and key ids."""

import itertools

from tests.hostile.catalogue import (
    AGGREGATE,
    BOTH,
    CURRENT,
    FOREVER,
    FUTURE,
    LONG,
    QUERYABLE,
    QUERYABLES,
    SUBSCRIBER,
    SUBSCRIBERS,
    TOKEN,
    TOKENS,
    Steps,
    Target,
    attack,
    declare_many,
    read_available,
    subscribe,
)
from tests.hostile.client import CONTROL, pack
from zenlake.wire.declare import Declare, DeclareEntity, DeclareKeyExpr, Interest, UndeclareEntity, UndeclareKeyExpr
from zenlake.wire.network import Push
from zenlake.wire.zenoh_body import Put


@attack("current", "future", "same-id", "aggregate", "tokens", "restricted", sessions=2)
def interests(target: Target, what: str) -> Steps:
    """Send interests in everything, with many declarations known, and do not read the replies."""
    yield from declare_many(target.open(), 5_000, "known/{}/" + "y" * 50, TOKEN if what == "tokens" else SUBSCRIBER)
    asker = target.open()
    mode = {"current": CURRENT, "future": FUTURE}.get(what, BOTH)
    options = TOKENS if what == "tokens" else SUBSCRIBERS | QUERYABLES | TOKENS
    options |= AGGREGATE if what == "aggregate" else 0

    def one(number: int) -> Interest:
        key = f"known/{number}/**" if what == "restricted" else "**" if what == "aggregate" else None
        return Interest(mode=mode, id=1 if what == "same-id" else number + 1, options=options, key=key)

    for payload in pack(map(one, range(FOREVER)), 2_000):
        asker.say(payload, priority=CONTROL)
        yield


@attack("subscribers", "queryables", "tokens", sessions=1, refusal="declarations")
def declarations(target: Target, what: str) -> Steps:
    """Declare without end."""
    kind = {"subscribers": SUBSCRIBER, "queryables": QUERYABLE, "tokens": TOKEN}[what]
    yield from declare_many(target.open(), FOREVER, "many/{}", kind)


@attack("literal", "deep", "wild", sessions=1, refusal={"literal": "declarations", "deep": "declarations"})
def long_declarations(target: Target, what: str) -> Steps:
    """Declare on keys of 60 kB."""
    link = target.open()
    tail = {"literal": LONG, "deep": "/".join(["y"] * 30_000), "wild": "/".join(["*", "x", "**", "y"] * 7_000)}[what]
    for number in itertools.count(1):
        link.say(subscribe(number, f"long{number}/{tail}"), priority=CONTROL)
        yield


@attack("subscribers", "tokens", "wild", sessions=2)
def declaration_churn(target: Target, what: str) -> Steps:
    """Declare and undeclare as fast as possible, while a second session has interests in all of it."""
    watcher, link = target.open(), target.open()
    watcher.say(Interest(mode=FUTURE, id=1, options=SUBSCRIBERS | QUERYABLES | TOKENS, key=None), priority=CONTROL)
    kind = TOKEN if what == "tokens" else SUBSCRIBER
    key = "**/a$*b/**" if what == "wild" else "churn/x"
    pair = subscribe(1, key, kind) + bytes(Declare(body=UndeclareEntity(kind=kind + 1, id=1)).encode())
    payload = pair * (20_000 // len(pair))
    while True:
        link.say(payload, priority=CONTROL)
        read_available(watcher)
        yield


@attack("many", "long", "redefinition", "chain", sessions=1, refusal={"many": "key_ids", "long": "key_ids"})
def key_ids(target: Target, what: str) -> Steps:
    """Declare key ids: many, long, the same id again and again, or each as a suffix of the one before."""
    link = target.open()
    size = 60_000 if what in ("long", "redefinition") else 20

    def one(number: int) -> Declare:
        id = 1 if what == "redefinition" else number % 65_000 + 1
        suffix = f"k{number}/" + "z" * size
        key = (id - 1, True, "/" + suffix) if what == "chain" and id > 1 else suffix
        return Declare(body=DeclareKeyExpr(id=id, key=key))

    for payload in pack(map(one, range(FOREVER))):
        link.say(payload, priority=CONTROL)
        yield


@attack(sessions=1)
def key_id_churn(target: Target) -> Steps:
    """Declare and undeclare key ids, and use ids that do not exist."""
    link = target.open()
    pair = bytes(Declare(body=DeclareKeyExpr(id=7, key="id/churn")).encode())
    pair += bytes(Declare(body=UndeclareKeyExpr(id=7)).encode())
    while True:
        link.say(pair * 1000, priority=CONTROL)
        link.say(bytes(Push(key=(9, True, "none"), body=Put(payload=b"")).encode()) * 100)
        yield


@attack("subscribers", "interests", "tokens", sessions=2)
def disconnect(target: Target, what: str) -> Steps:
    """Declare 100,000 entities, then disconnect; the node has to forget them all."""
    watcher = target.open()
    watcher.say(Interest(mode=FUTURE, id=1, options=SUBSCRIBERS | TOKENS, key=None), priority=CONTROL)
    while True:
        link = target.open()
        count = int(30_000 * target.scale)
        if what == "interests":
            many = (Interest(mode=FUTURE, id=n + 1, options=SUBSCRIBERS, key=f"gone/{n}/**") for n in range(count))
            for payload in pack(many):
                link.say(payload, priority=CONTROL)
                yield
        else:
            for _ in declare_many(link, count, "gone/{}", TOKEN if what == "tokens" else SUBSCRIBER):
                read_available(watcher)
                yield
        link.close()
        yield


@attack("subscribers", "interests", "key-ids", sessions=1, refusal={"interests": "interests"})
def long_prefix(target: Target, what: str) -> Steps:
    """Declare one key of 60 kB, then name it in messages of 10 bytes; each may cost the node 60 kB."""
    link = target.open()
    link.say(Declare(body=DeclareKeyExpr(id=1, key=LONG)), priority=CONTROL)

    def one(number: int) -> Interest | Declare:
        key = (1, True, f"/{number}")
        if what == "interests":
            return Interest(mode=FUTURE, id=number + 1, options=SUBSCRIBERS, key=key)
        if what == "key-ids":
            return Declare(body=DeclareKeyExpr(id=number % 65_000 + 2, key=key))
        return Declare(body=DeclareEntity(kind=SUBSCRIBER, id=number + 1, key=key))

    for payload in pack(map(one, range(FOREVER)), 20_000):
        link.say(payload, priority=CONTROL)
        read_available(link)
        yield


@attack(sessions=1)
def interest_churn(target: Target) -> Steps:
    """Declare and end interests as fast as possible, with many declarations known."""
    yield from declare_many(target.open(), 2_000, "known/{}")
    link = target.open()
    begin = Interest(mode=BOTH, id=1, options=SUBSCRIBERS | TOKENS, key="known/**")
    pair = bytes(begin.encode()) + bytes(Interest(mode=0, id=1).encode())
    while True:
        link.say(pair * 20, priority=CONTROL)
        read_available(link)
        yield
