# SPDX-License-Identifier: Apache-2.0
"""The figures of the report equal those that pyarrow and plain Python compute from the tables, and their number is limited."""

import hashlib
import json
from collections import Counter, defaultdict
from importlib.resources import files
from statistics import median

import pyarrow as pa
import pytest
from docs.__main__ import HERE

import zenlake
from tests.capture import forge
from tests.report.fixtures import halves, lake_of, lake_of_rows, part_of_sample, slow_subscriber, tables_of_sample
from tests.report.reference_figures import check
from tests.tables import fixtures
from tests.tables.fixtures import PCAPS, at
from tests.tables.test_publications import EVENTS
from zenlake import report
from zenlake.core.releases import known_incompatibilities
from zenlake.errors import InvalidValue
from zenlake.log import Writer
from zenlake.report import hop_tables
from zenlake.report.html import embed
from zenlake.report.sections import deliveries, gets, losses, timing, traffic
from zenlake.report.sections.key_patterns import group_keys
from zenlake.sample_captures import sample
from zenlake.tables import DERIVED
from zenlake.tables.schemas import TABLES
from zenlake.wire.declare import Declare, DeclareEntity
from zenlake.wire.handshake import Close
from zenlake.wire.transport import Frame

D_TOKEN = 0x06


@pytest.fixture(scope="module")
def recording():
    return report.data(sample())["recordings"][0]


@pytest.fixture(scope="module")
def tables():
    return {name: zenlake.read(sample(), name).to_pylist() for name in (*TABLES, *DERIVED)}


def ms(time):
    return pytest.approx(time.timestamp() * 1000, abs=0.001)


def test_the_facts_at_the_head(recording, tables):
    counted = [row for row in tables["messages"] if row["type"] not in ("FRAME", "FRAGMENT")]
    times = [row["received"] for row in tables["messages"]]
    facts = recording["overview"]
    assert facts["messages"] == len(counted)
    assert facts["bytes"] == sum(row["size"] for row in tables["messages"] if row["fragments"] is None)
    assert facts["bytes"] == sum(row["opener_bytes"] + row["acceptor_bytes"] for row in tables["sessions"])
    assert facts["samples"] == len(tables["samples"])
    assert (facts["publications"], facts["deliveries"]) == (len(tables["publications"]), len(tables["deliveries"]))
    assert facts["published_bytes"] == sum(row["payload_size"] for row in tables["publications"])
    assert facts["keys"] == len({row["key"] for row in tables["samples"]})
    assert (facts["sessions"], facts["nodes"], facts["subscribers"]) == (7, 8, 1)
    outcomes = Counter(row["outcome"] for row in tables["gets"])
    assert (facts["gets"], facts["answered"], facts["empty"]) == (
        len(tables["gets"]),
        outcomes["answered"],
        outcomes["empty"],
    )
    assert facts["failed"] == outcomes["error"] + outcomes["timeout"] + outcomes["lost"] == 3
    assert recording["window"]["first"] == ms(min(times))
    assert recording["window"]["last"] == ms(max(times))


def test_traffic_over_time_adds_up(recording):
    steps = recording["traffic"]["over_time"]
    assert sum(row["messages"] for row in steps) == recording["overview"]["messages"]
    assert sum(row["bytes"] for row in steps) == recording["overview"]["bytes"]
    assert all(row["t"] % recording["window"]["step"] == 0 for row in steps)


def test_keys_by_volume(recording, tables):
    counted, sizes, hops = Counter(), Counter(), Counter(row["key"] for row in tables["samples"])
    for row in tables["publications"]:
        counted[row["key"]] += 1
        sizes[row["key"]] += row["payload_size"]
    rows = recording["traffic"]["keys"]["rows"]
    assert {row["key"]: (row["publications"], row["bytes"], row["hops"]) for row in rows} == {
        key: (counted[key], sizes[key], hops[key]) for key in hops
    }
    assert [row["bytes"] for row in rows] == sorted((sizes[key] for key in hops), reverse=True)
    [pose] = [row for row in rows if row["key"] == "fleet/r1/pose"]
    assert pose["hops"] == 2 * pose["publications"]
    assert pose["hz"] == pytest.approx(4, rel=0.05)  # the robot publishes every 250 ms


