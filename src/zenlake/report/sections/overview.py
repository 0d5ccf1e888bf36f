# SPDX-License-Identifier: Apache-2.0
"""Totals of the recording and its losses, for the top of the page."""

from typing import Any

from zenlake.report.dataset import Dataset
from zenlake.report.sections.time_window import TimeWindow

# Frames and fragments only carry messages. The bytes of a reassembled message are counted in its fragments.
IS_MESSAGE = "type not in ('FRAME', 'FRAGMENT')"
IS_ON_WIRE = "fragments is null"


def figures(recording: Dataset, window: TimeWindow) -> dict[str, Any]:
    result = recording.row(
        f"""select
            count(*) filter (where {IS_MESSAGE}) as messages,
            coalesce(sum(size) filter (where {IS_ON_WIRE}), 0)::bigint as bytes
        from messages"""
    )
    result |= recording.row(
        """select
            count(*) as samples,
            count(*) filter (where request_id is not null) as replies,
            coalesce(sum(payload_size), 0)::bigint as payload_bytes,
            count(distinct named(key, unresolved_key)) as keys,
            count(*) filter (where key is null) as unresolved
        from samples"""
    )
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
    result |= recording.row("select count(*) as queries from queries")
    result |= recording.row(
        """with legs as (
            select source_zid, source_eid, sum(missing) as missing from gaps where scope = 'source'
            group by source_zid, source_eid, session, generation, direction
        ),
        sources as (select max(missing) as missing from legs group by source_zid, source_eid)
        select
            (select coalesce(sum(missing), 0)::bigint from gaps where scope = 'lane' and not harmless) as lost_frames,
            (select coalesce(sum(missing), 0)::bigint from sources) as lost_samples  -- not again on each leg that lacks them"""
    )
    result |= recording.row("select count(*) as errors from errors")
    result |= recording.row(
        """select count(*) filter (where kind = 'lost') as lost_messages,
            coalesce(sum(count) filter (where kind = 'dropped'), 0)::bigint as dropped from events"""
    )
    result["types"] = recording.rows(
        """select type, body, count(*) as messages, sum(size)::bigint as bytes from messages
        group by all order by messages desc, type, body limit 60"""
    )
    return result
