# SPDX-License-Identifier: Apache-2.0
"""Declared key expressions without a sample: subscriptions without a publisher, and publishers that published nothing.

Zenoh does not send declarations of publishers. A publisher is known by its interest in subscribers. Keys that begin with `@`
belong to the administration space and are left out.
"""

from typing import Any

from zenlake.core.keyexpr import KeyExpr
from zenlake.errors import KeyExprError
from zenlake.report.dataset import Dataset
from zenlake.report.sections.time_window import TimeWindow
from zenlake.tables.read import intersects

EXPRESSIONS = 500  # declared key expressions that are compared
KEYS = 20_000  # published keys with which they are compared

_CONDITIONS = {
    "subscribed": "kind = 'subscriber' and action = 'declare'",
    "announced": "action = 'interest' and contains(wants, 'S') and mode <> 'future'",
}


def figures(recording: Dataset, window: TimeWindow) -> dict[str, Any]:
    keys = [
        row["key"]
        for row in recording.rows(
            "select distinct key from samples where request_id is null and key is not null limit $limit", limit=KEYS + 1
        )
    ]
    return {
        name: list_unmatched(recording, condition, keys) if len(keys) <= KEYS else {"rows": [], "total": 0}
        for name, condition in _CONDITIONS.items()
    }


def list_unmatched(recording: Dataset, condition: str, keys: list[str]) -> dict[str, Any]:
    """Return the key expressions of these declarations that intersect no published key."""
    expressions = recording.rows(
        f"""select key, count(distinct session) as sessions, ms(min(received)) as t from declarations
        where {condition} and key is not null and not starts_with(key, '@') group by key order by t, key limit $limit""",
        limit=EXPRESSIONS,
    )
    published = set(keys)
    rows = [row for row in expressions if row["key"] not in published and not is_published(row["key"], keys)]
    return {"rows": rows, "total": len(rows)}


def is_published(text: str, keys: list[str]) -> bool:
    try:
        expression = KeyExpr(text)
    except KeyExprError:  # an invalid expression from the network matches no key
        return False
    return any(intersects(expression, key) for key in keys)