def test_topology_and_sessions(recording, tables):
    nodes = {row["node"]: row for row in recording["sessions"]["nodes"]["rows"]}
    [router] = [row for row in nodes.values() if row["role"] == "router"]
    releases = {row["opener_zid"]: row["opener_release"] for row in tables["sessions"]}
    assert any(releases.values())
    assert {node: nodes[node]["release"] for node in releases} == releases
    assert {node["incompatibilities"] == known_incompatibilities(node["release"]) for node in nodes.values()} == {True}
    assert router["sessions"] == 7
    assert router["sent"] == sum(row["acceptor_bytes"] for row in tables["sessions"])
    assert {(row["opener"], row["acceptor"], row["bytes"]) for row in recording["sessions"]["edges"]} == {
        (row["opener_zid"], row["acceptor_zid"], row["opener_bytes"] + row["acceptor_bytes"])
        for row in tables["sessions"]
    }
    assert len(recording["sessions"]["list"]["rows"]) == 7


def test_latency_of_gets(recording, tables):
    finished = sorted(row["latency_ms"] for row in tables["gets"] if row["latency_ms"] is not None)
    figures = recording["gets"]
    assert {row["outcome"]: row["gets"] for row in figures["outcomes"]} == Counter(
        row["outcome"] for row in tables["gets"]
    )
    assert figures["latency"]["n"] == len(finished) == sum(row["gets"] for row in figures["histogram"])
    assert figures["latency"]["most"] == finished[-1]
    assert finished[len(finished) // 2 - 1] <= figures["latency"]["p50"] <= finished[len(finished) // 2]
    for row in figures["histogram"]:
        low, high = 10 ** (row["bin"] / 5), 10 ** ((row["bin"] + 1) / 5)
        assert row["gets"] <= sum(low * 0.999999 <= value <= high * 1.000001 for value in finished)
    assert [row["outcome"] for row in figures["slowest"]["rows"][:3]].count("timeout") == 2


def test_the_matrix_names_what_the_operator_received_of_each_robot(recording, tables):
    delivered = Counter((row["publisher"], row["subscriber"]) for row in tables["deliveries"])
    pairs = recording["deliveries"]["pairs"]
    assert {(row["publisher"], row["subscriber"]): row["delivered"] for row in pairs["rows"]} == delivered
    assert {row["share"] for row in pairs["rows"]} == {1.0}
    [operator] = recording["deliveries"]["subscribers"]["rows"]
    assert (operator["keys"], operator["delivered"], operator["share"]) == (
        ["fleet/*/*"],
        len(tables["deliveries"]),
        1.0,
    )
    ages = sorted(row["age"] - row["clock_offset"] for row in tables["deliveries"])
    assert operator["age_max"] == ages[-1] / 1000
    assert operator["age_p50"] == pytest.approx(median(ages) / 1000, rel=0.01)


def test_losses_by_lane_and_source(recording, tables):
    lanes = {
        (row["session"], row["direction"], row["priority"], row["reliable"]): row
        for row in recording["losses"]["lanes"]["rows"]
    }
    seen = Counter(
        (row["session"], row["direction"], row["priority"], row["reliable"])
        for row in tables["messages"]
        if row["type"] in ("FRAME", "FRAGMENT")
    )
    missing = Counter()
    for row in tables["gaps"]:
        if row["scope"] == "lane" and row["cause"] != "skip":
            missing[row["session"], row["direction"], row["priority"], row["reliable"]] += row["missing"]
    assert {lane: row["frames"] for lane, row in lanes.items()} == seen
    assert {lane: row["missing"] for lane, row in lanes.items() if row["missing"]} == missing
    assert {row["key"] for row in recording["losses"]["sources"]["rows"] if row["missing"]} == {"fleet/r6/pose"}
    causes = {row["cause"]: row["missing"] for row in recording["losses"]["causes"]}
    assert causes == {"network": sum(missing.values()), "skip": 12}  # its samples are the same losses
    assert recording["losses"]["lost"] == sum(row["missing"] for row in recording["losses"]["over_time"]) == 22
    assert sum(row["missing"] for row in recording["losses"]["runs"]["rows"]) == 22  # each loss once


def test_age_and_order(recording, tables):
    ages = defaultdict(list)
    for row in tables["deliveries"]:
        if row["age"] is not None:
            ages[row["key"]].append((row["age"] - row["clock_offset"]) / 1000)
    by_key = {row["key"]: row for row in recording["timing"]["keys"]["rows"]}
    assert {key: row["deliveries"] for key, row in by_key.items()} == {key: len(found) for key, found in ages.items()}
    for key, found in ages.items():
        assert by_key[key]["age_max"] == pytest.approx(max(found))
        assert abs(by_key[key]["age_p50"] - median(found)) <= max(found) - min(found)
    assert recording["timing"]["overtaken"] == recording["timing"]["reordered"] == 0


def test_liveliness_names_silent_nodes(recording, tables):
    spans = {row["key"]: row for row in recording["liveliness"]["spans"]}
    assert {key: row["how"] for key, row in spans.items()} == {
        f"fleet/r{n}/alive": "fell silent" if n == 3 else "undeclared" for n in range(1, 7)
    }
    declared = [row for row in tables["declarations"] if row["kind"] == "token" and row["key"] == "fleet/r3/alive"]
    assert spans["fleet/r3/alive"]["begun"] == ms(min(row["received"] for row in declared))


def test_findings_name_every_trouble_that_the_sample_was_made_with(recording):
    assert [(found["level"], found["text"]) for found in recording["findings"]] == [
        ("bad", "22 frames were lost in the network"),
        ("bad", "2 gets timed out"),
        ("bad", "1 get was answered with an error"),
        ("warn", "18 gets had no reply"),
        ("warn", "1 token's session expired silently"),
    ]


def test_every_figure_of_a_lake_is_counted_again_by_duckdb_in_its_files(recording, tmp_path):
    check(recording, lake_of(tables_of_sample(), tmp_path / "lake"))


def test_a_recording_router_reports_broken_connections_and_drops(tmp_path):
    token = Frame(sn=0).encode() + Declare(body=DeclareEntity(kind=D_TOKEN, id=1, key="robot/alive")).encode()
    with Writer(tmp_path / "log", "router") as writer:
        gone, slow = (writer.face("tcp", f"10.0.0.{n}:40000", "10.0.0.9:7447") for n in (1, 2))
        for face in (gone, slow):
            for side, batch in forge.HANDSHAKE:
                writer.append(face, side, batch, received=10**18)
        writer.append(gone, 0, token, received=10**18 + 10**9)
        writer.note("disconnected", gone, received=10**18 + 2 * 10**9, detail="the other end hung up")
        writer.note("dropped", slow, received=10**18 + 3 * 10**9, count=7, detail="the other end read too slowly")
        writer.append(slow, 0, Close().encode(), received=10**18 + 3 * 10**9)
    [recording] = report.data(tmp_path / "log")["recordings"]
    assert recording["name"] == f"{tmp_path.name}/log"
    assert recording["overview"]["broken"] == 1
    assert recording["losses"]["causes"] == [{"cause": "router", "unit": "messages", "missing": 7}]
    assert recording["losses"]["lost"] == 7
    first, second = recording["sessions"]["list"]["rows"]
    assert (first["why"], first["reason"]) == ("the other end hung up", None)
    assert (second["why"], second["reason"]) == (None, "GENERIC")
    [span] = recording["liveliness"]["spans"]
    assert (span["how"], span["until"] - span["begun"]) == ("connection broke", 1000)
    [dropped] = recording["losses"]["dropped"]["rows"]
    assert (dropped["count"], dropped["detail"]) == (7, "the other end read too slowly")
    words = [finding["text"] for finding in recording["findings"]]
    assert "7 messages were dropped for slow neighbours" in words
    assert "1 connection broke without a CLOSE" in words
    assert not any("no loss was detected" in text for text in words)


@pytest.mark.parametrize("names", [(*TABLES, *DERIVED), tuple(TABLES)], ids=["whole", "decoded only"])
def test_a_lake_gives_the_figures_of_the_capture_that_it_was_made_from(recording, tmp_path, names):
    lake = lake_of(tables_of_sample(names), tmp_path / "it's a lake")
    [found] = report.data(lake)["recordings"]
    assert (found.pop("name"), found.pop("kind")) == ("it's a lake", "lake")
    assert found == {name: value for name, value in recording.items() if name not in ("name", "kind")}


def test_a_publication_after_a_newer_one_is_overtaken_and_one_out_of_sequence_is_reordered(tmp_path):
    rows = [
        {"session": session, "generation": 1, "direction": 0, "packet": n, "index": 0, "key": "k", "kind": "put",
         "timestamp": at(stamp)["received"], "ntp64": stamp + 10_000, "timestamp_id": "1", "source_zid": "1", "source_eid": 1,
         "source_sn": sn, **at(n)}
        for session in ("tcp/a->b", "tcp/b->c")
        for n, (stamp, sn) in enumerate([(-9000, 1), (-7000, 3), (-8000, 2), (-6000, 4), (5000, 5)])
    ]  # fmt: skip
    lake = lake_of({"samples": pa.Table.from_pylist(rows, schema=TABLES["samples"])}, tmp_path / "lake")
    figures = report.data(lake)["recordings"][0]["timing"]
    assert (figures["overtaken"], figures["reordered"], figures["hops"]) == (1, 1, 2)  # one publication, on two hops
    assert figures["early"] == 2
    first, second = figures["examples"]["rows"]
    assert (first["packet"], first["behind_ms"], first["source_sn"], first["highest"]) == (2, 1.0, 2, 3)
    assert {first["session"], second["session"]} == {"tcp/a->b", "tcp/b->c"}


def test_the_latency_of_hops_is_in_the_report(tmp_path):
    stack = [
        {"point": point, "timestamp": at(us)["received"], "ntp64": us, "timestamp_id": node, "data": None}
        for node, point, us in (("a", "send", 0), ("b", "route", 2500))
    ]
    row = {"session": "tcp/b->c", "generation": 1, "direction": 0, "packet": 1, "index": 0, "key": "k", "kind": "put"}
    lake = lake_of_rows(tmp_path / "lake", samples=[{**row, **at(4000), "timestamp_stack": stack}])
    found = report.data(lake)["recordings"][0]["timing"]["latencies"]
    assert found["total"] == 2
    assert [(each["from_node"], each["to_node"], each["latency_p50"], each["session"]) for each in found["rows"]] == [
        ("a", "b", 2.5, None),
        ("b", None, 1.5, "tcp/b->c"),
    ]


def test_a_slow_subscriber_is_named_with_its_share_and_age_although_nothing_is_overtaken(tmp_path):
    [found] = report.data(lake_of_rows(tmp_path / "lake", **slow_subscriber()))["recordings"]
    texts = [finding["text"] for finding in found["findings"]]
    assert texts[:2] == [
        "c2 (** and 1 more) received 20 % of what it subscribed to",
        "Samples to c2 (** and 1 more) were up to 31.0 s old",
    ]
    assert "1 key expression was subscribed and has no publisher" in texts
    assert "1 publisher was declared and never published" in texts
    assert not any("overtaken" in text or "no loss" in text for text in texts)
    assert found["timing"]["overtaken"] == 0
    assert [row["key"] for row in found["declared"]["subscribed"]["rows"]] == ["other/**"]
    assert [(row["key"], row["nodes"]) for row in found["declared"]["announced"]["rows"]] == [("silent", ["c0"])]


def test_samples_missing_from_the_recording_only_are_not_losses(tmp_path):
    gap = {"kind": "gap", "priority": 5, "reliable": False, "sn": 7, "count": 3}
    events = [*EVENTS, fixtures.row(5, 5, 0, "up", **gap), fixtures.row(6, 6, 0, "udp/a->b", **gap)]
    incomplete = fixtures.row(7, 7, 0, "udp/c->d", kind="capture dropped", detail="x", count=1)
    both = [fixtures.row(8, 8, 0, "udp/a->b", **(gap | {"sn": 20}))]
    for case, more, expected in [
        ("network", [], {"recording": 3, "network": 3}),
        ("unknown", [incomplete, *both], {"recording": 3, "unknown": 6}),
    ]:
        lake = lake_of_rows(
            tmp_path / case, events=[*events, *more], messages=[fixtures.row(0, 0, 0, "up", type="FRAME")]
        )
        [found] = report.data(lake)["recordings"]
        assert {each["cause"]: each["missing"] for each in found["losses"]["causes"]} == expected
        assert found["losses"]["lost"] == expected.get("network", 0)
        assert not any(finding["level"] == "good" for finding in found["findings"])


def test_parts_of_the_keys_give_the_same_figures(recording, monkeypatch):
    monkeypatch.setattr(hop_tables, "PART_ROWS", 100)
    assert report.data(sample())["recordings"][0] == recording


def test_keys_that_differ_in_one_chunk_are_one_group_if_there_are_too_many():
    keys = [f"robot/{i}/{sensor}" for i in range(20) for sensor in ("imu", "pose")] + [
        "base/cmd",
        "base/map",
        "robot/1/x/y",
    ]
    groups = group_keys(keys, 24)
    assert set(groups.values()) == {"robot/*/imu", "robot/*/pose", "base/cmd", "base/map", "robot/1/x/y"}
    assert groups["robot/7/imu"] == "robot/*/imu"
    assert set(group_keys(keys[:24], 24).values()) == set(keys[:24])
    different = [f"{i}/{i}" for i in range(30)]
    assert set(group_keys(different, 24).values()) == set(different)


@pytest.mark.parametrize("path", PCAPS, ids=lambda path: path.stem)
def test_every_recorded_capture_makes_a_page(path):
    assert report.page(path).startswith("<!DOCTYPE html>")


def test_the_comparison_matches_the_robots_and_the_operator(tmp_path):
    robots, base = halves(tmp_path)
    compared = report.data(robots, base)["comparison"]
    published = {
        (row["key"], row["payload"], row["source_sn"])
        for row in zenlake.read(base).to_pylist()
        if row["request_id"] is None
    }
    assert compared["totals"] | {"sent": 0, "seen": 0, "in_b": 0} == {
        "sent": 0, "seen": 0, "in_b": 0, "missing": 0, "outside": 0, "only_b": 0,
    }  # fmt: skip
    assert compared["totals"]["sent"] == compared["totals"]["seen"] >= len(published)
    assert {row["by_what"] for row in compared["by_what"]} == {"source", "key and value"}  # the router stamps the rest
    assert 0 < compared["delay"]["p50"] < 10


def test_samples_absent_from_the_second_recording_are_missing_or_outside(tmp_path):
    robots, base = halves(tmp_path)
    rows = [row for row in zenlake.read(base).to_pylist() if row["request_id"] is None]
    times = sorted(row["received"] for row in rows)
    hole, end = (times[len(times) * part // 10].timestamp() for part in (4, 8))
    operator = int(rows[0]["session"].split("->")[0].rsplit(":")[-1])
    # A capture that ends a fifth too early, and in which two seconds are gone.
    cut = part_of_sample(
        tmp_path / "cut.pcap", lambda time, port: port == operator and time < end and not hole < time < hole + 2
    )
    left = sum(row["request_id"] is None for row in zenlake.read(cut).to_pylist())
    compared = report.data(robots, cut)["comparison"]
    totals = compared["totals"]
    assert totals["in_b"] == left
    assert totals["seen"] + totals["missing"] + totals["outside"] == totals["sent"]
    assert sum(row["missing"] for row in compared["keys"]["rows"]) == totals["missing"] == compared["missing"]["total"]
    gone = sum(hole < time.timestamp() < hole + 2 for time in times)
    assert 0.9 * gone <= totals["missing"] <= 1.2 * gone + 3
    assert totals["outside"] >= len(times) // 5 - 5


def test_the_page_does_not_grow_with_keys_sessions_and_queries(monkeypatch):
    limits = {
        traffic: ("KEYS",),
        losses: ("LANES", "SOURCES", "RUNS"),
        gets: ("SLOWEST", "KEYS"),
        deliveries: ("PAIRS",),
    }
    for module, names in limits.items():
        for name in names:
            monkeypatch.setattr(module, name, 3)
    monkeypatch.setattr(timing, "KEYS", 3)
    [short] = report.data(sample())["recordings"]
    assert len(short["traffic"]["keys"]["rows"]) == 3
    assert short["traffic"]["keys"]["total"] == 26
    assert (len(short["losses"]["lanes"]["rows"]), short["losses"]["lanes"]["total"]) == (3, 35)
    assert (len(short["gets"]["slowest"]["rows"]), short["gets"]["slowest"]["total"]) == (3, 67)
    assert (len(short["deliveries"]["pairs"]["rows"]), short["deliveries"]["pairs"]["total"]) == (3, 6)
    assert len(embed(short)) < 90_000


def test_embedded_json_has_no_character_that_ends_its_element():
    value = {"key": "</script><!--&\u2028\u2029"}
    text = embed(value)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == value


def test_the_chart_library_matches_the_design_page():
    vendor = files("zenlake.report") / "vendor"
    digest = hashlib.sha256((vendor / "echarts.min.js").read_bytes()).hexdigest()
    assert f"sha256 `{digest}`" in (HERE / "design" / "report.md").read_text()
    assert "Apache License" in (vendor / "echarts.LICENSE").read_text()


def test_a_folder_without_readable_files_is_refused(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InvalidValue, match="is a folder without captures"):
        report.data(tmp_path)


def test_the_deprecated_name_of_the_progress_callback_works():
    messages = []
    with pytest.warns(DeprecationWarning, match="use `progress`"):
        report.data(sample(), said=messages.append)
    assert messages[0].startswith("reading ")
