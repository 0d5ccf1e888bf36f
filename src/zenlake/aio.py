# SPDX-License-Identifier: Apache-2.0
"""The same session, for asyncio: `async with zenlake.aio.open(config) as session`, `async for sample in subscriber`.

Same names, same values. What may have to wait is awaited, and a task that waits can be cancelled; what cannot wait
(`try_recv`, `zid`, properties) is called as ever.
"""

from zenlake.api.asynchronous import (
    Handler,
    LinkEventsListener,
    Liveliness,
    LivelinessToken,
    MatchingListener,
    Opening,
    Publisher,
    Querier,
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
    "Queryable",
    "Receiving",
    "Replies",
    "Scout",
    "Session",
    "SessionInfo",
    "Subscriber",
    "TransportEventsListener",
    "open",
    "scout",
]
