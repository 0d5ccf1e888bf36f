# SPDX-License-Identifier: Apache-2.0
"""Publications, deliveries and gets over time, the messages of all hops, and the keys."""

from collections import Counter, defaultdict
from typing import Any

from zenlake.report.dataset import Dataset
from zenlake.report.sections.key_patterns import group_keys
from zenlake.report.sections.overview import IS_MESSAGE, IS_ON_WIRE
from zenlake.report.sections.time_window import TimeWindow

KEYS = 500
LARGEST_GROUPS = 14
ACTIVE_GROUPS = 24
GROUPED_KEYS = 10_000  # keys that are grouped, the most frequent first

# Categories of messages, in the order of the chart's layers.
CLASS = """case
    when type = 'PUSH' then 'publications'
    when type in ('REQUEST', 'RESPONSE', 'RESPONSE_FINAL') then 'queries and replies'
    when type in ('DECLARE', 'INTEREST') then 'declarations'
    when type = 'FRAGMENT' then 'fragments'
    else 'session and framing' end"""

# Totals of each key. The rate is the median over the hops into the first recorded node, while the key was published there.
_KEY_TOTALS = """create or replace temp table key_totals as
with hops_of_key as (
    select key, unresolved_key, count(*) as hops, count(request_id) as replies, min(received) as first, max(received) as last,
        list(distinct encoding) filter (where encoding is not null) as encodings
    from samples group by key, unresolved_key
),
legs as (
    select key, unresolved_key, count(*) as n, sum(payload_size) as bytes, max(payload_size) as largest, min(received) as first,
        max(received) as last
    from publications group by log, writer, session, direction, key, unresolved_key
),
published as (
    select key, unresolved_key, sum(n) as publications, sum(bytes) as bytes, max(largest) as largest,
        median((n - 1) / nullif(epoch_us(last) - epoch_us(first), 0) * 1e6) as hz
    from legs group by key, unresolved_key
),
received as (
    select key, unresolved_key, count(*) as deliveries from deliveries group by key, unresolved_key
),
summed as (
    select key, unresolved_key, sum(hops) as hops, sum(replies) as replies, sum(publications) as publications, sum(bytes) as bytes,
        max(largest) as largest, max(hz) as hz, sum(deliveries) as deliveries, min(first) as first, max(last) as last,
        flatten(list(encodings)) as encodings
    from (from hops_of_key union all by name from published union all by name from received)
    group by key, unresolved_key
)
select named(key, unresolved_key) as name, sum(hops)::bigint as hops, sum(replies)::bigint as replies,
    coalesce(sum(publications), 0)::bigint as publications, coalesce(sum(bytes), 0)::bigint as bytes, max(largest) as largest,
    max(hz) as hz, coalesce(sum(deliveries), 0)::bigint as deliveries, ms(min(first)) as first, ms(max(last)) as last,
    cut(array_to_string(list_sort(list_distinct(flatten(list(encodings)))), ', ')) as encodings
from summed group by name"""


def figures(recording: Dataset, window: TimeWindow) -> dict[str, Any]:
    recording.rows(_KEY_TOTALS)
    return {
        "applications": count_over_time(recording, window),
        "over_time": over_time(recording, window),
        "keys": keys(recording),
        "groups": groups(recording),
        "activity": activity(recording, window),
    }


def count_over_time(recording: Dataset, window: TimeWindow) -> list[dict[str, Any]]:
    """Return publications and deliveries per step, and gets by outcome."""
    return recording.rows(
        f"""with counted as (
            select {window.bucket()} as t, 'publications' as of, '' as outcome, count(*) as n from publications group by all
            union all
            select {window.bucket()}, 'deliveries', '', count(*) from deliveries group by all
            union all
            select {window.bucket()}, 'gets', outcome, count(*) from gets group by all
        )
        from counted order by t, of, outcome"""
    )


def over_time(recording: Dataset, window: TimeWindow) -> list[dict[str, Any]]:
    return recording.rows(
        f"""select {window.bucket()} as t, {CLASS} as class,
            count(*) filter (where {IS_MESSAGE}) as messages,
            coalesce(sum(size) filter (where {IS_ON_WIRE}), 0)::bigint as bytes
        from messages group by all order by t, class"""
    )


def keys(recording: Dataset) -> dict[str, Any]:
    """Return what was published on each key, and the hops."""
    rows = recording.rows(
        "from key_totals order by bytes desc, publications desc, hops desc, name limit $limit", limit=KEYS
    )
    return {
        "rows": [{"key": row.pop("name"), **row} for row in rows],
        "total": recording.row("select count(*) as n from key_totals")["n"],
    }


def groups(recording: Dataset) -> dict[str, Any]:
    """Return publications and bytes by group of keys that differ in one chunk."""
    counted_keys = frequent_keys(recording)
    summed: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for key, group in group_keys(counted_keys, LARGEST_GROUPS).items():
        row = counted_keys[key]
        summed[group].update({"keys": 1, "publications": row["publications"], "bytes": row["bytes"]})
    rows: list[dict[str, Any]] = [{"key": group, **sums} for group, sums in summed.items()]
    largest: dict[str, dict[str, Any]] = {}
    for field in ("bytes", "publications"):
        rows.sort(key=lambda row: (-row[field], row["key"]))
        largest |= {row["key"]: row for row in rows[:LARGEST_GROUPS]}
    return {"rows": list(largest.values()), "total": len(rows)}


def activity(recording: Dataset, window: TimeWindow) -> dict[str, Any]:
    """Return the number of publications per step for the busiest groups of keys. Steps without publications are visible.

    Keys that differ in one chunk are one row if there are more keys than rows.
    """
    counted_keys = frequent_keys(recording)
    groups = group_keys(counted_keys, ACTIVE_GROUPS)
    counts: Counter[str] = Counter()
    for key, group in groups.items():
        counts[group] += counted_keys[key]["publications"]
    busiest = {group for group, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:ACTIVE_GROUPS]}
    members = [(key, group) for key, group in groups.items() if group in busiest]
    rows = recording.rows(
        f"""with members as (select unnest($keys) as name, unnest($groups) as key)
        select {window.bucket()} as t, members.key as key, count(*) as publications
        from publications join members on members.name = named(publications.key, unresolved_key)
        group by all order by t, members.key""",
        keys=[key for key, _ in members],
        groups=[group for _, group in members],
    )
    return {"keys": sorted(busiest), "total": len(counts), "rows": rows}


def frequent_keys(recording: Dataset) -> dict[str, dict[str, Any]]:
    """Return publications and bytes of the published keys, the most frequent first."""
    rows = recording.rows(
        """select name, publications, bytes from key_totals where publications > 0
        order by publications desc, name limit $limit""",
        limit=GROUPED_KEYS,
    )
    return {row["name"]: row for row in rows}
