# SPDX-License-Identifier: Apache-2.0
"""Missing and undecodable data: by cause, by lane, by source, by the recording's notes, and byte by byte."""

from typing import Any

from zenlake.report.dataset import Dataset
from zenlake.report.sections.time_window import TimeWindow
from zenlake.wire.explain import explain

LANES = 200
SOURCES = 200
RUNS = 100
NOTES = 100
ERRORS = 20
MAX_EXPLAINED_BYTES = 1024
MAX_EXPLAINED_LINES = 80

LOSSES = ("network", "sender", "router")  # causes that are losses

# Each loss once, and the drops of a recording router. Drops that left gaps of publishers are counted as gaps only.
_MISSING = """create or replace temp table missing as
with router_gaps as (
    select log, writer, session, sum(missing) as missing from gaps where cause = 'router' and not repeated group by all
),
drops as (
    select min(received) as received, log, writer, session, sum(count) as dropped from events
    where kind = 'dropped' group by log, writer, session
)
select received, cause, case scope when 'lane' then 'frames' else 'samples' end as unit, missing from gaps where not repeated
union all
select received, 'router', 'messages', dropped - coalesce(missing, 0) from drops left join router_gaps
    on router_gaps.log is not distinct from drops.log and router_gaps.writer is not distinct from drops.writer
    and router_gaps.session = drops.session
where dropped > coalesce(missing, 0)"""


def figures(recording: Dataset, window: TimeWindow) -> dict[str, Any]:
    recording.rows(_MISSING)
    causes = recording.rows(
        """select cause, unit, sum(missing)::bigint as missing from missing group by all order by cause, unit"""
    )
    return {
        "causes": causes,
        "lost": sum(row["missing"] for row in causes if row["cause"] in LOSSES),
        "over_time": recording.rows(
            f"""select {window.bucket()} as t, cause, sum(missing)::bigint as missing from missing
            where cause <> 'skip' group by all order by t, cause"""
        ),
        "lanes": lanes(recording),
        "sources": sources(recording),
        "runs": runs(recording),
        "events": recording.rows(
            """select kind, count(*) as events, coalesce(sum(count), 0)::bigint as count from events
            where kind in ('duplicate', 'lost', 'redeclared') group by kind order by kind"""
        ),
        "dropped": list_drops(recording),
        "notes": notes(recording),
        "errors": errors(recording),
    }


def lanes(recording: Dataset) -> dict[str, Any]:
    rows = recording.rows(
        """with counted as (
            select log, writer, session, generation, direction, priority, reliable, count(*) as frames, 0 as missing, 0 as skipped
            from messages where type in ('FRAME', 'FRAGMENT') group by all
            union all
            select log, writer, session, generation, direction, priority, reliable, 0, sum(missing) filter (where cause <> 'skip'),
                sum(missing) filter (where cause = 'skip')
            from gaps where scope = 'lane' group by all
        ),
        summed as (
            select log, writer, session, generation, direction, priority, reliable, sum(frames)::bigint as frames,
                coalesce(sum(missing), 0)::bigint as missing, coalesce(sum(skipped), 0)::bigint as skipped
            from counted group by all
        )
        select cut(session) as session, generation, direction, priority, reliable, frames, missing, skipped,
            missing / nullif(frames + missing, 0) as share, count(*) over () as total
        from summed order by missing desc, frames desc, session, generation, direction, priority, reliable limit $limit""",
        limit=LANES,
    )
    return to_list(rows)


