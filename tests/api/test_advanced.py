# SPDX-License-Identifier: Apache-2.0
"""Advanced publishers that cache samples, and advanced subscribers that detect missing samples."""

import datetime
import socket
import subprocess
import sys
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


def wait_until_matching(session, key):
    """Wait until this session knows a matching subscriber: earlier samples are not sent."""
    with session.declare_publisher(key) as publisher:
        deadline = time.monotonic() + PATIENCE
        while not publisher.matching_status.matching:
            assert time.monotonic() < deadline
            time.sleep(0.005)


def texts(subscriber, count):
    return [str(subscriber.recv(PATIENCE).payload) for _ in range(count)]


def test_a_late_subscriber_gets_the_newest_sample_and_all_later_ones(both):
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


@pytest.mark.parametrize(
    "recovery",
    [
        RecoveryConfig(heartbeat=True),
        RecoveryConfig(periodic_queries=0.05),
        RecoveryConfig(periodic_queries=datetime.timedelta(milliseconds=50)),
    ],
    ids=["heartbeat", "seconds", "timedelta"],
)
def test_missed_samples_are_recovered(both, recovery):
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


def test_unrecoverable_samples_are_reported(both):
    first, second = both
    publisher = declare_advanced_publisher(first, "a/b", sample_miss_detection=MissDetectionConfig())
    subscriber = declare_advanced_subscriber(second, "a/*")
    misses = subscriber.sample_miss_listener()
    wait_until_matching(first, "a/b")
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
    with pytest.raises(ValueError, match="set only one"):
        RecoveryConfig(heartbeat=True, periodic_queries=1)


def test_by_time_instead_of_numbers():
    with zenlake.open(config(timestamping__enabled=True)) as session:
        publisher = declare_advanced_publisher(session, "a/b", cache=CacheConfig(5))
        publisher.put("1")
        publisher.delete()
        subscriber = declare_advanced_subscriber(session, "a/b", history=HistoryConfig(max_age=60))
        kinds = [subscriber.recv(PATIENCE).kind for _ in range(2)]
        assert kinds == [zenlake.SampleKind.PUT, zenlake.SampleKind.DELETE]


@pytest.mark.parametrize(
    "parameters",
    [
        "_time=[", "_time=[now(-1e400s)..]", "_time=[" + "1" * 1000 + "s..]",
        "_sn=\u00b2..", "_sn=a..b", "_sn=" + "9" * 5000 + "..",
        "_max=\u0663", "_max=" + "9" * 5000, "_max=-1", "_sn=..",
    ],
)  # fmt: skip
def test_a_cache_answers_odd_queries_without_a_traceback(both, caplog, parameters):
    first, second = both
    publisher = declare_advanced_publisher(
        first, "a/b", cache=CacheConfig(3), sample_miss_detection=MissDetectionConfig()
    )
    publisher.put("1")
    for selector in ("a/b/@adv/**?", "a/b/@adv/**?_anyke;"):
        for reply in second.get(selector + parameters, timeout=PATIENCE):
            assert "_time" in parameters or reply.ok
    assert not caplog.records


# Either package on either side. A filter at the subscriber drops large puts, but no large replies.
ONE_SIDE = """
import datetime, importlib, json, sys, time
package, role, port = sys.argv[1:]
zenoh, ext = importlib.import_module(package), importlib.import_module(package + ".ext")
where = json.dumps([f"tcp/127.0.0.1:{port}"])
config = zenoh.Config()
config.insert_json5("scouting/multicast/enabled", "false")
config.insert_json5("listen/endpoints", where if role == "publisher" else "[]")
if role == "subscriber":
    config.insert_json5("connect/endpoints", where)
    lossy = {"messages": ["put"], "flows": ["ingress"], "key_exprs": ["a/**"], "size_limit": 50}
    config.insert_json5("low_pass_filter", json.dumps([lossy]))
with zenoh.open(config) as session:
    if role == "publisher":
        numbered = ext.MissDetectionConfig()
        publisher = ext.declare_advanced_publisher(session, "a/b", cache=ext.CacheConfig(5), sample_miss_detection=numbered)
        matching = session.declare_publisher("a/b")
        print("READY", flush=True)
        while not matching.matching_status.matching:
            time.sleep(0.01)
        publisher.put("small")
        publisher.put("large" * 20)
        sys.stdin.read()
    else:
        again = ext.RecoveryConfig(periodic_queries=datetime.timedelta(milliseconds=100))
        subscriber = ext.declare_advanced_subscriber(session, "a/b", recovery=again)
        print(*(str(subscriber.recv().payload)[:5] for _ in range(2)), flush=True)
"""


@pytest.mark.interop
@pytest.mark.parametrize(("publisher", "subscriber"), [("zenoh", "zenlake"), ("zenlake", "zenoh")])
def test_periodic_queries_recover_the_last_lost_samples(publisher, subscriber):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])

    def side(package, role):
        command = [sys.executable, "-c", ONE_SIDE, package, role, port]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    with side(publisher, "publisher") as first:
        try:
            assert first.stdout.readline() == "READY\n"
            with side(subscriber, "subscriber") as second:
                try:
                    output, _ = second.communicate(timeout=20)
                finally:
                    second.kill()
        finally:
            first.kill()
    assert output == "small large\n"


@pytest.mark.parametrize(
    "make",
    [
        lambda: RecoveryConfig(),
        lambda: RecoveryConfig(heartbeat=False),
        lambda: RecoveryConfig(periodic_queries=-1),
        lambda: RecoveryConfig(periodic_queries=0),
        lambda: RecoveryConfig(periodic_queries=datetime.timedelta(seconds=-1)),
        lambda: RecoveryConfig(periodic_queries=float("nan")),
        lambda: MissDetectionConfig(heartbeat=-1),
        lambda: MissDetectionConfig(heartbeat=0),
        lambda: MissDetectionConfig(heartbeat=float("inf")),
        lambda: MissDetectionConfig(sporadic_heartbeat=-0.5),
        lambda: HistoryConfig(max_samples=-1),
        lambda: HistoryConfig(max_samples=0),
        lambda: HistoryConfig(max_age=-1),
        lambda: HistoryConfig(max_age=0),
        lambda: CacheConfig(-1),
        lambda: CacheConfig(0),
    ],
)
def test_contradictory_settings_are_refused_at_the_call(make):
    with pytest.raises(ValueError, match=r"invalid |no recovery is set"):
        make()


def test_undeclaring_a_publisher_with_a_heartbeat_is_quiet(caplog):
    with zenlake.open(config()) as session:
        for _ in range(60):
            publisher = declare_advanced_publisher(
                session, "a/b", sample_miss_detection=MissDetectionConfig(heartbeat=0.001)
            )
            publisher.put("1")
            time.sleep(0.002)
            publisher.undeclare()
    assert caplog.text == ""


def test_a_cache_replies_while_a_put_waits_for_a_full_connection(both):
    first, second = both
    publisher = declare_advanced_publisher(
        first, "a/b", cache=CacheConfig(), sample_miss_detection=MissDetectionConfig()
    )
    publisher.put("1")
    accept = zenlake.ReplyKeyExpr.ANY
    with second.declare_querier("a/b/@adv/**", accept_replies=accept, timeout=PATIENCE) as querier:
        querier.declare_matching_listener().recv(PATIENCE)
        with publisher._lock:  # as a put holds it while it waits
            replies = list(querier.get())
    assert [str(reply.ok.payload) for reply in replies if reply.ok] == ["1"]
