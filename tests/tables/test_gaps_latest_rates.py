# SPDX-License-Identifier: Apache-2.0
"""`gaps`, `latest` and `rates`, compared with plain Python for the recorded captures, and with hand-made cases."""

import math
from collections import defaultdict

import pytest

import zenlake
from tests.tables.fixtures import NOON, PCAPS, at, derived, row

CAPTURES = pytest.mark.parametrize("path", PCAPS, ids=lambda path: path.stem)


def sample(us, packet, key="a", kind="put", stamp=None, clock="1", **values):
    if stamp is not None:
        values |= {"timestamp": at(stamp)["received"], "ntp64": stamp, "timestamp_id": clock}
    return row(us, packet, key=key, kind=kind, **values)


@CAPTURES
def test_recorded_gaps_are_those_that_fragments_leave(path):
    """Zenoh skips a number after each fragmented message. These captures have no loss, so each such message has one gap."""
    messages = zenlake.read(path, "messages").to_pylist()
    rejoined = sum(m["fragments"] is not None for m in messages)
    gaps = zenlake.read(path, "gaps").to_pylist()
    assert [gap["harmless"] for gap in gaps] == [True] * len(gaps)
    assert len(gaps) <= rejoined  # the last message of a capture may be the fragmented one
    assert {(gap["scope"], gap["missing"]) for gap in gaps} <= {("lane", 1)}


def fragment(us, sn, detail=None, **values):
    return row(us, us, **{"type": "FRAGMENT", "sn": sn, "detail": detail, "priority": 5, "reliable": True, **values})


def joined(us, sn, **values):
    """Return the rows of the last fragment of a message, and of the message."""
    return [fragment(us, sn, "last", **values), fragment(us, sn, type="PUSH", fragments=2, **values)]


def test_a_gap_in_a_lane_is_harmless_only_right_after_a_fragmented_message():
    lane = {"priority": 5, "reliable": True}
    messages = [*joined(1, 10), fragment(5, 20), fragment(6, 22)]
    events = [
        row(2, 2, kind="gap", sn=11, count=1, **lane),
        row(3, 3, kind="gap", sn=15, count=1, **lane),
        row(6, 6, kind="gap", sn=21, count=1, **lane),  # in the middle of a message: a fragment is lost
        row(4, 4, 1, kind="gap", sn=11, count=1, **lane),
        row(7, 7, kind="closed"),
    ]
    gaps = derived("gaps", messages=messages, events=events)
    assert {(gap["first_sn"], gap["direction"]): gap["harmless"] for gap in gaps} == {
        (11, 0): True, (15, 0): False, (21, 0): False, (11, 1): False,
    }  # fmt: skip


UDP = {"session": "udp/a->b"}


@pytest.mark.parametrize(
    ("messages", "count", "expected"),
    [
        # Numbers 11 and 12: the first one is skipped after the message that ended with 10.
        (joined(1, 10, **UDP), 2, {"skip": 1, "network": 1}),
        ([fragment(1, 10, "last", **UDP)], 2, {"skip": 1, "network": 1}),  # its first fragment was lost
        ([fragment(1, 10, type="PUSH", fragments=2, **UDP)], 2, {"skip": 1, "network": 1}),  # in an older lake
        ([*joined(1, 10, **UDP), fragment(3, 13, "first", **UDP)], 2, {"skip": 1, "network": 1}),
        ([*joined(1, 10, **UDP), fragment(3, 13, **UDP)], 2, {"skip": 1, "network": 1}),
        # The message ended with a number of the gap.
        ([fragment(1, 10, "first", **UDP)], 2, {"skip": 1, "network": 1}),
        ([fragment(1, 10, **UDP), fragment(3, 13, "first", **UDP)], 2, {"skip": 1, "network": 1}),
        ([fragment(1, 10, **UDP)], 1, {"skip": 1}),  # its sender dropped the rest
        ([fragment(1, 10, **UDP), fragment(3, 13, **UDP)], 2, {"network": 2}),  # it did not end
        ([], 2, {"network": 2}),
        # A sender that skips no number.
        ([*joined(1, 5, **UDP), *joined(2, 10, **UDP)], 2, {"network": 2}),
        ([*joined(1, 5, **UDP), *joined(2, 10, **UDP)], 1, {"network": 1}),
        ([*joined(1, 5, **UDP, generation=2), *joined(2, 10, **UDP)], 2, {"skip": 1, "network": 1}),
        ([*joined(1, 5, **UDP, priority=4), *joined(2, 10, **UDP)], 2, {"skip": 1, "network": 1}),
        ([*joined(1, 5, **UDP, accepted=False), *joined(2, 10, **UDP)], 2, {"skip": 1, "network": 1}),  # out of order
        ([*joined(1, 127, **UDP), *joined(2, 10, **UDP)], 2, {"skip": 1, "network": 1}),  # 0 may follow 127
    ],
)
def test_the_number_that_zenoh_skips_after_a_fragmented_message_is_not_a_loss(messages, count, expected):
    lane = {"priority": 5, "reliable": True}
    gaps = derived("gaps", messages=messages, events=[row(2, 2, kind="gap", sn=11, count=count, **UDP, **lane)])
    assert {gap["cause"]: gap["missing"] for gap in gaps} == expected
    assert {gap["cause"] for gap in gaps if gap["harmless"]} <= {"skip"}