def sources(recording: Dataset) -> dict[str, Any]:
    rows = recording.rows(
        """with counted as (
            select log, writer, session, generation, direction, source_zid, source_eid, count(distinct source_sn) as samples,
                min(named(key, unresolved_key)) as key, count(distinct named(key, unresolved_key)) as keys, 0 as missing
            from samples where source_sn is not null and request_id is null group by all
            union all
            select log, writer, session, generation, direction, source_zid, source_eid, 0, null, 0, sum(missing)
            from gaps where scope = 'source' group by all
        ),
        summed as (
            select log, writer, session, generation, direction, source_zid, source_eid, sum(samples)::bigint as samples,
                min(key) as key, max(keys) as keys, sum(missing)::bigint as missing
            from counted group by all
        )
        select cut(session) as session, direction, source_zid, source_eid, key, keys, samples, missing,
            missing / (samples + missing) as share, count(*) over () as total
        from summed order by missing desc, samples desc, session, direction, source_zid, source_eid limit $limit""",
        limit=SOURCES,
    )
    return to_list(rows)


def runs(recording: Dataset) -> dict[str, Any]:
    rows = recording.rows(
        """select ms(received) as t, scope, cause, cut(session) as session, direction, priority, reliable, source_zid, first_sn,
            missing, count(*) over () as total
        from gaps where cause <> 'skip' and not repeated
        order by missing desc, received, scope, session, direction, first_sn limit $limit""",
        limit=RUNS,
    )
    return to_list(rows)


def list_drops(recording: Dataset) -> dict[str, Any]:
    """Return the messages that a recording node dropped, by slow neighbour."""
    rows = recording.rows(
        """select ms(received) as t, cut(session) as session, 0 as direction, count, cut(detail) as detail,
            count(*) over () as total
        from events where kind = 'dropped' order by count desc, received, session limit $limit""",
        limit=NOTES,
    )
    return to_list(rows)


def notes(recording: Dataset) -> dict[str, Any]:
    rows = recording.rows(
        """select case when starts_with(kind, 'capture ') then substr(kind, 9) else kind end as kind, count,
            cut(detail) as detail, cut(session) as session, cut(parse_filename(file)) as file, packet, count(*) over () as total
        from events where starts_with(kind, 'capture ') or starts_with(kind, 'log ')
        order by kind, file, packet, session limit $limit""",
        limit=NOTES,
    )
    return to_list(rows)


def errors(recording: Dataset) -> dict[str, Any]:
    """Return undecodable bytes: one example of each kind, explained up to the error."""
    rows = recording.rows(
        f"""with kinds as (
            select field, why, count(*) as times, min(received_ns) as first, arg_min(received, received_ns) as received,
                arg_min(session, received_ns) as session,
                arg_min(packet, received_ns) as packet, arg_min("at", received_ns) as "at",
                arg_min(bytes, received_ns)[:{MAX_EXPLAINED_BYTES}] as bytes, arg_min(octet_length(bytes), received_ns) as size,
                arg_min(generation, received_ns) as generation
            from errors group by field, why
        )
        select cut(kinds.field) as field, cut(kinds.why) as why, kinds.times, ms(kinds.received) as t,
            cut(kinds.session) as session, kinds.packet,
            kinds."at", kinds.size, kinds.bytes, coalesce(sessions.low_latency, false) as low_latency,
            count(*) over () as total
        from kinds left join sessions on sessions.session = kinds.session and sessions.generation = kinds.generation
        order by times desc, first, kinds.field limit $limit""",
        limit=ERRORS,
    )
    for row in rows:
        row["lines"] = explain_error(
            row.pop("bytes") or b"", row["session"].startswith("scouting/"), row.pop("low_latency")
        )
    return to_list(rows)


def explain_error(data: bytes, scouting: bool, low_latency: bool) -> list[tuple[str, str, str, str, str]]:
    """Return offset, bytes, name, text and kind of each line of `zenlake explain`. The last lines, with the error, are kept."""
    explained = explain(data, scouting=scouting, low_latency=low_latency and not scouting)
    lines = [(*line, row.kind) for row in explained.rows for line in row.lines()]
    return lines if len(lines) <= MAX_EXPLAINED_LINES else [("", "", "…", "", "note"), *lines[-MAX_EXPLAINED_LINES:]]


def to_list(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Convert rows that each carry the total into a list that has it once."""
    total = rows[0]["total"] if rows else 0
    for row in rows:
        del row["total"]
    return {"rows": rows, "total": total}
