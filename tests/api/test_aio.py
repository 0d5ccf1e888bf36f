# SPDX-License-Identifier: Apache-2.0
"""The same in an event loop."""

import asyncio

import pytest

import zenlake
import zenlake.aio
from tests.api.nodes import config

PATIENCE = 5.0


def run(main):
    async def bounded():
        async with asyncio.timeout(3 * PATIENCE):
            await main()

    asyncio.run(bounded())


def test_publish_and_iterate():
    async def main():
        async with (
            zenlake.aio.open(config()) as session,
            await session.declare_subscriber("t/**") as subscriber,
            await session.declare_publisher("t/a", congestion_control=zenlake.CongestionControl.BLOCK) as publisher,
        ):
            for number in range(3):
                await publisher.put(str(number))
            await session.put("t/b", "3")
            seen = []
            async for sample in subscriber:
                seen.append(str(sample.payload))
                if len(seen) == 4:
                    break
            assert seen == ["0", "1", "2", "3"]
            assert subscriber.key_expr == "t/**"
            assert subscriber.try_recv() is None

    run(main)


def test_ask_and_answer():
    async def main():
        session = await zenlake.aio.open(config())

        async def answer(query):
            await asyncio.sleep(0)
            with query:
                query.reply(query.key_expr, "yes")

        await session.declare_queryable("q/1", answer)
        replies = await session.get("q/1")
        assert [str(reply.ok.payload) async for reply in replies] == ["yes"]
        querier = await session.declare_querier("q/1")
        assert [str(reply.ok.payload) async for reply in querier.get()] == ["yes"]
        await session.close()
        assert session.is_closed()

    run(main)


def test_a_waiting_task_can_be_cancelled_and_the_channel_lives_on():
    async def main():
        async with zenlake.aio.open(config()) as session:
            subscriber = await session.declare_subscriber("t/**")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(subscriber.recv(), 0.02)
            await session.put("t/a", "after")
            assert str((await subscriber.recv()).payload) == "after"

    run(main)


def test_leaving_the_replies_ends_the_query():
    async def main():
        async with zenlake.aio.open(config()) as session:
            queryable = await session.declare_queryable("q/1")
            replies = session.get("q/1", timeout=60, consolidation=zenlake.ConsolidationMode.NONE)
            await replies
            query = await queryable.recv()
            query.reply("q/1", "first")
            stream = aiter(replies)
            assert str((await anext(stream)).ok.payload) == "first"
            await stream.aclose()
            with pytest.raises(zenlake.ZError):
                await replies.recv()
            query.drop()

    run(main)


def test_closing_ends_the_iteration():
    async def main():
        session = await zenlake.aio.open(config())
        subscriber = await session.declare_subscriber("t/**")
        reading = asyncio.create_task(collect(subscriber))
        await asyncio.sleep(0)
        await session.close()
        assert await reading == []

    async def collect(subscriber):
        return [sample async for sample in subscriber]

    run(main)


def test_liveliness():
    async def main():
        async with zenlake.aio.open(config()) as session:
            changes = await session.liveliness().declare_subscriber("l/*")
            async with await session.liveliness().declare_token("l/1"):
                assert (await changes.recv()).kind is zenlake.SampleKind.PUT
                found = [str(reply.ok.key_expr) async for reply in session.liveliness().get("l/*")]
                assert found == ["l/1"]
            assert (await changes.recv()).kind is zenlake.SampleKind.DELETE

    run(main)
