# SPDX-License-Identifier: Apache-2.0
"""Publishers that remember and subscribers that notice."""

import time

import pytest

import zenlake
from tests.api.nodes import config, pair
from zenlake.ext import (
    CacheConfig,
    HistoryConfig,
    MissDetectionConfig,
    RecoveryConfig,
    declare_advanced_publisher,
    declare_advanced_subscriber,
)

PATIENCE = 5.0


@pytest.fixture
def both():
    first, second = pair()
    with first, second:
        yield first, second


def heard(session, key):
    """Wait until this session knows that somebody listens: what is put before that goes nowhere."""
    with session.declare_publisher(key) as publisher:
        deadline = time.monotonic() + PATIENCE
        while not publisher.matching_status.matching:
            assert time.monotonic() < deadline
            time.sleep(0.005)


def texts(subscriber, count):
    return [str(subscriber.recv(PATIENCE).payload) for _ in range(count)]


def test_a_late_subscriber_gets_the_newest_and_then_what_follows(both):
    first, second = both
    publisher = declare_advanced_publisher(
        first, "a/b", cache=CacheConfig(3), sample_miss_detection=MissDetectionConfig(heartbeat=0.05)
    )
    for number in range(5):
        publisher.put(str(number), attachment="x")
    subscriber = declare_advanced_subscriber(second, "a/*", history=HistoryConfig(max_samples=2))
    assert texts(subscriber, 2) == ["3", "4"]
    publisher.put("5")
    assert texts(subscriber, 1) == ["5"]
    subscriber.undeclare()
    publisher.undeclare()
    with pytest.raises(zenlake.ZError):
        publisher.put("6")


def test_a_publisher_that_comes_later_is_detected(both):
    first, second = both
    subscriber = declare_advanced_subscriber(second, "a/*", history=HistoryConfig(detect_late_publishers=True))
    seen = subscriber.detect_publishers()
    publisher = declare_advanced_publisher(
        first, "a/b", cache=CacheConfig(2), sample_miss_detection=MissDetectionConfig(), publisher_detection=True
    )
    assert seen.recv(PATIENCE).kind is zenlake.SampleKind.PUT
    publisher.put("now")
    assert texts(subscriber, 1) == ["now"]
    publisher.undeclare()
    assert seen.recv(PATIENCE).kind is zenlake.SampleKind.DELETE


@pytest.mark.parametrize("recovery", [RecoveryConfig(heartbeat=True), RecoveryConfig(periodic_queries=0.05)])
def test_what_was_missed_is_recovered(both, recovery):
    first, second = both
    publisher = declare_advanced_publisher(
        first, "a/b", cache=CacheConfig(10), sample_miss_detection=MissDetectionConfig(heartbeat=0.05)
    )
    subscriber = declare_advanced_subscriber(second, "a/*", recovery=recovery, history=HistoryConfig())
    publisher.put("0")
    assert texts(subscriber, 1) == ["0"]
    dropped = publisher._publisher
    publisher._publisher = publisher._entity = Mute(dropped)
    publisher.put("1")
    publisher.put("2")
    publisher._publisher = publisher._entity = dropped
    assert texts(subscriber, 2) == ["1", "2"]


class Mute:
    """A publisher whose samples are lost on their way."""

    def __init__(self, publisher):
        self.key_expr = publisher.key_expr
        self.encoding = publisher.encoding

    def put(self, payload, **options):
        pass


def test_what_is_lost_for_good_is_told(both):
    first, second = both
    publisher = declare_advanced_publisher(first, "a/b", sample_miss_detection=MissDetectionConfig())
    subscriber = declare_advanced_subscriber(second, "a/*")
    misses = subscriber.sample_miss_listener()
    heard(first, "a/b")
    publisher.put("0")
    assert texts(subscriber, 1) == ["0"]
    publisher._next += 4
    publisher.put("5")
    miss = misses.recv(PATIENCE)
    assert (miss.nb, miss.source) == (4, publisher.id)
    assert texts(subscriber, 1) == ["5"]


def test_a_cache_without_order_is_refused():
    with zenlake.open(config()) as session, pytest.raises(zenlake.ZError, match="timestamping"):
        declare_advanced_publisher(session, "a/b", cache=CacheConfig())
    with pytest.raises(ValueError, match="not both"):
        RecoveryConfig(heartbeat=True, periodic_queries=1)


def test_by_time_instead_of_numbers():
    with zenlake.open(config(timestamping__enabled=True)) as session:
        publisher = declare_advanced_publisher(session, "a/b", cache=CacheConfig(5))
        publisher.put("1")
        publisher.delete()
        subscriber = declare_advanced_subscriber(session, "a/b", history=HistoryConfig(max_age=60))
        kinds = [subscriber.recv(PATIENCE).kind for _ in range(2)]
        assert kinds == [zenlake.SampleKind.PUT, zenlake.SampleKind.DELETE]
