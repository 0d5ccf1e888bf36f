# SPDX-License-Identifier: Apache-2.0
"""Sessions in an event loop: the behaviour of blocking sessions."""

import asyncio
import inspect
import socket
import threading
import time

import pyarrow as pa
import pytest

import zenlake
import zenlake.aio
from tests.api.nodes import config, wait_until

PATIENCE = 5.0
EMPTY_GROUP = "224.0.0.225:17461"  # a group without members


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
            async with query:
                await query.reply(query.key_expr, "yes")

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
            await query.reply("q/1", "first")
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


def test_a_query_with_a_callback_of_either_kind():
    async def main():
        async with (
            zenlake.aio.open(config()) as session,
            await session.declare_queryable("q/1", answer),
            await session.liveliness().declare_token("q/1"),
        ):
            querier = await session.declare_querier("q/1")
            asked = [
                lambda handler: session.get("q/1", handler),
                lambda handler: querier.get(handler),
                lambda handler: session.liveliness().get("q/1", handler),
            ]
            for get in asked:
                seen, ended, loop = asyncio.Queue(), asyncio.Event(), asyncio.get_running_loop()

                def function(reply, seen=seen, loop=loop):
                    loop.call_soon_threadsafe(seen.put_nowait, str(reply.ok.key_expr))

                async def coroutine(reply, seen=seen):
                    await asyncio.sleep(0)
                    seen.put_nowait(str(reply.ok.key_expr))

                def end(ended=ended, loop=loop):
                    loop.call_soon_threadsafe(ended.set)

                for handler in (function, coroutine, zenlake.handlers.Callback(coroutine, end), (coroutine, seen)):
                    replies = await get(handler)
                    assert await seen.get() == "q/1"
                    with pytest.raises(zenlake.ZError, match="callback"):
                        await replies.recv()
                    with pytest.raises(zenlake.ZError, match="callback"):
                        [reply async for reply in replies]
                await ended.wait()

    def answer(query):
        with query:
            query.reply(query.key_expr, "yes")

    run(main)


def test_leaving_one_query_of_a_token_leaves_the_others():
    async def main():
        async with zenlake.aio.open(config()) as session:
            queryable, token = await session.declare_queryable("q/*"), zenlake.CancellationToken()
            first, second = [await session.get(key, timeout=60, cancellation_token=token) for key in ("q/1", "q/2")]
            one, two = await queryable.recv(), await queryable.recv()
            one.drop()
            assert [reply async for reply in first] == []
            assert not token.is_cancelled
            await two.reply("q/2", "still asked")
            two.drop()
            assert str((await second.recv(PATIENCE)).ok.payload) == "still asked"
            third = await session.get("q/3", timeout=60, cancellation_token=token)
            three = await queryable.recv()
            token.cancel()
            assert [reply async for reply in third] == []
            three.drop()

    run(main)


@pytest.mark.parametrize("mode", ["client", "peer"])
def test_a_cancelled_open_ends_its_node_and_lets_the_event_loop_end(mode):
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await zenlake.aio.open(waiting)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        more = {"connect__timeout_ms": -1, "connect__exit_on_failure": True}
        waiting = config(mode, connect=f"tcp/127.0.0.1:{silent.getsockname()[1]}", **more)
        before, began = set(threading.enumerate()), time.monotonic()
        run(main)
        assert time.monotonic() - began < PATIENCE
        wait_until(lambda: set(threading.enumerate()) <= before)


def test_a_failed_open_raises_the_error_of_the_blocking_api():
    async def main():
        with pytest.raises(zenlake.ZError, match="a client needs an endpoint"):
            await zenlake.aio.open(config("client"))
        with pytest.raises(TypeError, match="Config"):
            await zenlake.aio.open("client")

    run(main)


def test_waiting_ends_after_a_timeout():
    async def main():
        async with zenlake.aio.open(config()) as session:
            subscriber = await session.declare_subscriber("t/**")
            with pytest.raises(TimeoutError, match=r"no item arrived within 0.01 s"):
                await subscriber.recv(timeout=0.01)
            with pytest.raises(TimeoutError):
                await subscriber.handler.recv(0.01)
            await session.put("t/a", "1")
            assert str((await subscriber.recv(timeout=0)).payload) == "1"
            queryable = await session.declare_queryable("q")
            with pytest.raises(TimeoutError, match=r"no item arrived within 0.01 s"):
                await session.get("q").recv(timeout=0.01)
            assert queryable.key_expr == "q"

    run(main)


def test_matching_of_publishers_and_queriers_does_not_block_the_event_loop():
    async def main():
        async with zenlake.aio.open(config()) as session:
            publisher, querier = await session.declare_publisher("t/a"), await session.declare_querier("q/a")
            listeners = [await each.declare_matching_listener() for each in (publisher, querier)]
            waiting = [asyncio.create_task(listener.recv()) for listener in listeners]
            await session.declare_subscriber("t/**", print)
            await session.declare_queryable("q/**", print)
            assert [(await each).matching for each in waiting] == [True, True]
            assert await publisher.try_put("x") is True
            assert await session.try_put("t/a", "x", congestion_control=zenlake.CongestionControl.BLOCK) is True
            assert await publisher.put_table(pa.table({"payload": [b"x", b"y"]})) == 2
            assert await session.declare_keyexpr("t/a") == "t/a"
            events = await session.info.declare_transport_events_listener()
            assert events.try_recv() is None
            assert session.info.peers_zid() == []

    run(main)


