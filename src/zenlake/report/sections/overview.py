# SPDX-License-Identifier: Apache-2.0
"""Totals of the recording: publications, deliveries and queries of applications, losses, and hops."""

from typing import Any

from zenlake.report.dataset import Dataset
from zenlake.report.sections.time_window import TimeWindow

# Frames and fragments only carry messages. The bytes of a reassembled message are counted in its fragments.
IS_MESSAGE = "type not in ('FRAME', 'FRAGMENT')"
IS_ON_WIRE = "fragments is null"


def figures(recording: Dataset, window: TimeWindow) -> dict[str, Any]:
    result = recording.row(
        """select count(*) as publications, coalesce(sum(payload_size), 0)::bigint as published_bytes,
            count(distinct publisher) as publishers,
            count(*) filter (where kind = 'put' and payload_size is null) as in_shared_memory,
            count(*) filter (where key is null) as unresolved
        from publications"""
    )
    result |= recording.row(
        """select coalesce(sum(delivered), 0)::bigint as deliveries, coalesce(sum(bytes), 0)::bigint as delivered_bytes,
            count(distinct coalesce(subscriber, session)) as subscribers,
            sum(delivered - direct) filter (where share is not null)
                / nullif(sum(matched - direct) filter (where share is not null), 0) as share
        from matrix"""
    )
    result |= recording.row(
        """select count(*) as gets, count(*) filter (where outcome = 'answered') as answered,
            count(*) filter (where outcome in ('error', 'timeout', 'lost')) as failed,
            count(*) filter (where outcome = 'empty') as empty, count(*) filter (where outcome = 'open') as open
        from gets"""
    )
    result |= recording.row(
        f"""select
            count(*) filter (where {IS_MESSAGE}) as messages,
            coalesce(sum(size) filter (where {IS_ON_WIRE}), 0)::bigint as bytes
        from messages"""
    )
    result |= recording.row(
        "select count(*) as samples, count(request_id) as replies, count(distinct named(key, unresolved_key)) as keys from samples"
    )
    result |= recording.row("select count(*) as queries from queries")
    result |= recording.row(
        """select count(*) as sessions, count(*) filter (where encrypted) as encrypted,
            count(*) filter (where generation = 0 and not encrypted) as midway,
            count(*) filter (where closed is null and session in (select session from events where kind = 'disconnected')) as broken
        from sessions"""
    )
    result |= recording.row(
        """select count(distinct zid) as nodes from (
            select opener_zid as zid from sessions union all select acceptor_zid from sessions) where zid is not null"""
    )
    result |= recording.row("select count(*) as errors from errors")
    result |= recording.row("select count(*) filter (where kind = 'lost') as unfinished from events")
    result["types"] = recording.rows(
        """select type, body, count(*) as messages, sum(size)::bigint as bytes from messages
        group by all order by messages desc, type, body limit 60"""
    )
    return result
