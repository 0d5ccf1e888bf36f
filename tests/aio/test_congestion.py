# SPDX-License-Identifier: Apache-2.0
"""A full connection to a process that has stopped reading never blocks the event loop."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest

import zenlake
import zenlake.aio
from tests.api.nodes import config

PATIENCE = 20.0
LIMIT = 2.0  # seconds without the event loop; a sender waits for a full connection for a minute
PAYLOAD = bytes(1_000_000)
PEER = """
import sys, zenlake
from tests.api.nodes import config
session = zenlake.open(config(listen="tcp/127.0.0.1:0", transport__link__tx__lease=60_000))
queryable = session.declare_queryable("peer/**", lambda query: query.reply(query.key_expr, "here"))
print(session._node.locators[0], flush=True)
querier = session.declare_querier("own/q", timeout=60, consolidation=zenlake.ConsolidationMode.NONE)
querier.declare_matching_listener().recv()
print(sum(reply.ok is not None for reply in querier.get()), flush=True)
sys.stdin.readline()
"""


class Peer:
    """A session in a process that can be stopped."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.locator = self.process.stdout.readline().strip()

    def stop(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self):
        os.kill(self.process.pid, signal.SIGCONT)


@pytest.fixture
def peer():
    found = Peer()
    yield found
    found.process.kill()
    found.process.communicate()


@asynccontextmanager
async def ticking():
    """Measure the longest time without the event loop."""
    loop = asyncio.get_running_loop()
    gaps = []

    async def tick():
        last = loop.time()
        while True:
            await asyncio.sleep(0.01)
            gaps.append(loop.time() - last)
            last += gaps[-1]

    ticker = asyncio.create_task(tick())
    yield gaps
    await asyncio.sleep(0.02)
    ticker.cancel()


def run(main):
    async def bounded():
        async with asyncio.timeout(3 * PATIENCE):
            await main()

    asyncio.run(bounded())


def patient_config(peer):
    block = "transport__link__tx__queue__congestion_control__block"
    return config(connect=peer.locator, **{f"{block}__wait_before_close": 60_000_000})


async def first_unfinished(start):
    """Start tasks until one waits, and return all."""
    tasks = []
    while not tasks or (await asyncio.wait(tasks[-1:], timeout=0.5))[0]:
        tasks.append(asyncio.create_task(start()))
        assert len(tasks) < 200, "the connection is not congested"
    return tasks


@pytest.mark.parametrize("querier", [False, True], ids=["session", "querier"])
def test_a_query_waits_for_a_full_connection_without_the_event_loop(peer, querier):
    async def main():
        async with zenlake.aio.open(patient_config(peer)) as session:
            assert (await session.get("peer/a").recv(PATIENCE)).ok
            source = await session.declare_querier("peer/a") if querier else session
            own = () if querier else ("peer/a",)

            async def query():
                return await source.get(*own, payload=PAYLOAD)

            peer.stop()
            async with ticking() as gaps:
                tasks = await first_unfinished(query)
            peer.resume()
            assert max(gaps) < LIMIT
            for task in tasks:
                replies = await task
                assert [str(reply.ok.payload) async for reply in replies] == ["here"]

    run(main)


def test_a_reply_waits_for_a_full_connection_without_the_event_loop(peer):
    async def main():
        async with (
            zenlake.aio.open(patient_config(peer)) as session,
            await session.declare_queryable("own/q") as queryable,
        ):
            async with await queryable.recv(PATIENCE) as query:
                peer.stop()
                async with ticking() as gaps:
                    tasks = await first_unfinished(lambda: query.reply("own/q", PAYLOAD))
                    other = await first_unfinished(lambda: query.reply_del("own/q"))
                peer.resume()
                await asyncio.gather(*tasks, *other)
            assert max(gaps) < LIMIT
            count = await asyncio.to_thread(peer.process.stdout.readline)
            assert int(count) == len(tasks) + len(other)

    run(main)


def test_dropping_a_query_never_waits(peer):
    async def main():
        async with zenlake.aio.open(patient_config(peer)) as session:
            queryable = await session.declare_queryable("own/q")
            query = await queryable.recv(PATIENCE)
            peer.stop()
            tasks = await first_unfinished(lambda: query.reply("own/q", PAYLOAD))
            async with ticking() as gaps:
                query.drop()
            peer.resume()
            await asyncio.gather(*tasks)
            assert max(gaps) < LIMIT
            with pytest.raises(zenlake.ZError, match="Dropped query"):
                await query.reply("own/q", "late")
            await asyncio.to_thread(peer.process.stdout.readline)

    run(main)
