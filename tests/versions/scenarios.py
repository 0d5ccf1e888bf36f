# SPDX-License-Identifier: Apache-2.0
"""What must work between two nodes, whatever their versions and roles: one function for each scenario.

The first node publishes or asks, the second subscribes or replies. `root` is a key that no other scenario uses.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PATIENCE = 4.0  # seconds until a scenario has failed
ANSWER = 2.0  # seconds that a query may take
LARGE = 1_000_000

Run = Callable[[Any, Any, str], None]


@dataclass(frozen=True)
class Scenario:
    name: str
    run: Run
    since: tuple[int, int]
    """The first version whose Python API has what it uses."""
    is_basic: bool
    """Whether it runs on every kind of link."""

    def exists_in(self, version: str) -> bool:
        return tuple(map(int, version.split(".")[:2])) >= self.since


SCENARIOS: dict[str, Scenario] = {}


def scenario(since: tuple[int, int] = (1, 0), is_basic: bool = False) -> Callable[[Run], Run]:
    def add(run: Run) -> Run:
        name = run.__name__.replace("_", " ")
        SCENARIOS[name] = Scenario(name, run, since, is_basic)
        return run

    return add


def until(check: Callable[[], object], what: str, *, each: Callable[[], object] = lambda: None) -> None:
    """Poll until a condition holds. `each` is called before each check."""
    deadline = time.monotonic() + PATIENCE
    while True:
        each()
        if check():
            return
        if time.monotonic() > deadline:
            raise AssertionError(what)
        time.sleep(0.02)


def expect(got: Any, wanted: Any) -> None:
    if got != wanted:
        raise AssertionError(f"got {got}, expected {wanted}")


def subscribe(a: Any, b: Any, root: str, key: str) -> str:
    """Let `b` subscribe, and wait until its subscriber is known to `a`. Return the subscriber's name."""
    name = f"{root}-{key}"
    b.do("sub", name, f"{root}/{key}")
    marker = f"{name}-settle"
    b.do("sub", marker, f"{root}/@settle")
    until(
        lambda: b.events.of("sample", marker), "no sample arrives", each=lambda: a.do("put", f"{root}/@settle", "1")
    )  # fmt: skip
    return name


def samples(b: Any, name: str, count: int) -> list[list[Any]]:
    """Wait for samples of a subscriber and return key, kind and payload of each."""
    until(lambda: len(b.events.of("sample", name)) >= count, f"{count} samples expected")
    time.sleep(0.05)  # a further one is an error
    return [event[:3] for event in b.events.of("sample", name)]


def reply(a: Any, selector: str, wanted: Any, **options: Any) -> None:
    """Repeat a query until its replies are those that are expected."""
    got: list[Any] = []

    def ask() -> None:
        got[:] = [a.do("get", selector, timeout=ANSWER, **options)]

    try:
        until(lambda: got[0] == wanted, "", each=ask)
    except AssertionError:
        expect(got[0], wanted)


@scenario(is_basic=True)
def put_and_delete(a: Any, b: Any, root: str) -> None:
    name = subscribe(a, b, root, "x")
    a.do("put", f"{root}/x", "1")
    a.do("delete", f"{root}/x")
    expect(samples(b, name, 2), [[f"{root}/x", "put", "1"], [f"{root}/x", "delete", ""]])


@scenario(is_basic=True)
def a_megabyte(a: Any, b: Any, root: str) -> None:
    name = subscribe(a, b, root, "x")
    a.do("put", f"{root}/x", LARGE, blocks=True)
    expect(samples(b, name, 1), [[f"{root}/x", "put", LARGE]])


@scenario()
def wildcard_keys(a: Any, b: Any, root: str) -> None:
    names = [subscribe(a, b, root, key) for key in ("**", "*", "a$*", "@v/*")]
    for key in ("ab", "x/y", "@v/1"):
        a.do("put", f"{root}/{key}", key)
    found = [[event[2] for event in samples(b, name, count)] for name, count in zip(names, (2, 1, 1, 1), strict=True)]
    expect(found, [["ab", "x/y"], ["ab"], ["ab"], ["@v/1"]])


