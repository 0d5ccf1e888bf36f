# SPDX-License-Identifier: Apache-2.0
"""Gets: latency, and slow or failed ones."""

from typing import Any

from zenlake.report.dataset import Dataset
from zenlake.report.sections.time_window import TimeWindow

SLOWEST = 100
KEYS = 200
ERRORS = 100
BINS_PER_DECADE = 5

_QUANTILES = """quantile_disc({0}, 0.5) as p50, quantile_disc({0}, 0.9) as p90, quantile_disc({0}, 0.99) as p99, max({0}) as most"""


def figures(recording: Dataset, window: TimeWindow) -> dict[str, Any]:
    return {
        "outcomes": recording.rows(
            "select outcome, count(*) as gets from gets group by outcome order by gets desc, outcome"
        ),
        "first_reply": recording.row(
            f"select count(first_reply_ms) as n, {_QUANTILES.format('first_reply_ms')} from gets"
        ),
        "latency": recording.row(f"select count(latency_ms) as n, {_QUANTILES.format('latency_ms')} from gets"),
        "histogram": histogram(recording),
        "over_time": recording.rows(
            f"""select {window.bucket()} as t, count(*) as n, quantile_disc(latency_ms, 0.5) as p50, max(latency_ms) as most
            from gets where latency_ms is not null group by all order by t"""
        ),
        "keys": {
            "rows": recording.rows(
                f"""select named(key, unresolved_key) as key, count(*) as gets, sum(replies)::bigint as replies,
                    sum(errors)::bigint as errors, count(*) filter (where outcome not in ('answered', 'error')) as unanswered,
                    {_QUANTILES.format("latency_ms")}
                from gets group by 1 order by gets desc, key limit $limit""",
                limit=KEYS,
            ),
            "total": recording.row("select count(distinct named(key, unresolved_key)) as n from gets")["n"],
        },
        "slowest": {
            "rows": recording.rows(
                """select ms(received) as t, querier, named(key, unresolved_key) as key, cut(parameters) as parameters, outcome,
                    replies, errors, hops, first_reply_ms, latency_ms, timeout_ms, cut(error) as error, cut(session) as session,
                    direction, packet
                from gets order by outcome in ('answered', 'empty'), latency_ms desc nulls first, received, session, request_id
                limit $limit""",
                limit=SLOWEST,
            ),
            "total": recording.row("select count(*) as n from gets")["n"],
        },
        "errors": recording.rows(
            """select named(key, unresolved_key) as key, cut(error) as error, count(*) as gets from gets
            where error is not null group by all order by gets desc, key, error limit $limit""",
            limit=ERRORS,
        ),
    }


def histogram(recording: Dataset) -> list[dict[str, Any]]:
    """Return a histogram of latencies with logarithmic bins. Latencies below a microsecond count as one microsecond."""
    return recording.rows(
        f"""select floor(round(log10(greatest(latency_ms, 0.001)) * {BINS_PER_DECADE}, 9))::int as bin, outcome, count(*) as gets
        from gets where latency_ms is not null group by all order by bin, outcome"""
    )
