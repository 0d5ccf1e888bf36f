# SPDX-License-Identifier: Apache-2.0
"""Comparison of two recordings of the same time: publications sent in the first (A) and received in the second (B).

A publication with a source is identified by its publisher's sequence number. Without a source, it is identified by its HLC time
and key. Without a timestamp, it is identified by its key, its payload and the number of earlier equal payloads on its leg. Within
a recording, the legs of one publication count once. Routers add missing timestamps. A publication with a timestamp in only
one recording, or on only one leg, is therefore matched by key and payload.

Publications that A sent while B was not recording are counted separately. The clocks are aligned by the median delay of
the matched publications. A key that was declared before a recording began is unknown there. Such samples are matched by
sequence number only, and the page shows their number.
"""

from typing import Any

from zenlake.report.dataset import rows
from zenlake.report.sections.time_window import STEPS, round_step

KEYS = 300
MISSING = 200

# Publications of one recording: `sure` identifies one exactly, `alike` by its content.
_PUBLICATIONS = """create or replace temp table {0}_publications as
with counted as (
    select received, key, unresolved_key, kind, payload, preview, payload_size,
        named(key, unresolved_key) as name, session, direction, packet, source_zid, source_eid, source_sn, ntp64, timestamp_id,
        row_number() over (
            partition by session, direction, key, unresolved_key, kind, payload,
                source_sn is null and ntp64 is null order by received_ns, packet, index) as nth
    from {0}.samples where request_id is null
),
known as (
    select *,
        case
            when source_sn is not null then 's' || source_zid || '/' || source_eid || '/' || source_sn
            when ntp64 is not null then 't' || ntp64 || '/' || timestamp_id || '/' || name end as sure,
        name || ' ' || kind || ' ' || coalesce(payload::varchar, '') as alike
    from counted
),
once as (
    select coalesce(sure, 'p' || nth || '/' || alike) as id, any_value(sure) as sure, any_value(alike) as alike,
        min(received) as received, any_value(name) as name, any_value(preview) as preview, any_value(payload_size) as size,
        min(nth) as nth, count(*) as legs
    from known group by 1
),
stamped as (
    select alike, count(*) as n from once where sure is not null group by alike
)
select once.* from once left join stamped using (alike) where sure is not null or once.nth > coalesce(stamped.n, 0)"""

_MATCHED = """create or replace temp table matched as
with exact as (
    select a.id as a_id, b.id as b_id, case when a.sure[1] = 's' then 'source' else 'timestamp' end as by_what
    from a_publications a join b_publications b on a.sure = b.sure
),
a_left as (
    select *, row_number() over (partition by alike order by received, id) as turn from a_publications
    where id not in (select a_id from exact)
),
b_left as (
    select *, row_number() over (partition by alike order by received, id) as turn from b_publications
    where id not in (select b_id from exact)
),
alike as (
    select a.id as a_id, b.id as b_id, 'key and value' as by_what
    from a_left a join b_left b on a.alike = b.alike and a.turn = b.turn and (a.sure is null or b.sure is null)
),
pairs as (from exact union all from alike)
select pairs.*, a.name, epoch_us(a.received) as a_us, epoch_us(b.received) as b_us
from pairs join a_publications a on a.id = a_id join b_publications b on b.id = b_id"""

_FATES = """create or replace temp table judged as
select publications.*, matched.by_what, (matched.b_us - matched.a_us) / 1000.0 as delay_ms,
    case when matched.a_id is not null then 'seen'
        when epoch_us(received) + $shift between $first and $last then 'missing' else 'outside' end as fate
from a_publications publications left join matched on matched.a_id = publications.id"""


def figures(engine: Any, a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """Compute the comparison. Only the names and windows of the figures `a` and `b` are used."""
    for side in "ab":
        engine.execute(_PUBLICATIONS.format(side))
    engine.execute(_MATCHED)
    [delay] = rows(
        engine,
        """select count(*) as n, quantile_disc(d, 0.5) as p50, quantile_disc(d, 0.99) as p99, min(d) as least, max(d) as most
        from (select (b_us - a_us) / 1000.0 as d from matched)""",
    )
    span = {name: int(b["window"][name] * 1000) for name in ("first", "last")}
    engine.execute(_FATES, {"shift": int((delay["p50"] or 0) * 1000), **span})
    step = round_step((a["window"]["last"] - a["window"]["first"]) * 1000 / STEPS)
    [totals] = rows(
        engine,
        """select count(*) as sent, count(*) filter (where fate = 'seen') as seen,
            count(*) filter (where fate = 'missing') as missing, count(*) filter (where fate = 'outside') as outside,
            (select count(*) from b_publications where id not in (select b_id from matched)) as only_b,
            (select count(*) from b_publications) as in_b
        from judged""",
    )
    return {
        "names": [a["name"], b["name"]],
        "unresolved": [a["overview"]["unresolved"], b["overview"]["unresolved"]],
        "totals": totals,
        "delay": delay,
        "step": step / 1000,
        "by_what": rows(engine, "select by_what, count(*) as n from matched group by 1 order by n desc, by_what"),
        "over_time": rows(
            engine,
            f"""select (epoch_us(received) // {step}) * {step} / 1000.0 as t, fate, count(*) as n from judged
            group by all order by t, fate""",
        ),
        "keys": {
            "rows": rows(
                engine,
                """with sent as (
                    select name, count(*) as sent, count(*) filter (where fate = 'seen') as seen,
                        count(*) filter (where fate = 'missing') as missing, count(*) filter (where fate = 'outside') as outside,
                        quantile_disc(delay_ms, 0.5) as delay_p50, quantile_disc(delay_ms, 0.99) as delay_p99
                    from judged group by name
                ),
                other as (
                    select name, count(*) as only_b from b_publications where id not in (select b_id from matched) group by name
                )
                select name as key, coalesce(sent, 0) as sent, coalesce(seen, 0) as seen, coalesce(missing, 0) as missing,
                    coalesce(outside, 0) as outside, coalesce(only_b, 0) as only_b, delay_p50, delay_p99
                from sent full join other using (name) order by missing desc, only_b desc, sent desc, key limit $limit""",
                limit=KEYS,
            ),
            "total": rows(
                engine,
                "select count(distinct name) as n from (select name from a_publications union all select name from b_publications)",
            )[0]["n"],
        },
        "missing": {
            "rows": [
                {**row, "preview": format_preview(row["preview"])}
                for row in rows(
                    engine,
                    """select epoch_us(received) / 1000.0 as t, name as key, size, preview from judged where fate = 'missing'
                    order by t, key limit $limit""",
                    limit=MISSING,
                )
            ],
            "total": totals["missing"],
        },
    }


def format_preview(value: bytes | None) -> str:
    """Return the first bytes of a payload as text if possible, otherwise in hexadecimal."""
    if value is None:
        return ""
    text = value.decode("utf-8", "ignore")
    return text if text.isprintable() and len(text.encode()) >= len(value) - 3 else value[:24].hex(" ")
