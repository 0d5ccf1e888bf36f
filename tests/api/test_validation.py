# SPDX-License-Identifier: Apache-2.0
"""An invalid argument raises an error that names the expected type, as in eclipse-zenoh."""

import datetime
import subprocess
import sys

import pytest

import zenlake
from tests.api.nodes import PATIENCE, config, pair
from zenlake import CongestionControl, Locality, Priority

# Each is called with the package, its `ext` and an open session. All are a TypeError.
REFUSED = [
    *(
        f"{call}, {name}={value})"
        for call in ("s.put('a', b'x'", "s.put('a', 'x'", "s.delete('a'", "s.declare_publisher('a'", "s.get('a'")
        for name in ("priority", "congestion_control", "allowed_destination", "express")
        for value in ("1", "0", "99", "'DATA'", "1.0", "z.ReplyKeyExpr.ANY")
    ),
    *(f"s.put('a', b'x', {name}=True)" for name in ("priority", "congestion_control", "allowed_destination")),
    *(f"s.declare_publisher('a', reliability={value})" for value in ("1", "'x'", "z.Priority.DATA")),
    *(
        f"{call}, {name}={value})"
        for call in ("s.get('a'", "s.declare_querier('a'")
        for name in ("target", "consolidation", "accept_replies", "express")
        for value in ("0", "1", "'x'")
    ),
    *(
        f"s.{call}, allowed_origin={value})"
        for call in ("declare_subscriber('a'", "declare_queryable('a'")
        for value in (0, 1)
    ),
    "s.declare_queryable('a', complete=1)",
    "s.liveliness().declare_subscriber('a', history=1)",
    "s.get('a', timeout='1')",
    "s.get('a', timeout=datetime.timedelta(seconds=1))",
    "s.liveliness().get('a', timeout='1')",
    "s.get('a', encoding=0)",
    "s.get('a', source_info=1)",
    "s.get('a', cancellation_token=1)",
    "s.get('a', timestamp_instrumentation=1)",
    "s.put('a', b'', encoding=1)",
    "s.put('a', b'', timestamp=5)",
    "s.put('a', b'', source_info=5)",
    "s.put('a', b'', timestamp_instrumentation=5)",
    "s.put(5, b'')",
    "z.QueryConsolidation(1)",
    "z.Encoding(1)",
    "z.Parameters(1)",
    "z.Parameters({'a': 1})",
    "z.Selector(1)",
    "z.Selector('a', 1)",
    "z.scout(what=1)",
    "z.scout(config=1)",
    "z.Timestamp(1, b'1')",
    "z.Timestamp(z.NTP64(1, 1), 2)",
    "z.Timestamp(z.NTP64(1, 1), 'y')",
    "z.SourceInfo(1, 2)",
    "z.SourceInfo(s.id, '1')",
    "z.NTP64(1.5, 0)",
    "z.NTP64(1, 'x')",
    "z.WhatAmIMatcher(1)",
    *(f"ext.RepliesConfig({name}=1)" for name in ("priority", "congestion_control", "express")),
    "ext.RecoveryConfig(heartbeat=1)",
    "ext.RecoveryConfig(periodic_queries='x')",
    "ext.MissDetectionConfig(heartbeat='x')",
    "ext.MissDetectionConfig(heartbeat=datetime.timedelta(seconds=1))",
    "ext.MissDetectionConfig(sporadic_heartbeat='x')",
    "ext.HistoryConfig(max_age='x')",
    "ext.HistoryConfig(max_samples=1.5)",
    "ext.HistoryConfig(detect_late_publishers=1)",
    "ext.CacheConfig('x')",
    "ext.CacheConfig(1.5)",
    "ext.CacheConfig(1, replies_config=1)",
    "ext.declare_advanced_publisher(s, 'a', cache=5)",
    "ext.declare_advanced_publisher(s, 'a', sample_miss_detection=5)",
    "ext.declare_advanced_publisher(s, 'a', publisher_detection=5)",
    "ext.declare_advanced_subscriber(s, 'a', history=5)",
    "ext.declare_advanced_subscriber(s, 'a', recovery=5)",
    "ext.declare_advanced_subscriber(s, 'a', allowed_origin=0)",
]

THEIRS = """
import datetime, sys, zenoh as z, zenoh.ext as ext
c = z.Config()
c.insert_json5("scouting/multicast/enabled", "false")
c.insert_json5("listen/endpoints", "[]")
with z.open(c) as s:
    for line in sys.stdin.read().splitlines():
        try:
            eval(line)
            print("accepted", line)
        except TypeError:
            pass
        except Exception as error:
            print(type(error).__name__, line)
"""


@pytest.fixture(scope="module")
def session():
    with zenlake.open(config()) as session:
        yield session


@pytest.mark.interop
def test_the_real_module_refuses_them_too():
    result = subprocess.run(
        [sys.executable, "-c", THEIRS], input="\n".join(REFUSED), capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout.splitlines() == []


@pytest.mark.parametrize("call", REFUSED)
def test_an_argument_of_a_wrong_type_is_a_type_error(call, session):
    names = {"z": zenlake, "ext": zenlake.ext, "s": session, "datetime": datetime}
    with pytest.raises(TypeError, match=r"not|expected|cannot be interpreted") as refused:
        eval(call, names)
    assert "attribute" not in str(refused.value), "it says what went wrong inside instead of what is wanted"


def test_the_error_names_the_argument_and_its_type(session):
    with pytest.raises(
        TypeError, match=r"invalid allowed_destination=0; expected a Locality \(SESSION_LOCAL, REMOTE, ANY\)"
    ):
        session.put("a", b"", allowed_destination=0)
    with pytest.raises(TypeError, match=r"invalid priority=99; expected a Priority \(REAL_TIME, .*\)"):
        session.declare_publisher("a", priority=99)
    with pytest.raises(TypeError, match="invalid express='no'; expected True or False"):
        session.put("a", b"", express="no")
    with pytest.raises(TypeError, match=r"cannot undeclare 'k'; expected a KeyExpr or a declared entity"):
        session.undeclare("k")


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf")])
def test_a_timeout_is_a_span_of_time(session, timeout):
    for call in (session.get, session.declare_querier, session.liveliness().get):
        with pytest.raises(ValueError, match="invalid timeout="):
            call("a", timeout=timeout)


def test_an_equal_number_does_not_find_the_way_of_an_enum():
    """Ways are remembered by what was passed, and our enums equal their numbers."""
    first, second = pair()
    with first, second, second.declare_subscriber("secret/**") as theirs, first.declare_subscriber("secret/**") as own:
        with first.declare_publisher("secret/1") as publisher:
            while not publisher.matching_status.matching:
                pass
        for wrong in (0, False):
            with pytest.raises(TypeError):
                first.put("secret/1", b"wrong", allowed_destination=wrong)
        first.put("secret/1", b"local", allowed_destination=Locality.SESSION_LOCAL)
        with pytest.raises(TypeError):
            first.put("secret/1", b"wrong", allowed_destination=0)
        first.put("secret/1", b"all", congestion_control=CongestionControl.BLOCK, priority=Priority.REAL_TIME)
        assert [bytes(own.recv(PATIENCE).payload) for _ in range(2)] == [b"local", b"all"]
        found = theirs.recv(PATIENCE)
        assert (bytes(found.payload), found.priority) == (b"all", Priority.REAL_TIME)
        assert theirs.try_recv() is None