def test_cancelling_get_table_ends_its_query():
    async def main():
        async with zenlake.aio.open(config()) as session:
            queryable = await session.declare_queryable("q")
            asking = asyncio.create_task(session.get_table("q", timeout=60))
            query = await queryable.recv()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            wait_until(lambda: not session._node.node.application.gets)
            query.drop()

    run(main)


def test_scouting_stops_with_its_block():
    async def main():
        async with await zenlake.aio.scout(config=config(scouting__multicast__address=EMPTY_GROUP)) as scout:
            with pytest.raises(TimeoutError):
                await scout.recv(timeout=0.01)
        with pytest.raises(zenlake.ZError):
            await scout.stop()

    run(main)


@pytest.mark.parametrize("full", ["drop_oldest", "drop_newest"])
def test_coroutines_that_are_too_slow_are_bounded_as_callbacks_are(full):
    async def main():
        begun, seen, go_on = [], [], asyncio.Event()

        async def slow(sample):
            begun.append(sample)
            await go_on.wait()
            seen.append(int(str(sample.payload)))

        async with zenlake.aio.open(config()) as session:
            await session.declare_subscriber("t", zenlake.handlers.Callback(slow, capacity=2, full=full))
            for number in range(20):
                await session.put("t", str(number))
                await asyncio.sleep(0.005)
            dropped = session.counters()["messages dropped: no room in a channel"]
            assert len(begun) == 2  # the receiver holds one more, and two are in the channel
            assert dropped == 15
            go_on.set()
            while len(seen) < 5:
                await asyncio.sleep(0.005)
            assert seen == ([0, 1, 2, 18, 19] if full == "drop_oldest" else [0, 1, 2, 3, 4])

    run(main)


# Names that never block, so both APIs share them. Every other blocking name must have an asyncio version.
QUICK = {
    "Session": {"counters", "id", "is_closed", "new_timestamp", "zid"},
    "SessionInfo": {"links", "peers_zid", "routers_zid", "transports", "zid"},
    "Publisher": {"congestion_control", "encoding", "id", "key_expr", "matching_status", "priority", "reliability"},
    "Querier": {"accept_replies", "id", "key_expr", "matching_status"},
    "Subscriber": {"id", "key_expr"},
    "Queryable": {"id", "key_expr"},
    "AdvancedPublisher": {"congestion_control", "encoding", "id", "key_expr", "priority"},
    "AdvancedSubscriber": {"id", "key_expr"},
    "Query": {
        "accepts_replies",
        "attachment",
        "encoding",
        "key_expr",
        "parameters",
        "payload",
        "selector",
        "source_info",
        "timestamp_stack",
    },
}
# The reading end of a channel. Other members are visible only inside its compiled module.
READING = {"dropped", "recv", "try_recv"}
NAMES = [
    "Handler", "LinkEventsListener", "Liveliness", "LivelinessToken", "MatchingListener", "Publisher", "Querier", "Query",
    "Queryable", "Scout", "Session", "SessionInfo", "Subscriber", "TransportEventsListener",
]  # fmt: skip


EXT_NAMES = ["AdvancedPublisher", "AdvancedSubscriber", "SampleMissListener"]


@pytest.mark.parametrize("name", [*NAMES, *EXT_NAMES])
def test_every_name_of_the_blocking_one_is_there(name):
    blocking, own = (zenlake.ext, zenlake.aio.ext) if name in EXT_NAMES else (zenlake, zenlake.aio)
    theirs = zenlake.handlers.Handler if name == "Handler" else getattr(blocking, name)
    ours, quick = getattr(own, name), QUICK.get(name, set())
    public = READING if name == "Handler" else {each for each in dir(theirs) if not each.startswith("_")}
    own = {each for kind in ours.__mro__[:-1] for each in vars(kind) if not each.startswith("_")}
    assert public - own == quick
    for each in sorted(public & own):
        mine, blocking = getattr(ours, each), getattr(theirs, each, None)  # (uncompiled, `dropped` is the instance's)
        if callable(blocking):
            parameters = inspect.signature(mine).parameters
            if not any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
                assert list(parameters) == list(inspect.signature(blocking).parameters), each
    assert (getattr(theirs, "__iter__", None) is None) == (getattr(ours, "__aiter__", None) is None)
    assert (getattr(theirs, "__enter__", None) is None) == (getattr(ours, "__aenter__", None) is None)


def test_every_class_of_a_session_and_every_function_that_waits_is_there():
    declared = (zenlake.Session, zenlake.SessionInfo, zenlake.Liveliness, zenlake.Scout, zenlake.LivelinessToken)
    kinds = [
        each
        for each in zenlake.__all__
        if isinstance(found := getattr(zenlake, each), type) and (found in declared or hasattr(found, "undeclare"))
    ]
    assert set(kinds) <= set(NAMES)
    assert {"open", "scout"} <= set(zenlake.aio.__all__)
