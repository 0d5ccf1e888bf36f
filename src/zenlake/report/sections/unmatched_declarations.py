# SPDX-License-Identifier: Apache-2.0
"""Declared key expressions without a publication: subscriptions without a publisher, and publishers that published nothing.

Zenoh does not send declarations of publishers. A publisher is known by its interest in subscribers. Keys that begin with `@`
belong to the administration space and are left out.
"""

from typing import Any

from zenlake.report.dataset import Dataset
from zenlake.report.sections.losses import to_list
from zenlake.report.sections.time_window import TimeWindow

KEYS = 500

_SUBSCRIBERS = "select key, subscriber as node, session, received from subscriptions"
_PUBLISHERS = """select key, case direction when 0 then opener_zid else acceptor_zid end as node, session, declarations.received
from declarations left join sessions using (session, generation)
where action = 'interest' and contains(wants, 'S') and mode <> 'future'"""


def figures(recording: Dataset, window: TimeWindow) -> dict[str, Any]:
    return {"subscribed": list_unmatched(recording, _SUBSCRIBERS), "announced": list_unmatched(recording, _PUBLISHERS)}


def list_unmatched(recording: Dataset, declared: str) -> dict[str, Any]:
    """Return the key expressions of these declarations that intersect no published key."""
    rows = recording.rows(
        f"""with declared as ({declared})
        select cut(key) as key, list(distinct coalesce(node, session))[:3] as nodes,
            count(distinct coalesce(node, session)) as nodes_total, ms(min(received)) as t, count(*) over () as total
        from declared
        where key is not null and not starts_with(key, '@') and key not in (select expression from matches)
        group by declared.key order by t, declared.key limit $limit""",
        limit=KEYS,
    )
    return to_list(rows)
