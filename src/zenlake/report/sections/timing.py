# SPDX-License-Identifier: Apache-2.0
"""Late and reordered samples, and the age of samples on receipt.

Age is the received time minus the sample's HLC time, so it includes the difference between two clocks. A sample is *late* if
a sample of the same key with a newer time of the same clock was received before it on the same leg. It is *reordered* if its
publisher's sequence number is lower than an earlier one.
"""

from typing import Any

from zenlake.report.dataset import Dataset
from zenlake.report.sections.losses import list_losses
from zenlake.report.sections.time_window import TimeWindow

KEYS = 200
CLOCKS = 100
EXAMPLES = 100

_PASSED = """with ordered as (
    select *,
        max(epoch_us(timestamp)) over (
            partition by session, generation, direction, key, unresolved_key, timestamp_id
            order by received_ns, packet, index rows between unbounded preceding and 1 preceding) as newest,
        max(source_sn) over (
            partition by session, generation, direction, source_zid, source_eid
            order by received_ns, packet, index rows between unbounded preceding and 1 preceding) as highest
    from samples
),
judged as (
    select *,
        (epoch_us(received) - epoch_us(timestamp)) / 1000.0 as age_ms,
        timestamp is not null and coalesce(epoch_us(timestamp) < newest, false) as late,
        source_sn is not null and coalesce(source_sn < highest, false) as reordered
    from ordered
)"""


def figures(recording: Dataset, window: TimeWindow) -> dict[str, Any]:
    result = recording.row(
        f"""{_PASSED}
        select count(timestamp) as stamped, count(*) filter (where late) as late, count(source_sn) as counted,
            count(*) filter (where reordered) as reordered, count(*) filter (where age_ms < 0) as early,
            quantile_disc(age_ms, 0.5) as age_p50, quantile_disc(age_ms, 0.99) as age_p99, max(age_ms) as age_most
        from judged"""
    )
    result["over_time"] = recording.rows(
        f"""select {window.bucket()} as t, count(*) as n,
            quantile_disc((epoch_us(received) - epoch_us(timestamp)) / 1000.0, 0.5) as p50,
            quantile_disc((epoch_us(received) - epoch_us(timestamp)) / 1000.0, 0.99) as p99
        from samples where timestamp is not null group by all order by t"""
    )
    result["keys"] = list_losses(
        recording.rows(
            f"""{_PASSED}
            select named(key, unresolved_key) as key, count(timestamp) as stamped, count(*) filter (where late) as late,
                max((newest - epoch_us(timestamp)) / 1000.0) filter (where late) as latest_ms,
                count(*) filter (where reordered) as reordered,
                min(age_ms) as age_least, quantile_disc(age_ms, 0.5) as age_p50, quantile_disc(age_ms, 0.99) as age_p99,
                max(age_ms) as age_most, count(*) over () as total
            from judged where timestamp is not null or source_sn is not null
            group by 1 order by count(*) filter (where late or reordered) desc, age_p99 desc nulls last, key limit $limit""",
            limit=KEYS,
        )
    )
    result["clocks"] = list_losses(
        recording.rows(
            """with ages as (
                select timestamp_id, (epoch_us(received) - epoch_us(timestamp)) / 1000.0 as age_ms from samples
                where timestamp is not null
            )
            select timestamp_id as clock, count(*) as samples, min(age_ms) as age_least, quantile_disc(age_ms, 0.5) as age_p50,
                max(age_ms) as age_most, count(*) filter (where age_ms < 0) as early, count(*) over () as total
            from ages group by timestamp_id order by age_least, clock limit $limit""",
            limit=CLOCKS,
        )
    )
    result["examples"] = list_losses(
        recording.rows(
            f"""{_PASSED}
            select ms(received) as t, named(key, unresolved_key) as key, (newest - epoch_us(timestamp)) / 1000.0 as behind_ms, late,
                reordered, source_sn, highest, cut(session) as session, direction, packet, count(*) over () as total
            from judged where late or reordered order by behind_ms desc nulls last, received, packet limit $limit""",
            limit=EXAMPLES,
        )
    )
    return result