@scenario()
def attachment_encoding_priority_express(a: Any, b: Any, root: str) -> None:
    name = subscribe(a, b, root, "*")
    for priority in ("REAL_TIME", "DATA", "BACKGROUND"):
        a.do("put", f"{root}/x", "1", priority=priority, attachment="extra", encoding="text/plain", express=True)
    samples(b, name, 3)
    found = [event[3] for event in b.events.of("sample", name)]
    got = sorted((each["priority"], each["attachment"], each["encoding"], each["express"]) for each in found)
    expect(got, [(f"Priority.{name}", "extra", "text/plain", True) for name in ("BACKGROUND", "DATA", "REAL_TIME")])


@scenario()
def declared_publisher(a: Any, b: Any, root: str) -> None:
    name = subscribe(a, b, root, "x")
    a.do("pub", root, f"{root}/x", False)
    a.do("publish", root, "1")
    expect(samples(b, name, 1), [[f"{root}/x", "put", "1"]])


@scenario()
def late_subscriber(a: Any, b: Any, root: str) -> None:
    a.do("pub", root, f"{root}/x", False)
    a.do("publish", root, "early")
    b.do("sub", root, f"{root}/**")
    until(
        lambda: [f"{root}/x", "put", "late"] in [event[:3] for event in b.events.of("sample", root)], "no sample arrives",
        each=lambda: a.do("publish", root, "late"),
    )  # fmt: skip


@scenario()
def undeclared_subscriber(a: Any, b: Any, root: str) -> None:
    name = subscribe(a, b, root, "x")
    other = subscribe(a, b, root, "*")
    b.do("undeclare", name)
    a.do("put", f"{root}/x", "1")
    expect(samples(b, other, 1), [[f"{root}/x", "put", "1"]])
    expect(b.events.of("sample", name), [])


@scenario((1, 5))
def matching(a: Any, b: Any, root: str) -> None:
    a.do("pub", root, f"{root}/x")
    expect(a.do("matching", root), False)
    b.do("sub", root, f"{root}/**")
    until(lambda: a.do("matching", root), "no match")
    b.do("undeclare", root)
    until(lambda: not a.do("matching", root), "still a match")


@scenario(is_basic=True)
def get_and_reply(a: Any, b: Any, root: str) -> None:
    b.do("queryable", root, f"{root}/x", "plain")
    reply(a, f"{root}/x", [["put", f"{root}/x", f"of {root}"]])


@scenario()
def get_and_error(a: Any, b: Any, root: str) -> None:
    b.do("queryable", root, f"{root}/x", "err")
    reply(a, f"{root}/x", [["err", f"no {root}"]])


@scenario()
def get_and_delete(a: Any, b: Any, root: str) -> None:
    b.do("queryable", root, f"{root}/x", "del")
    reply(a, f"{root}/x", [["delete", f"{root}/x", ""]])


@scenario()
def get_a_megabyte(a: Any, b: Any, root: str) -> None:
    b.do("queryable", root, f"{root}/x", "big")
    reply(a, f"{root}/x", [["put", f"{root}/x", LARGE]])


@scenario()
def consolidation(a: Any, b: Any, root: str) -> None:
    b.do("queryable", root, f"{root}/x", "twice")
    both = [["put", f"{root}/x", f"{number} of {root}"] for number in (1, 2)]
    reply(a, f"{root}/x", both, consolidation="NONE")
    expect(len(a.do("get", f"{root}/x", timeout=ANSWER, consolidation="LATEST")), 1)  # which one differs by version


@scenario()
def parameters_and_payload(a: Any, b: Any, root: str) -> None:
    b.do("queryable", root, f"{root}/x", "plain")
    reply(a, f"{root}/x?a=1;b=2", [["put", f"{root}/x", f"of {root}"]], payload="body")
    until(lambda: [f"{root}/x", "a=1;b=2", "body"] in b.events.of("query", root), "other parameters or payload")