def test_gaps_of_a_publisher_follow_from_its_sequence_numbers_in_any_order():
    def published(us, sn, eid=1, **values):
        return sample(us, us, source_zid="abc", source_eid=eid, source_sn=sn, **values)

    samples = [
        published(1, 4),
        published(2, 8),
        published(3, 5),
        published(3, 5),
        published(4, 7, eid=2),
        published(5, 8, eid=2),
    ]
    replies = [published(6, 99, request_id=3)]
    [gap] = derived("gaps", samples=samples + replies)
    assert {name: gap[name] for name in ("scope", "source_zid", "source_eid", "first_sn", "missing", "harmless")} == {
        "scope": "source", "source_zid": "abc", "source_eid": 1, "first_sn": 6, "missing": 2, "harmless": False,
    }  # fmt: skip
    assert gap["received"] == at(2)["received"]


@CAPTURES
def test_latest_of_the_recorded_captures(path):
    newest = {}
    for s in zenlake.read(path).to_pylist():
        if s["key"] is None or s["request_id"] is not None:
            continue
        age = (
            s["timestamp"] or s["received"],
            s["ntp64"] or 0,
            s["received_ns"],
            s["packet"],
            s["sn"] or 0,
            s["index"],
        )
        if s["key"] not in newest or age > newest[s["key"]][0]:
            newest[s["key"]] = age, s
    expected = {key: s for key, (_, s) in newest.items() if s["kind"] == "put"}
    found = {row["key"]: row for row in zenlake.read(path, "latest").to_pylist()}
    assert found.keys() == expected.keys()
    for key, value in found.items():
        assert value == {name: expected[key][name] for name in value}


@pytest.mark.parametrize(
    ("samples", "payload"),
    [
        ([sample(1, 1, stamp=50, payload=b"new"), sample(2, 2, stamp=40, payload=b"late")], b"new"),
        ([sample(1, 1, stamp=50, clock="2", payload=b"2"), sample(2, 2, stamp=50, clock="1", payload=b"1")], b"2"),
        ([sample(1, 1, payload=b"first"), sample(2, 2, payload=b"second")], b"second"),
        ([sample(3, 3, payload=b"bare"), sample(4, 4, stamp=2, payload=b"stamped")], b"bare"),
        ([sample(1, 1, stamp=1, kind="del"), sample(2, 2, stamp=2, payload=b"again")], b"again"),
        ([sample(1, 1, payload=b"put"), sample(2, 2, payload=b"reply", request_id=1)], b"put"),
        ([sample(7, 7, sn=1, payload=b"one"), sample(7, 7, sn=2, payload=b"two")], b"two"),
    ],
)
def test_the_newest_value(samples, payload):
    [row] = derived("latest", samples=samples)
    assert row["payload"] == payload


def test_a_deleted_key_has_no_row():
    assert derived("latest", samples=[sample(1, 1, stamp=1, payload=b"x"), sample(2, 2, stamp=2, kind="del")]) == []


