# SPDX-License-Identifier: Apache-2.0
"""`subscriptions` and `matrix`: the subscribers of keys, and the number of delivered samples."""

import random

import pytest

from tests.tables.fixtures import at, derived, row
from tests.tables.test_publications import EVENTS, hop, opened, rows_of
from zenlake.core.keyexpr import KeyExpr

SECOND = 1_000_000


def subscription(session, key, us=0, id=1, direction=0, **values):
    return row(us, us, direction, session, action="declare", kind="subscriber", id=id, key=key, **values)


def undeclaration(session, us, id=1):
    return row(us, us, 0, session, action="undeclare", kind="subscriber", id=id)


def published(n, reached=("down1",), key="k", us=SECOND, **values):
    """Return the rows of samples that one client published and a router sent to some subscribers."""
    payload = str(n).encode()
    yield hop(us + 100 * n, "up", 0, payload, key=key, **values)
    for session in reached:
        yield hop(us + 100 * n + 20, session, 1, payload, us + 100 * n + 10, key=key, **values)


def matrix(samples, declarations, events=EVENTS):
    rows = derived("matrix", samples=samples, declarations=declarations, events=events)
    return {(each["publisher"], each["subscriber"]): each for each in rows}


# The recording lasts on: what is published right before its end may still be on its way.
END = [hop(10 * SECOND, "up", 0, b"end", key="end")]


def test_a_subscriber_that_received_a_part_has_the_share_and_age_of_it():
    samples = [row for n in range(10) for row in published(n, ("down1", "down2") if n < 2 else ("down1",))]
    found = matrix([*samples, *END], [subscription("down1", "k"), subscription("down2", "**")])
    whole, part = found["c0", "c1"], found["c0", "c2"]
    assert (whole["matched"], whole["delivered"], whole["share"]) == (10, 10, 1.0)
    assert (part["matched"], part["delivered"], part["share"]) == (10, 2, 0.2)
    assert (part["bytes"], part["age_p50"], part["age_max"]) == (2, 10, 10)
    assert (part["publisher_role"], part["subscriber_role"]) == ("client", "client")


def test_a_subscriber_without_samples_has_a_row():
    found = matrix([*published(1, ()), *END], [subscription("down1", "k")])
    assert (found["c0", "c1"]["delivered"], found["c0", "c1"]["share"]) == (0, 0.0)


def test_overlapping_subscriptions_of_a_node_count_once():
    declared = [subscription("down1", key, id=n) for n, key in enumerate(["k", "*", "**", "other"])]
    found = matrix([*published(0), *published(1), *published(2), *END], declared)
    assert (found["c0", "c1"]["matched"], found["c0", "c1"]["delivered"]) == (3, 3)


def test_publications_at_the_edges_of_a_subscription_count_only_if_they_were_delivered():
    samples = [
        *published(0, (), us=SECOND + 50_000),
        *published(0, us=SECOND + 80_000, key="k"),
        *published(1, us=2 * SECOND),
        *published(2, (), us=4 * SECOND - 50_000),
        *published(3, (), us=5 * SECOND),
        *END,
    ]
    found = matrix(samples, [subscription("down1", "k", SECOND), undeclaration("down1", 4 * SECOND)])
    assert (found["c0", "c1"]["matched"], found["c0", "c1"]["delivered"]) == (2, 2)


def test_a_recording_of_the_last_hop_only_has_no_share():
    samples = [hop(SECOND + n, "down1", 1, b"%d" % n, n, key="k") for n in range(3)]
    [only] = matrix(samples, [subscription("down1", "k")]).values()
    assert (only["publisher"], only["delivered"], only["direct"], only["share"]) == (None, 3, 3, None)


def test_a_subscription_that_was_declared_before_the_recording_has_no_share():
    found = matrix([*published(1), *published(2), *END], [])
    assert (found["c0", "c1"]["matched"], found["c0", "c1"]["share"]) == (None, None)


def test_a_peer_without_a_recorded_delivery_may_be_connected_directly():
    events = [*EVENTS, opened("mesh", "p")]
    declared = [subscription("mesh", "k"), subscription("down1", "k")]
    found = matrix([*published(1), *published(2), *END], declared, events)
    assert (found["c0", "p"]["matched"], found["c0", "p"]["delivered"], found["c0", "p"]["share"]) == (2, 0, None)


def test_deliveries_of_equal_values_of_two_publishers_are_in_a_row_without_a_publisher():
    samples = [hop(SECOND, "up", 0, b"x"), hop(SECOND + 1, "down1", 0, b"x")]
    samples += [hop(SECOND + 10 + n, "down2", 1, b"x", SECOND + 5 + n) for n in range(2)]
    found = matrix([*samples, *END], [subscription("down2", "k")])
    undecided = found[None, "c2"]
    assert (undecided["delivered"], undecided["undecided"], undecided["share"]) == (2, 2, None)
    assert [(found[zid, "c2"]["matched"], found[zid, "c2"]["share"]) for zid in ("c0", "c1")] == [(1, None)] * 2


def test_subscriptions_end_and_those_that_a_router_forwards_are_not_included():
    declared = [
        subscription("down1", "a"), undeclaration("down1", 500), subscription("down1", "b", 600),
        subscription("up", "a", direction=1), subscription("down2", "c"),
    ]  # fmt: skip
    events = [*EVENTS, row(900, 9, session="down2", kind="closed", detail="GENERIC")]
    rows = rows_of("subscriptions", declarations=declared, events=events)
    assert [(each["subscriber"], each["key"], each["ended"], each["ended_by"]) for each in rows] == [
        ("c1", "a", at(500)["received"], "undeclared"),
        ("c2", "c", at(900)["received"], "session"),
        ("c1", "b", None, None),
    ]


def random_keys(wild):
    chunks = ["a", "b", "ab", "@a", "a.b", "a+(b", "é"] + (["*", "**", "a$*", "$*b", "a$*b"] if wild else [])
    chance = random.Random(7)
    keys = ("/".join(chance.choice(chunks) for _ in range(chance.randrange(1, 5))) for _ in range(150))
    return sorted({str(KeyExpr.autocanonize(key)) for key in keys})


@pytest.mark.parametrize("wild", [False, True], ids=["keys", "keys with wildcards"])
def test_keys_match_as_in_zenoh(wild):
    expressions, keys = random_keys(True), random_keys(wild)
    samples = [hop(SECOND + n, "up", 0, b"%d" % n, key=key) for n, key in enumerate(keys)]
    declared = [subscription(f"s{n}", expression) for n, expression in enumerate(expressions)]
    events = [opened("up", "c0"), *(opened(f"s{n}", f"{n}", role="client") for n in range(len(expressions)))]
    found = matrix([*samples, *END], declared, events)
    for n, expression in enumerate(map(KeyExpr, expressions)):
        matched = found.get(("c0", f"{n}"), {"matched": 0})["matched"]
        most = sum(expression.intersects(key) for key in map(KeyExpr, keys))
        least = sum(expression.includes(key) or key.includes(expression) for key in map(KeyExpr, keys))
        assert least <= matched <= most, expression
        assert matched == most or wild, expression
