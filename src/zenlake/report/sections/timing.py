# SPDX-License-Identifier: Apache-2.0
"""Age of deliveries, latency of hops, and overtaken and reordered publications.

A publication is *overtaken* if a newer one of the same key and clock was received before it on the same hop. It is *reordered* if
its publisher's sequence number is lower than an earlier one. An old publication is neither if all publications before it were as
old.
"""

from typing import Any

from zenlake.report.dataset import Dataset
from zenlake.report.sections.deliveries import AGE
from zenlake.report.sections.losses import to_list
from zenlake.report.sections.time_window import TimeWindow

KEYS = 200
CLOCKS = 100
EXAMPLES = 100
HOPS = 100

_FROM_CLOCK = "(epoch_us(received) - epoch_us(timestamp)) / 1000.0"


def figures(recording: Dataset, window: TimeWindow) -> dict[str, Any]:
    result = recording.row(
        f"""select count(age) as aged, quantile_disc({AGE}, [0.5, 0.99]) as ages, max({AGE}) as age_max,
            count(*) filter (where age < 0) as early
        from deliveries"""
    )
    result["age_p50"], result["age_p99"] = result.pop("ages") or (None, None)
    result |= recording.row(
        """select count(distinct publication) filter (where overtaken) as overtaken,
            count(distinct publication) filter (where reordered) as reordered, count(*) as hops
        from disorder"""
    )
    result |= recording.row(
        "select count(timestamp) as stamped, count(source_sn) as counted from samples where request_id is null"
    )
    result["over_time"] = recording.rows(
        f"""with steps as (
            select {window.bucket()} as t, count(*) as n, quantile_disc({AGE}, [0.5, 0.99]) as ages
            from deliveries where age is not null group by all
        )
        select t, n, ages[1] as p50, ages[2] as p99 from steps order by t"""
    )
    result["keys"] = to_list(
        recording.rows(
            f"""with aged as (
                select named(key, unresolved_key) as key, count(age) as deliveries, quantile_disc({AGE}, [0.5, 0.99]) as ages,
                    min({AGE}) as age_min, max({AGE}) as age_max
                from deliveries group by 1
            ),
            faults as (
                select named(key, unresolved_key) as key, count(*) as n,
                    count(distinct publication) filter (where overtaken) as overtaken, max(behind_ms) as behind_ms,
                    count(distinct publication) filter (where reordered) as reordered
                from disorder group by 1
            )
            select key, coalesce(deliveries, 0) as deliveries, coalesce(overtaken, 0) as overtaken, behind_ms,
                coalesce(reordered, 0) as reordered, age_min, ages[1] as age_p50, ages[2] as age_p99, age_max,
                count(*) over () as total
            from aged full join faults using (key) where deliveries > 0 or n > 0
            order by coalesce(n, 0) desc, age_max desc nulls last, key limit $limit""",
            limit=KEYS,
        )
    )
    result["clocks"] = to_list(
        recording.rows(
            f"""select timestamp_id as clock, count(*) as samples, min({_FROM_CLOCK}) as age_min, max({_FROM_CLOCK}) as age_max,
                count(*) filter (where {_FROM_CLOCK} < 0) as early, count(*) over () as total
            from samples where timestamp is not null and request_id is null
            group by timestamp_id order by age_min, clock limit $limit""",
            limit=CLOCKS,
        )
    )
    result["examples"] = to_list(
        recording.rows(
            """select ms(received) as t, named(key, unresolved_key) as key, behind_ms, overtaken,
                reordered, source_sn, highest, cut(session) as session, direction, packet, count(*) over () as total
            from disorder order by behind_ms desc nulls last, received, packet limit $limit""",
            limit=EXAMPLES,
        )
    )
    result["latencies"] = to_list(
        recording.rows(
            """select from_node, from_point, to_node, to_point, cut(session) as session, samples,
                latency_min_us / 1000.0 as latency_min, latency_p50_us / 1000.0 as latency_p50,
                latency_p99_us / 1000.0 as latency_p99, latency_max_us / 1000.0 as latency_max, count(*) over () as total
            from hops order by latency_p99_us desc, samples desc, from_node, to_node, session limit $limit""",
            limit=HOPS,
        )
    )
    return result