@CAPTURES
def test_rates_of_the_recorded_captures(path):
    seconds = defaultdict(list)
    for s in zenlake.read(path).to_pylist():
        second = s["received"].replace(microsecond=0)
        seconds[second, s["session"], s["direction"], s["key"], s["unresolved_key"]].append(s)
    rates = zenlake.read(path, "rates").to_pylist()
    assert len(rates) == len(seconds)
    for rate in rates:
        samples = seconds[tuple(rate[name] for name in ("received", "session", "direction", "key", "unresolved_key"))]
        ages = sorted(microseconds(s["received"] - s["timestamp"]) for s in samples if s["timestamp"])
        assert rate["samples"] == len(samples)
        assert rate["bytes"] == sum(s["payload_size"] or 0 for s in samples)
        assert rate["stamped"] == len(ages)
        assert rate["age_p50_us"] == (ages[math.ceil(len(ages) / 2) - 1] if ages else None)
        assert rate["age_p99_us"] == (ages[math.ceil(len(ages) * 0.99) - 1] if ages else None)


def microseconds(age):
    return (age.days * 86400 + age.seconds) * 1_000_000 + age.microseconds


def test_a_clock_that_is_a_day_ahead_changes_no_other_row():
    day = 86_400_000_000
    rates = derived("rates", samples=[sample(1, 1, stamp=0), sample(2, 2, key="b", stamp=day)])
    assert {rate["key"]: (rate["received"], rate["age_p50_us"]) for rate in rates} == {
        "a": (NOON, 1), "b": (NOON, 2 - day),
    }  # fmt: skip


LANE = {"priority": 5, "reliable": False}


@pytest.mark.parametrize(
    ("session", "event", "cause"),
    [
        ("udp/a->b", None, "network"),
        ("multicast/a->b", None, "network"),
        ("tcp/a->b", None, "recording"),
        ("udp/a->b", "capture fragments", "network"),
        ("udp/a->b", "capture cut", "network"),
        ("udp/a->b", "capture skipped", "network"),
        ("udp/a->b", "capture incomplete", "network"),
        ("udp/a->b", "capture dropped", "unknown"),
        ("udp/a->b", "log lost", "unknown"),
    ],
)
def test_the_cause_of_a_gap_in_a_lane(session, event, cause):
    """A stream delivers what it numbers. On datagrams, frames that the recording lacks cannot be distinguished from lost ones."""
    events = [row(2, 2, session=session, kind="gap", sn=11, count=3, **LANE)]
    events += [row(3, 3, session="other", kind=event, count=1)] if event else []
    [gap] = derived("gaps", events=events)
    assert (gap["cause"], gap["missing"]) == (cause, 3)


def published(us, source_sn, sn, session="up", direction=0, **values):
    return sample(us, us, session=session, direction=direction, source_zid="c0", source_eid=1, source_sn=source_sn,
                  sn=sn, **LANE, **values)  # fmt: skip


def test_a_gap_of_a_publisher_in_a_gap_of_the_lane_is_the_same_loss():
    samples = [published(1, 1, 10, "udp/a->b"), published(2, 4, 13, "udp/a->b"), published(3, 6, 14, "udp/a->b")]
    gaps = derived("gaps", samples=samples, events=[row(2, 2, session="udp/a->b", kind="gap", sn=11, count=2, **LANE)])
    assert sorted((gap["scope"], gap["first_sn"], gap["missing"], gap["repeated"], gap["cause"]) for gap in gaps) == [
        ("lane", 11, 2, False, "network"), ("source", 2, 2, True, "network"), ("source", 5, 1, False, "unknown"),
    ]  # fmt: skip


def test_the_node_that_did_not_send_a_sample_is_the_cause():
    ends = '{"ends": [{"zid": "%s"}, {"zid": "%s"}]}'
    events = [row(0, 0, session=name, kind="opened", detail=ends % zids) for name, zids in (
        ("up", ("c0", "r")), ("down", ("c1", "r")), ("far", ("c2", "r2")),
    )]  # fmt: skip
    samples = [published(sn, sn, sn) for sn in (1, 2, 3, 6)]  # the publisher did not send 4 and 5
    samples += [published(sn + 1, sn, n, "down", 1) for n, sn in enumerate((1, 3, 6))]  # the router did not send 2
    samples += [published(sn + 2, sn, n, "far", 1) for n, sn in enumerate((1, 3))]  # what r2 received was not recorded
    gaps = derived("gaps", samples=samples, events=events)
    assert sorted((gap["session"], gap["first_sn"], gap["missing"], gap["cause"]) for gap in gaps) == [
        ("down", 2, 1, "router"), ("down", 4, 2, "sender"), ("far", 2, 1, "unknown"), ("up", 4, 2, "sender"),
    ]  # fmt: skip
    assert [gap["session"] for gap in gaps if gap["repeated"]] == ["down"]


