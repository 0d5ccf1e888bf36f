# SPDX-License-Identifier: Apache-2.0
"""Deliveries to subscribers: the delivery matrix of publishers and subscribers, and the ages by subscriber.

The age of a delivery is relative to the youngest sample of its clock if that clock is not synchronous (`clock_offset`).
"""

from typing import Any

from zenlake.report.dataset import Dataset
from zenlake.report.sections.losses import to_list
from zenlake.report.sections.time_window import TimeWindow

PAIRS = 900
SUBSCRIBERS = 200
NODES = 200
KEYS_OF_NODE = 3

AGE = "(age - clock_offset) / 1000.0"  # in milliseconds


def figures(recording: Dataset, window: TimeWindow) -> dict[str, Any]:
    return {"pairs": list_pairs(recording), "subscribers": list_subscribers(recording), "nodes": name_nodes(recording)}


def list_pairs(recording: Dataset) -> dict[str, Any]:
    """Return the matrix, with the least delivered share first."""
    rows = recording.rows(
        """select publisher, publisher_role, subscriber, subscriber_role, cut(session) as session, matched, delivered, direct,
            share, bytes, age_p50 / 1000.0 as age_p50, age_p99 / 1000.0 as age_p99, age_max / 1000.0 as age_max,
            count(*) over () as total
        from matrix order by share nulls last, matched desc nulls last, delivered desc, publisher, subscriber, session
        limit $limit""",
        limit=PAIRS,
    )
    return to_list(rows)


def list_subscribers(recording: Dataset) -> dict[str, Any]:
    """Return the receiving nodes with what they received of all publishers."""
    rows = recording.rows(
        f"""with received as (
            select subscriber, case when subscriber is null then session end as session,
                quantile_disc({AGE}, [0.5, 0.99]) as ages, max({AGE}) as age_max
            from deliveries group by all
        ),
        wanted as (
            select subscriber, list(distinct key order by key) as keys from subscriptions where key is not null group by subscriber
        ),
        summed as (
            select subscriber, max(subscriber_role) as role, session, sum(matched)::bigint as matched,
                sum(delivered)::bigint as delivered, sum(bytes)::bigint as bytes,
                sum(delivered - direct) filter (where share is not null)
                    / nullif(sum(matched - direct) filter (where share is not null), 0) as share
            from matrix group by subscriber, session
        )
        select summed.subscriber, role, cut(summed.session) as session, matched, delivered, share, bytes,
            ages[1] as age_p50, ages[2] as age_p99, age_max,
            list_transform(keys[:{KEYS_OF_NODE}], lambda each: cut(each)) as keys, coalesce(len(keys), 0) as keys_total,
            count(*) over () as total
        from summed
        left join received on received.subscriber is not distinct from summed.subscriber
            and received.session is not distinct from summed.session
        left join wanted on wanted.subscriber = summed.subscriber
        order by share nulls last, delivered desc, summed.subscriber, summed.session limit $limit""",
        limit=SUBSCRIBERS,
    )
    return to_list(rows)


def name_nodes(recording: Dataset) -> dict[str, list[str]]:
    """Return the most frequent keys of each publisher, by which people recognise it."""
    rows = recording.rows(
        f"""with counted as (
            select publisher, named(key, unresolved_key) as key, count(*) as n from publications
            where publisher is not null group by all
        )
        select publisher, list(key order by n desc, key)[:{KEYS_OF_NODE}] as keys from counted
        group by publisher order by sum(n) desc, publisher limit $limit""",
        limit=NODES,
    )
    return {row["publisher"]: row["keys"] for row in rows}