@scenario()
def targets(a: Any, b: Any, root: str) -> None:
    b.do("queryable", f"{root}-whole", f"{root}/**", "plain", True)
    b.do("queryable", f"{root}-part", f"{root}/a", "plain")
    until(
        lambda: len(a.do("get", f"{root}/a", target="ALL", consolidation="NONE", timeout=ANSWER)) == 2, "not all reply"
    )
    reply(a, f"{root}/b", [["put", f"{root}/b", f"of {root}-whole"]], target="ALL_COMPLETE")
    reply(a, f"{root}/b", [["put", f"{root}/b", f"of {root}-whole"]])


@scenario()
def get_without_queryable(a: Any, b: Any, root: str) -> None:
    expect(a.do("get", f"{root}/x", timeout=ANSWER, target="ALL"), [])


@scenario()
def get_without_reply_times_out(a: Any, b: Any, root: str) -> None:
    b.do("queryable", root, f"{root}/x", "silent")
    until(lambda: a.do("get", f"{root}/x", timeout=0.3) == [["err", "Timeout"]], "no timeout")


@scenario()
def querier_after_a_declared_key(a: Any, b: Any, root: str) -> None:
    """Case A of the version matrix: the key of a RESPONSE."""
    a.do("pub", f"{root}-1", f"{root}/other", False)
    a.do("pub", f"{root}-2", f"{root}/x", False)
    b.do("queryable", root, f"{root}/x", "plain")
    a.do("querier", f"{root}-q", f"{root}/x", False)
    wanted = [["put", f"{root}/x", f"of {root}"]]
    until(lambda: a.do("ask", f"{root}-q") == wanted, "no reply to the querier")


@scenario()
def get_on_a_key_of_an_own_subscriber(a: Any, b: Any, root: str) -> None:
    a.do("sub", root, f"{root}/x")
    b.do("queryable", root, f"{root}/x", "plain")
    reply(a, f"{root}/x", [["put", f"{root}/x", f"of {root}"]])


@scenario((1, 5))
def matching_querier(a: Any, b: Any, root: str) -> None:
    a.do("querier", root, f"{root}/x")
    expect(a.do("matching", root), False)
    b.do("queryable", root, f"{root}/**", "plain", True)
    until(lambda: a.do("matching", root), "no match")
    b.do("undeclare", root)
    until(lambda: not a.do("matching", root), "still a match")


@scenario()
def liveliness_get(a: Any, b: Any, root: str) -> None:
    b.do("token", root, f"{root}/1")
    until(lambda: a.do("who", f"{root}/**") == [f"{root}/1"], "no token")
    b.do("undeclare", root)
    until(lambda: a.do("who", f"{root}/**") == [], "a token without a node")


@scenario()
def liveliness_history(a: Any, b: Any, root: str) -> None:
    b.do("token", root, f"{root}/1")
    until(lambda: a.do("who", f"{root}/**") == [f"{root}/1"], "no token")
    a.do("live", root, f"{root}/*", True)
    until(lambda: a.events.of("alive", root) == [[f"{root}/1", True]], "no history")


@scenario()
def liveliness_changes(a: Any, b: Any, root: str) -> None:
    b.do("token", f"{root}-before", f"{root}/0")
    until(lambda: a.do("who", f"{root}/**") == [f"{root}/0"], "no token")
    a.do("live", root, f"{root}/*", False)
    numbers = itertools.count(1)

    def declare() -> None:  # again and again: `b` may not know yet that `a` watches
        number = next(numbers)
        b.do("token", f"{root}-{number}", f"{root}/{number}")

    def new() -> list[list[Any]]:
        return [event for event in a.events.of("alive", root) if event[0] != f"{root}/0"]

    until(new, "no new token", each=declare)
    key, is_alive = new()[0]
    expect(is_alive, True)
    b.do("undeclare", key.replace("/", "-"))
    until(lambda: [key, False] in a.events.of("alive", root), "no end of a token")


@scenario((1, 5))
def advanced_publisher_history(a: Any, b: Any, root: str) -> None:
    a.do("advanced_pub", root, f"{root}/x")
    for number in range(3):
        a.do("publish", root, str(number))
    b.do("advanced_sub", root, f"{root}/x")
    until(lambda: len(b.events.of("sample", root)) == 3, "no history")
    a.do("publish", root, "3")
    expect([event[2] for event in samples(b, root, 4)], ["0", "1", "2", "3"])
