# SPDX-License-Identifier: Apache-2.0
"""Liveliness over time: the spans in which each token was declared.

On one leg, the span of a token begins with its declaration. It ends with the first recorded entry of this list: its
undeclaration, the session's CLOSE, a disconnect seen by the recording node. Without these, it ends with the session's last message
if the silence after it is longer than the lease of that side. For the protocol, the session is dead from there. Otherwise it ends
with the recording. A token is visible on the leg of its own node and on those on which a router forwards it. The spans of all legs
are merged.
"""

from typing import Any

from zenlake.report.dataset import Dataset
from zenlake.report.sections.time_window import TimeWindow

TOKENS = 60
SPANS = 1000

_SPANS = """with tokens as (
    select session, generation, direction, id, action, received, received_ns, packet, index, named(key, unresolved_key) as key,
        count(*) filter (where action = 'declare') over (
            partition by session, generation, direction, id order by received_ns, packet, index) as turn
    from declarations where kind = 'token' and (id is not null)
),
spoken as (
    select session, generation, direction, id, turn,
        min(key) filter (where action = 'declare') as key,
        min(received) filter (where action = 'declare') as begun,
        min(received) filter (where action = 'undeclare') as undeclared
    from tokens where turn > 0 group by all
),
broken as (select session, min(received) as broke from events where kind = 'disconnected' group by session),
ended as (
    select spoken.*, sessions.closed, sessions.last_received, broken.broke,
        sessions.last_received + to_milliseconds(coalesce(
            case spoken.direction when 0 then sessions.opener_lease_ms else sessions.acceptor_lease_ms end, 10000))
            < to_timestamp($last / 1e6) as silent
    from spoken left join sessions on sessions.session = spoken.session and sessions.generation = spoken.generation
        left join broken on broken.session = spoken.session
),
legs as (
    select key, begun,
        case when undeclared is not null then undeclared when closed is not null then closed
            when broke is not null then broke when silent then last_received else to_timestamp($last / 1e6) end as until,
        case when undeclared is not null then 'undeclared' when closed is not null then 'session closed'
            when broke is not null then 'connection broke' when silent then 'fell silent' else 'alive at the end' end as how
    from ended where begun is not null
),
marked as (
    select *, max(until) over (partition by key order by begun, until rows between unbounded preceding and 1 preceding) as reach
    from legs
),
islands as (
    select *, sum(case when reach is null or begun > reach then 1 else 0 end) over (
        partition by key order by begun, until rows unbounded preceding) as island
    from marked
),
spans as (
    select key, min(begun) as begun, max(until) as until, count(*) as legs,
        case when arg_max(how, until) = 'alive at the end' then 'alive at the end'
            when bool_or(how = 'connection broke') then 'connection broke'
            when bool_or(how = 'fell silent') then 'fell silent' else arg_max(how, until) end as how
    from islands group by key, island
)"""


def figures(recording: Dataset, window: TimeWindow) -> dict[str, Any]:
    total = recording.row(
        """select count(distinct named(key, unresolved_key)) as n from declarations
        where kind = 'token' and action = 'declare' and id is not null"""
    )["n"]
    rows = recording.rows(
        f"""{_SPANS},
        chosen as (select key from spans group by key order by min(begun), key limit $tokens)
        select key, ms(begun) as begun, ms(until) as until, how, legs from spans join chosen using (key)
        order by key, begun limit $spans""",
        last=window.last,
        tokens=TOKENS,
        spans=SPANS,
    )
    return {"spans": rows, "total": total}
