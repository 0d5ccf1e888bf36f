# SPDX-License-Identifier: Apache-2.0
"""The derived table `hops`: latencies between the timestamps that samples collect on their way."""

import pytest

from tests.tables.fixtures import at, derived, row


def record(node, point, us):
    return {"point": point, "timestamp": at(us)["received"], "ntp64": us, "timestamp_id": node, "data": None}


def latencies(rows):
    found = derived("hops", samples=rows)
    return {
        (each["from_node"], each["to_node"], each["to_point"], each["session"]): (
            each["samples"], each["latency_min_us"], each["latency_p50_us"], each["latency_p99_us"], each["latency_max_us"],
        )
        for each in found
    }  # fmt: skip


def test_a_hop_begins_at_the_last_timestamp_of_a_node():
    stack = [record("a", "send", 0), record("a", "route", 10), record("b", "route", 110), record("c", "route", 310)]
    assert latencies([row(350, 1, key="k", timestamp_stack=stack)]) == {
        ("a", "b", "route", None): (1, *[100] * 4),
        ("b", "c", "route", None): (1, *[200] * 4),
        ("c", None, "recorded", "tcp/a->b"): (1, *[40] * 4),
    }


def test_a_timestamp_in_several_rows_counts_once():
    """A recording of two sessions has the beginning of the way twice."""
    first = [record("a", "send", 0), record("b", "route", 100)]
    rows = [
        row(150, 1, key="k", timestamp_stack=first, session="tcp/b->c"),
        row(170, 1, key="k", timestamp_stack=first, session="tcp/b->d"),
        row(400, 2, key="k", timestamp_stack=[*first, record("c", "route", 300)], session="tcp/c->e"),
    ]
    assert latencies(rows) == {
        ("a", "b", "route", None): (1, *[100] * 4),
        ("b", "c", "route", None): (1, *[200] * 4),
        ("b", None, "recorded", "tcp/b->c"): (1, *[50] * 4),
        ("b", None, "recorded", "tcp/b->d"): (1, *[70] * 4),
        ("c", None, "recorded", "tcp/c->e"): (1, *[100] * 4),
    }


def test_the_percentiles_are_those_of_all_samples():
    rows = [row(10_000 * n + n, n, key="k", timestamp_stack=[record("a", "send", 10_000 * n)]) for n in range(1, 101)]
    assert latencies(rows) == {("a", None, "recorded", "tcp/a->b"): (100, 1, 50, 99, 100)}


@pytest.mark.parametrize("stack", [None, []])
def test_samples_without_timestamps_have_no_hops(stack):
    custom = {**dict.fromkeys(("timestamp", "ntp64", "timestamp_id")), "point": "route", "data": b"mine"}
    rows = [row(1, 1, key="k", timestamp_stack=stack), row(2, 2, key="k", timestamp_stack=[custom, custom])]
    assert latencies(rows) == {}


def test_the_clocks_of_two_nodes_may_differ():
    stack = [record("a", "send", 500), record("b", "route", 100)]
    assert latencies([row(130, 1, key="k", timestamp_stack=stack)])["a", "b", "route", None][2] == -400
