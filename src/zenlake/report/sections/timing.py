# SPDX-License-Identifier: Apache-2.0
"""Old, overtaken and reordered samples, and the age of samples on receipt.

Age is the received time minus the sample's HLC time, so it includes the difference between two clocks. The age by receiver is
relative to the youngest sample of the same clock, which removes a constant difference. A sample is *overtaken* (`late`) if a
sample of the same key with a newer time of the same clock was received before it on the same leg. It is *reordered* if its
publisher's sequence number is lower than an earlier one.
"""

from typing import Any

from zenlake.report.dataset import Dataset
from zenlake.report.sections.losses import to_list
from zenlake.report.sections.time_window import TimeWindow

KEYS = 200
CLOCKS = 100
RECEIVERS = 200
EXAMPLES = 100

# Performance: computed once, because the window functions sort all samples. They carry only row numbers.
_DISORDER = """create or replace temp table passed as
with late as (
    select row, newest from (
        select rowid as row, epoch_us(timestamp) as stamp, max(epoch_us(timestamp)) over (
            partition by session, generation, direction, key, unresolved_key, timestamp_id
            order by received_ns, packet, index rows between unbounded preceding and 1 preceding) as newest
        from samples where timestamp is not null
    ) where stamp < newest
),
reordered as (
    select row, highest from (
        select rowid as row, source_sn, max(source_sn) over (
            partition by session, generation, direction, source_zid, source_eid
            order by received_ns, packet, index rows between unbounded preceding and 1 preceding) as highest
        from samples where source_sn is not null
    ) where source_sn < highest
)
select samples.*, (newest - epoch_us(timestamp)) / 1000.0 as behind_ms, highest, newest is not null as late,
    highest is not null as reordered
from late full join reordered using (row) join samples on samples.rowid = row"""
_AGE = "(epoch_us(received) - epoch_us(timestamp)) / 1000.0"


def figures(recording: Dataset, window: TimeWindow) -> dict[str, Any]:
    recording.rows(_DISORDER)
    result = recording.row(
        f"""select count(timestamp) as stamped, count(source_sn) as counted,
            (select count(*) from passed where late) as late, (select count(*) from passed where reordered) as reordered,
            count(*) filter (where {_AGE} < 0) as early,
            quantile_disc({_AGE}, 0.5) as age_p50, quantile_disc({_AGE}, 0.99) as age_p99, max({_AGE}) as age_most
        from samples"""
    )
    result["over_time"] = recording.rows(
        f"""select {window.bucket()} as t, count(*) as n, quantile_disc({_AGE}, 0.5) as p50, quantile_disc({_AGE}, 0.99) as p99
        from samples where timestamp is not null group by all order by t"""
    )
    result["keys"] = to_list(
        recording.rows(
            f"""with ages as (
                select named(key, unresolved_key) as key, count(timestamp) as stamped, min({_AGE}) as age_least,
                    quantile_disc({_AGE}, 0.5) as age_p50, quantile_disc({_AGE}, 0.99) as age_p99, max({_AGE}) as age_most
                from samples where timestamp is not null or source_sn is not null group by 1
            ),
            faults as (
                select named(key, unresolved_key) as key, count(*) as n, count(*) filter (where late) as late,
                    max(behind_ms) as latest_ms, count(*) filter (where reordered) as reordered
                from passed group by 1
            )
            select key, stamped, coalesce(late, 0) as late, latest_ms, coalesce(reordered, 0) as reordered,
                age_least, age_p50, age_p99, age_most, count(*) over () as total
            from ages left join faults using (key)
            order by coalesce(n, 0) desc, age_p99 desc nulls last, key limit $limit""",
            limit=KEYS,
        )
    )
    result["clocks"] = to_list(
        recording.rows(
            f"""select timestamp_id as clock, count(*) as samples, min({_AGE}) as age_least, quantile_disc({_AGE}, 0.5) as age_p50,
                max({_AGE}) as age_most, count(*) filter (where {_AGE} < 0) as early, count(*) over () as total
            from samples where timestamp is not null group by timestamp_id order by age_least, clock limit $limit""",
            limit=CLOCKS,
        )
    )
    result["receivers"] = to_list(
        recording.rows(
            f"""with clocks as (
                select timestamp_id, min({_AGE}) as least from samples where timestamp is not null group by timestamp_id
            ),
            ends as (
                select session, generation, 0 as direction, acceptor_zid as receiver, acceptor_role as role from sessions
                union all select session, generation, 1, opener_zid, opener_role from sessions
            ),
            arrived as (
                select {_AGE} - least as age_ms, coalesce(receiver, session) as receiver, role
                from samples join clocks using (timestamp_id) join ends using (session, generation, direction)
                where timestamp is not null and request_id is null
            )
            select cut(receiver) as receiver, count(*) as samples, quantile_disc(age_ms, 0.5) as age_p50,
                quantile_disc(age_ms, 0.99) as age_p99, max(age_ms) as age_most, count(*) over () as total
            from arrived where role is distinct from 'router'
            group by receiver order by age_most desc, receiver limit $limit""",
            limit=RECEIVERS,
        )
    )
    result["examples"] = to_list(
        recording.rows(
            """select ms(received) as t, named(key, unresolved_key) as key, behind_ms, late,
                reordered, source_sn, highest, cut(session) as session, direction, packet, count(*) over () as total
            from passed order by behind_ms desc nulls last, received, packet limit $limit""",
            limit=EXAMPLES,
        )
    )
    return result
