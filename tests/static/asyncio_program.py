# SPDX-License-Identifier: Apache-2.0
"""A user's program for asyncio. `test_static_types.py` checks it in strict mode; it is never run."""

import asyncio
from typing import assert_type

import zenlake
from zenlake import Hello, KeyExpr, MatchingStatus, Reply, Sample, ZenohId, aio, ext
from zenlake.handlers import ArrowChannel, RingChannel


async def handle(sample: Sample) -> None:
    print(sample.key_expr, sample.payload.to_string())


async def answer(query: aio.Query) -> None:
    async with query:
        await query.reply_err(b"empty")


async def subscribe(session: aio.Session) -> None:
    subscriber = await session.declare_subscriber("robots/**")
    assert_type(subscriber, aio.Subscriber[aio.Handler[Sample]])
    assert_type(await subscriber.recv(timeout=1.0), Sample)
    assert_type(subscriber.try_recv(), Sample | None)
    assert_type(subscriber.key_expr, KeyExpr)
    async for sample in subscriber:
        assert_type(sample, Sample)
    async with await session.declare_subscriber("robots/**", RingChannel(3)) as ring:
        assert_type(await ring.recv(), Sample)
    assert_type(await session.declare_subscriber("robots/**", handle), aio.Subscriber[None])
    await session.declare_subscriber("robots/**", ArrowChannel(10))


async def publish(session: aio.Session) -> None:
    await session.put("robots/7/goal", "home", encoding="text/plain")
    assert_type(await session.try_put("robots/7/goal", b"home"), bool)
    publisher = await session.declare_publisher("robots/7/goal", express=True)
    await publisher.put(b"home")
    assert_type(publisher.matching_status.matching, bool)
    listener = await publisher.declare_matching_listener()
    assert_type(await listener.recv(), MatchingStatus)


async def query_all(session: aio.Session) -> None:
    async for reply in session.get("robots/*/battery", timeout=1.0):
        assert_type(reply, Reply)
    querier = await session.declare_querier("robots/*/battery")
    async for reply in querier.get(payload=b"x"):
        assert_type(reply.ok, Sample | None)
    queryable = await session.declare_queryable("robots/7/battery")
    async for query in queryable:
        assert_type(query, aio.Query)
        await query.reply("robots/7/battery", "87", encoding="text/plain")
        query.drop()
    assert_type(await session.declare_queryable("robots/7/**", answer), aio.Queryable[None])
    await session.declare_queryable("robots/7/**", lambda query: query.drop())


async def recover(session: aio.Session) -> None:
    publisher = await aio.ext.declare_advanced_publisher(session, "robots/7/pose", cache=ext.CacheConfig(10))
    await publisher.put(b"1.0 2.0", encoding="text/plain")
    await publisher.delete()
    subscriber = await aio.ext.declare_advanced_subscriber(session, "robots/**", history=ext.HistoryConfig())
    assert_type(subscriber, aio.ext.AdvancedSubscriber[aio.Handler[Sample]])
    assert_type(await subscriber.recv(), Sample)
    misses = await subscriber.sample_miss_listener()
    assert_type((await misses.recv()).nb, int)
    assert_type(await (await subscriber.detect_publishers(history=True)).recv(), Sample)


async def main() -> None:
    async with aio.open(zenlake.Config()) as session:
        await asyncio.gather(subscribe(session), publish(session), query_all(session), recover(session))
        assert_type(session.zid(), ZenohId)
        assert_type(session.info.peers_zid(), list[ZenohId])
        token = await session.liveliness().declare_token("alive/1")
        alive = await session.liveliness().declare_subscriber("alive/*", history=True)
        assert_type(await alive.recv(), Sample)
        await token.undeclare()
    async with await aio.scout(what="peer") as found:
        assert_type(await found.recv(timeout=1.0), Hello)


if __name__ == "__main__":
    asyncio.run(main())