def test_a_loss_of_an_earlier_hop_is_counted_once():
    """The network lost 3 and 4 on the way into the router, and the router did not send 5 and 6."""
    ends = '{"ends": [{"zid": "%s"}, {"zid": "%s"}]}'
    events = [row(0, 0, session=name, kind="opened", detail=ends % zids) for name, zids in (
        ("udp/up", ("c0", "r")), ("tcp/down", ("c1", "r")),
    )]  # fmt: skip
    events += [row(5, 5, session="udp/up", kind="gap", sn=3, count=2, **LANE)]
    samples = [published(sn, sn, sn, "udp/up") for sn in (1, 2, 5, 6, 7, 8)]
    samples += [published(sn + 1, sn, n, "tcp/down", 1) for n, sn in enumerate((1, 2, 7, 8))]
    gaps = derived("gaps", samples=samples, events=events)
    assert sorted(
        (gap["session"], gap["scope"], gap["first_sn"], gap["missing"], gap["cause"], gap["repeated"]) for gap in gaps
    ) == [
        ("tcp/down", "source", 3, 2, "router", False),
        ("tcp/down", "source", 3, 2, "unknown", True),
        ("udp/up", "lane", 3, 2, "network", False),
        ("udp/up", "source", 3, 2, "network", True),
    ]


def incomplete(first, count, session="udp/a->b", **values):
    return row(
        90, 90, session=session, generation=None, kind="capture incomplete", sn=first, count=count, **{**LANE, **values}
    )


def test_frames_of_which_the_recording_has_the_beginning_are_not_lost():
    events = [
        row(us, us, session="udp/a->b", kind="gap", sn=sn, count=count, **LANE)
        for us, sn, count in ((1, 10, 5), (2, 20, 2), (3, 30, 1))
    ]
    events += [incomplete(11, 2), incomplete(14, 1), incomplete(20, 2)]
    gaps = derived("gaps", events=events)
    assert sorted((gap["first_sn"], gap["missing"], gap["cause"]) for gap in gaps) == [
        (10, 2, "network"), (10, 3, "recording"), (20, 2, "recording"), (30, 1, "network"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({"session": "udp/a->b"}, "unknown"),
        ({"session": "udp/a->b", "priority": 4}, "network"),
        ({"session": "udp/a->b", "direction": 1}, "network"),
        ({"session": "udp/a->c"}, "network"),
    ],
)
def test_an_incomplete_datagram_may_hide_frames_of_the_other_reliability(values, cause):
    events = [row(1, 1, session="udp/a->b", kind="gap", sn=10, count=1, **LANE)]
    events += [incomplete(77, 1, **{"reliable": True, **values})]
    [gap] = derived("gaps", events=events)
    assert gap["cause"] == cause


def test_an_incomplete_datagram_without_a_number_makes_the_gaps_of_its_session_unknown():
    events = [row(1, 1, session=name, kind="gap", sn=10, count=1, **LANE) for name in ("udp/a->b", "udp/a->c")]
    events += [incomplete(None, 3, priority=None, reliable=None)]
    assert {gap["session"]: gap["cause"] for gap in derived("gaps", events=events)} == {
        "udp/a->b": "unknown", "udp/a->c": "network",
    }  # fmt: skip


def test_a_number_that_zenoh_skips_does_not_explain_a_missing_sample():
    samples = [published(1, 1, 10, "udp/a->b"), published(2, 3, 12, "udp/a->b")]
    messages = [row(1, 1, session="udp/a->b", type="PUSH", fragments=2, sn=10, **LANE)]
    events = [row(2, 2, session="udp/a->b", kind="gap", sn=11, count=1, **LANE)]
    gaps = derived("gaps", samples=samples, messages=messages, events=events)
    assert sorted((gap["scope"], gap["cause"]) for gap in gaps) == [("lane", "skip"), ("source", "unknown")]
