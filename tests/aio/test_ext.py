# SPDX-License-Identifier: Apache-2.0
"""Advanced publishers and subscribers in an event loop."""

import zenlake
import zenlake.aio
from tests.aio.test_session import PATIENCE, run
from tests.api.nodes import config
from zenlake.aio.ext import declare_advanced_publisher, declare_advanced_subscriber
from zenlake.ext import CacheConfig, HistoryConfig, MissDetectionConfig, RecoveryConfig


def test_a_late_subscriber_receives_history_and_later_samples():
    async def main():
        async with (
            zenlake.aio.open(config()) as session,
            await declare_advanced_publisher(
                session,
                "a/b",
                cache=CacheConfig(2),
                sample_miss_detection=MissDetectionConfig(),
                congestion_control=zenlake.CongestionControl.BLOCK,
            ) as publisher,
        ):
            for number in range(3):
                await publisher.put(str(number))
            history = HistoryConfig(detect_late_publishers=True)
            async with await declare_advanced_subscriber(session, "a/*", history=history) as subscriber:
                received = [str((await subscriber.recv(PATIENCE)).payload) for _ in range(2)]
                await publisher.delete()
                last = await subscriber.recv(PATIENCE)
            assert received == ["1", "2"]
            assert last.kind is zenlake.SampleKind.DELETE
            assert publisher.key_expr == "a/b"

    run(main)


def test_missed_samples_and_publishers_are_reported():
    async def main():
        async with zenlake.aio.open(config()) as session:
            subscriber = await declare_advanced_subscriber(session, "a/*", recovery=RecoveryConfig(heartbeat=True))
            misses, found = await subscriber.sample_miss_listener(), await subscriber.detect_publishers()
            detection = MissDetectionConfig(sporadic_heartbeat=0.05)
            publisher = await declare_advanced_publisher(
                session, "a/b", sample_miss_detection=detection, publisher_detection=True
            )
            assert str((await found.recv(PATIENCE)).key_expr).startswith("a/b/@adv/pub/")
            await publisher.put("0")
            publisher.blocking._next += 2  # two samples are lost on their way
            await publisher.put("3")
            assert (await misses.recv(PATIENCE)).nb == 2
            assert [str((await subscriber.recv(PATIENCE)).payload) for _ in range(2)] == ["0", "3"]
            await publisher.undeclare()
            assert (await found.recv(PATIENCE)).kind is zenlake.SampleKind.DELETE

    run(main)
