# SPDX-License-Identifier: Apache-2.0
"""Sessions and their topology."""

from typing import Any

from zenlake.core.releases import known_incompatibilities
from zenlake.report.dataset import Dataset
from zenlake.report.sections.time_window import TimeWindow

SESSIONS = 300
NODES = 60

# Both ends of each session: by node id if the handshake was recorded, otherwise by address.
_ENDS = """with broken as (
    select session, min(received) as broke, min(detail) as why from events where kind = 'disconnected' group by session
),
ends as (
    select sessions.*, broken.broke, broken.why,
        split_part(substr(sessions.session, length(protocol) + 2), '->', 1) as opener_address,
        split_part(split_part(substr(sessions.session, length(protocol) + 2), '->', 2), '#', 1) as acceptor_address
    from sessions left join broken on broken.session = sessions.session
),
pairs as (
    select *,
        coalesce(opener_zid, opener_address) as opener,
        coalesce(acceptor_zid, acceptor_address) as acceptor,
        coalesce(opener_role, 'unknown') as opener_is,
        coalesce(acceptor_role, case when protocol = 'multicast' then 'group' else 'unknown' end) as acceptor_is
    from ends
)"""


def figures(recording: Dataset, window: TimeWindow) -> dict[str, Any]:
    total = recording.row("select count(*) as n from sessions")["n"]
    return {**topology(recording), "list": {"rows": list_sessions(recording), "total": total}}


def topology(recording: Dataset) -> dict[str, Any]:
    nodes = recording.rows(
        f"""{_ENDS},
        spoke as (
            select opener as node, opener_is as role, opener_release as release, opener_address as address, session,
                opener_bytes as out, acceptor_bytes as back from pairs
            union all
            select acceptor, acceptor_is, acceptor_release, acceptor_address, session, acceptor_bytes, opener_bytes from pairs
        ),
        said as (
            select publisher as node, named(key, unresolved_key) as key, count(*) as n from publications
            where publisher is not null group by all
        ),
        voices as (
            select node, list(key order by n desc, key)[:3] as keys from said group by node
        )
        select cut(spoke.node) as node, max(role) as role, cut(max(release)) as release, cut(min(address)) as address,
            count(*) as sessions,
            coalesce(sum(out), 0)::bigint as sent, coalesce(sum(back), 0)::bigint as heard, any_value(voices.keys) as keys
        from spoke left join voices on voices.node = spoke.node
        group by spoke.node order by sum(out) + sum(back) desc nulls last, spoke.node limit $limit""",
        limit=NODES,
    )
    for node in nodes:
        node["incompatibilities"] = known_incompatibilities(node["release"])
    edges = recording.rows(
        f"""{_ENDS}
        select cut(opener) as opener, cut(acceptor) as acceptor, string_agg(distinct protocol, ', ' order by protocol) as protocols,
            count(*) as sessions, coalesce(sum(opener_messages + acceptor_messages), 0)::bigint as messages,
            coalesce(sum(opener_bytes + acceptor_bytes), 0)::bigint as bytes
        from pairs where list_contains($nodes, cut(opener)) and list_contains($nodes, cut(acceptor))
        group by opener, acceptor order by bytes desc, opener, acceptor limit 200""",
        nodes=[node["node"] for node in nodes],
    )
    known = recording.row(f"{_ENDS} select count(distinct node) as n from (select opener as node from pairs union all "
                          "select acceptor from pairs)")["n"]  # fmt: skip
    return {"nodes": {"rows": nodes, "total": known}, "edges": edges}


def list_sessions(recording: Dataset) -> list[dict[str, Any]]:
    return recording.rows(
        f"""{_ENDS}
        select cut(session) as session, generation, protocol, encrypted, cut(opener) as opener, opener_is,
            cut(acceptor) as acceptor, acceptor_is,
            ms(received) as first, ms(last_received) as last, ms(opened) as opened, ms(closed) as closed,
            closed_by, reason, ms(broke) as broke, cut(why) as why, opener_messages, acceptor_messages, opener_bytes,
            acceptor_bytes, qos, low_latency, compression, batch_size
        from pairs
        order by broke is null or closed is not null, coalesce(opener_bytes + acceptor_bytes, 0) desc, session, generation
        limit $limit""",
        limit=SESSIONS,
    )
