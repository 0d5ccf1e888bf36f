# SPDX-License-Identifier: Apache-2.0
"""Throughput over time, and its keys."""

from collections import Counter
from typing import Any

from zenlake.report.dataset import Dataset
from zenlake.report.sections.key_patterns import group_keys
from zenlake.report.sections.overview import IS_MESSAGE, IS_ON_WIRE
from zenlake.report.sections.time_window import TimeWindow

KEYS = 500
ACTIVE_KEYS = 24
GROUPED_KEYS = 10_000  # keys that are grouped for the chart of activity

# Categories of messages, in the order of the chart's layers.
CLASS = """case
    when type = 'PUSH' then 'publications'
    when type in ('REQUEST', 'RESPONSE', 'RESPONSE_FINAL') then 'queries and replies'
    when type in ('DECLARE', 'INTEREST') then 'declarations'
    when type = 'FRAGMENT' then 'fragments'
    else 'session and framing' end"""


def figures(recording: Dataset, window: TimeWindow) -> dict[str, Any]:
    return {
        "over_time": over_time(recording, window),
        "keys": keys(recording),
        "activity": activity(recording, window),
    }


def over_time(recording: Dataset, window: TimeWindow) -> list[dict[str, Any]]:
    return recording.rows(
        f"""select {window.bucket()} as t, {CLASS} as class,
            count(*) filter (where {IS_MESSAGE}) as messages,
            coalesce(sum(size) filter (where {IS_ON_WIRE}), 0)::bigint as bytes
        from messages group by all order by t, class"""
    )


def keys(recording: Dataset) -> dict[str, Any]:
    """Count a forwarded sample on its incoming leg and on each outgoing leg."""
    rows = recording.rows(
        """with legs as (
            select named(key, unresolved_key) as key, session, direction, count(*) as n, min(received) as first,
                max(received) as last
            from samples group by all
        ),
        paced as (
            select key, count(*) as legs, median((n - 1) / nullif(epoch_us(last) - epoch_us(first), 0) * 1e6) as hz
            from legs group by key
        ),
        summed as (
            select named(key, unresolved_key) as key, count(*) as samples,
                count(*) filter (where request_id is not null) as replies,
                coalesce(sum(payload_size), 0)::bigint as bytes,
                max(payload_size) as largest,
                ms(min(received)) as first, ms(max(received)) as last,
                cut(string_agg(distinct encoding, ', ' order by encoding)) as encodings
            from samples group by 1
        )
        select summed.*, paced.legs, paced.hz from summed join paced using (key)
        order by bytes desc, samples desc, key limit $limit""",
        limit=KEYS,
    )
    total = recording.row("select count(distinct named(key, unresolved_key)) as n from samples")["n"]
    return {"rows": rows, "total": total}


def activity(recording: Dataset, window: TimeWindow) -> dict[str, Any]:
    """Return the number of samples per step for the busiest keys. Steps without samples are visible.

    Keys that differ in one chunk are one row if there are more keys than rows.
    """
    counted_keys = recording.rows(
        """select named(key, unresolved_key) as key, count(*) as n from samples
        group by 1 order by n desc, key limit $limit""",
        limit=GROUPED_KEYS,
    )
    groups = group_keys((row["key"] for row in counted_keys), ACTIVE_KEYS)
    counts: Counter[str] = Counter()
    for row in counted_keys:
        counts[groups[row["key"]]] += row["n"]
    busiest = {group for group, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:ACTIVE_KEYS]}
    members = [(key, group) for key, group in groups.items() if group in busiest]
    rows = recording.rows(
        f"""with members as (select unnest($keys) as name, unnest($groups) as key)
        select {window.bucket()} as t, members.key as key, count(*) as samples
        from samples join members on members.name = named(samples.key, unresolved_key) group by all order by t, members.key""",
        keys=[key for key, _ in members],
        groups=[group for _, group in members],
    )
    return {"keys": sorted(busiest), "total": len(counts), "rows": rows}
