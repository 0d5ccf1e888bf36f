# SPDX-License-Identifier: Apache-2.0
"""A recording router: its log equals a capture, and contains the ids of forwarded requests."""

import json
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import zenlake
from tests.cli.test_router_command import start  # noqa: F401
from tests.interop.nodes import Ours, Theirs, knows, until
from zenlake.log.recorder import Recorder
from zenlake.log.writer import Writer
from zenlake.tap.connection_recorder import ConnectionRecorder

pytestmark = pytest.mark.interop

# Columns that differ between a log and a capture, or that only one of them has.
DIFFER = {"received", "received_ns", "log", "writer", "segment", "block", "row", "file", "packet", "session", "index"}


class Capture:
    """A process of tcpdump for one port of the loopback interface."""

    def __init__(self, path: Path, port: str) -> None:
        if shutil.which("tcpdump") is None:
            pytest.skip("tcpdump is not installed")
        self.path = path
        self._process = subprocess.Popen(
            ["tcpdump", "-i", "lo", "-U", "--immediate-mode", "-B", "16384", "-w", str(path), "tcp", "port", port],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if "listening on" in line:
                return
            if "permission" in line:
                break
        self._process.wait(5)
        self._process.stderr.close()
        pytest.skip("tcpdump may not listen here")

    def stop(self) -> None:
        """Wait until nothing was added for a moment."""
        size = -1
        while size != (size := self.path.stat().st_size):
            time.sleep(0.3)
        self._process.terminate()
        self._process.communicate(timeout=5)


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    recorder = Recorder(Writer(tmp_path / "log", "router"))
    yield recorder
    recorder.close()


def rows(path: Path) -> dict[object, list[dict[str, object]]]:
    """Return the messages of each session, in order. The ids of its two ends identify a session."""
    found: dict[object, list[dict[str, object]]] = {}
    for row in zenlake.read(path, "messages").to_pylist():
        found.setdefault(row["session"], []).append({name: row[name] for name in row if name not in DIFFER})
    ordered = {}
    for messages in found.values():
        for direction in (0, 1):  # separately, because the order between directions differs at the router
            way = [message for message in messages if message["direction"] == direction]
            ordered[str(messages[0].get("zid") or messages[0]), direction] = way
    return ordered


def test_the_log_of_a_recording_router_equals_a_capture_of_the_same_traffic(tmp_path: Path, recorder: Recorder) -> None:
    router = Ours("router", listen=("tcp/127.0.0.1:0",), recording=ConnectionRecorder(recorder))
    where = router.locators[0]
    capture = Capture(tmp_path / "wire.pcap", where.rpartition(":")[2])
    one, two = Theirs("client", (where,)), Theirs("client", (where,))
    two.do("sub", "s", "a/**")
    two.do("queryable", "q", "a/q", "twice")
    knows(router, "a/**", "a/q")
    one.do("pub", "p", "a/p")
    for n in range(20):
        one.do("put", f"a/{n}", f"value {n}")
        one.do("publish", "p", f"published {n}")
    one.do("put", "a/large", 200_000)
    one.do("delete", "a/0")
    assert len(one.do("get", "a/q", consolidation="NONE")) == 2
    two.do("token", "t", "alive/t")
    knows(router, "alive/t")
    assert one.do("who", "alive/**") == ["alive/t"]
    two.events.wait("sample", "s", 42)
    one.close()
    two.close()
    until(lambda: not router.node.faces())
    router.close()
    recorder.close()
    capture.stop()
    logged, seen = rows(tmp_path / "log"), rows(tmp_path / "wire.pcap")
    types = Counter(message["type"] for messages in logged.values() for message in messages)
    assert types["PUSH"] == 2 * 42  # incoming and outgoing; the number of messages in a FRAME depends on the timing
    assert logged.keys() == seen.keys()
    for way in logged:
        assert logged[way] == seen[way]


def test_a_forwarded_request_has_both_of_its_ids(tmp_path: Path, recorder: Recorder) -> None:
    router = Ours("router", listen=("tcp/127.0.0.1:0",), recording=ConnectionRecorder(recorder))
    where = router.locators[0]
    one, two = Theirs("client", (where,)), Theirs("client", (where,))
    two.do("queryable", "q", "a/q", "reply")
    knows(router, "a/q")
    for _ in range(3):
        assert one.do("get", "a/q") == [["put", "a/q", "of q"]]
    one.close()
    two.close()
    router.close()
    recorder.close()
    events = zenlake.read(tmp_path / "log", "events").to_pylist()
    hop, *_ = hops = [json.loads(event["detail"]) for event in events if event["kind"] == "forwarded"]
    requests = [
        (row["session"], row["id"]) for row in zenlake.read(tmp_path / "log", "messages").to_pylist() if row["type"] == "REQUEST"
    ]  # fmt: skip
    assert len(hops) == 3
    assert requests[:2] == [(hop["from_session"], hop["from_id"]), (hop["to_session"], hop["to_id"])]
    queries = zenlake.read(tmp_path / "log", "queries").sort_by("received").to_pylist()
    legs = [(row["from_session"], row["from_request_id"], row["replies"]) for row in queries]
    assert legs == [(None, None, 1), (hop["from_session"], hop["from_id"], 1)] + [
        leg for each in hops[1:] for leg in ((None, None, 1), (each["from_session"], each["from_id"], 1))
    ]


@pytest.mark.parametrize("remembered", [True, False])
def test_a_session_over_udp_is_known_though_its_inits_were_answered_from_a_cookie(
    tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, remembered: bool
) -> None:
    if not remembered:  # because a flood of other requests came in between
        monkeypatch.setattr("zenlake.tap.connection_recorder.MAX_STORED_INITS", 0)
    router = Ours("router", listen=("udp/127.0.0.1:0",), recording=ConnectionRecorder(recorder))
    client = Theirs("client", router.locators)
    client.do("sub", "s", "over/udp")
    knows(router, "over/udp")
    client.close()
    until(lambda: not router.node.faces())
    router.close()
    recorder.close()
    log = tmp_path / "log"
    [opened] = [row for row in zenlake.read(log, "events").to_pylist() if row["kind"] == "opened"]
    ends = json.loads(opened["detail"])["ends"]
    assert [end["zid"] for end in ends] == [client.zid, router.zid]
    assert opened["generation"] == 1
    types = zenlake.read(log, "messages")["type"].to_pylist()
    assert types[:4] == ["INIT", "INIT", "OPEN", "OPEN"] if remembered else types[:2] == ["OPEN", "OPEN"]
    assert "over/udp" in zenlake.read(log, "declarations")["key"].to_pylist()
    assert zenlake.read(log, "errors").num_rows == 0


def test_record_subscribes_to_some_keys_and_records_forwarded_traffic_of_others(tmp_path: Path, start: Any) -> None:  # noqa: F811
    """A publisher without subscribers sends nothing. A recording router subscribes to the keys of `--record`."""
    process, said = start("-l", "tcp/127.0.0.1:0", "--log", tmp_path / "log", "--record", "fleet/**")
    where = said.split(" listens on ")[1].split(",")[0]
    publisher = Theirs("client", (where,))
    publisher.do("pub", "wanted", "fleet/a/pose")
    publisher.do("pub", "other", "lab/temperature")
    if not publisher.do("matching", "wanted"):
        publisher.events.wait("matching", "wanted")
    assert publisher.do("get", "no/queryable") == []  # now it knows all subscribers; earlier it sends every sample
    assert not publisher.do("matching", "other")
    for i in range(20):
        publisher.do("publish", "wanted", f"pose {i}")
        publisher.do("publish", "other", f"unheard {i}")
    reader = Theirs("client", (where,))
    reader.do("sub", "s", "lab/**")
    publisher.events.wait("matching", "other")
    publisher.do("publish", "other", "heard")
    reader.events.wait("sample", "s")
    publisher.close()
    reader.close()
    process.send_signal(signal.SIGTERM)
    assert "is sealed" in process.communicate(timeout=60)[1]
    samples = zenlake.read(tmp_path / "log", "samples", columns=["key", "payload"]).to_pylist()
    assert Counter((row["key"], row["payload"].decode()) for row in samples) == Counter(
        {
            **{("fleet/a/pose", f"pose {i}"): 1 for i in range(20)},
            ("lab/temperature", "heard"): 2,
        }  # it was received and forwarded
    )


def test_a_hundred_puts_with_two_subscribers_are_a_hundred_publications(tmp_path: Path, recorder: Recorder) -> None:
    router = Ours("router", listen=("tcp/127.0.0.1:0",), recording=ConnectionRecorder(recorder))
    where = router.locators[0]
    publisher, *subscribers = (Theirs("client", (where,)) for _ in range(3))
    for n, subscriber in enumerate(subscribers):
        subscriber.do("sub", f"s{n}", "a/**")
    knows(router, "a/**")
    for n in range(100):
        publisher.do("put", "a/p", f"value {n % 7}")
    for n, subscriber in enumerate(subscribers):
        subscriber.events.wait("sample", f"s{n}", 100)
    for node in (publisher, *subscribers):
        node.close()
    until(lambda: not router.node.faces())
    router.close()
    recorder.close()
    log = tmp_path / "log"
    assert zenlake.read(log).num_rows == 300
    publications = zenlake.read(log, "publications").to_pylist()
    assert Counter((row["hops"], row["identified"]) for row in publications) == {(3, "order"): 100}
    assert len({row["publisher"] for row in publications}) == 1
    deliveries = zenlake.read(log, "deliveries").to_pylist()
    assert sorted(Counter((row["subscriber"], row["publisher"], row["hops"]) for row in deliveries).values()) == [
        100,
        100,
    ]
    assert zenlake.read(log, once=True).num_rows == 100
