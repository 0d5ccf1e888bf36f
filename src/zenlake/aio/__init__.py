# SPDX-License-Identifier: Apache-2.0
"""Session API for asyncio: `async with zenlake.aio.open(config) as session`, `async for sample in subscriber`.

Names and values are those of the blocking API. Calls that may wait are awaited, and a waiting task can be cancelled. Calls that
cannot wait (`try_recv`, `zid`, properties) are not awaited.
"""

from zenlake.aio import ext
from zenlake.aio.session import (
    Handler,
    LinkEventsListener,
    Liveliness,
    LivelinessToken,
    MatchingListener,
    Opening,
    Publisher,
    Querier,
    Query,
    Queryable,
    Receiving,
    Replies,
    Scout,
    Session,
    SessionInfo,
    Subscriber,
    TransportEventsListener,
    open,
    scout,
)

__all__ = [
    "Handler",
    "LinkEventsListener",
    "Liveliness",
    "LivelinessToken",
    "MatchingListener",
    "Opening",
    "Publisher",
    "Querier",
    "Query",
    "Queryable",
    "Receiving",
    "Replies",
    "Scout",
    "Session",
    "SessionInfo",
    "Subscriber",
    "TransportEventsListener",
    "ext",
    "open",
    "scout",
]


def __dir__() -> list[str]:
    return sorted(__all__)
