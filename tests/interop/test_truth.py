# SPDX-License-Identifier: Apache-2.0
"""Compare the tables of a fleet with the counts of its senders, its relay and its receivers.

Twenty robots on the real Zenoh publish to a router in another network namespace, ours or the real one. Six of them reach it by UDP
through a relay that drops some datagrams. One subscriber is slow, one robot leaves, and queries fail. Afterwards, captures at the
router and the log of our router are read. The counts use no code of Zenlake.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import zenlake
import zenlake.report
from tests.interop.conftest import apart
from tests.interop.fleet_node import QUERIES

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("tcpdump") is None, reason="needs root and tcpdump"),
]

ROOT = Path(__file__).parents[2]
ROUTER, FIELD = "10.91.0.1", "10.91.0.2"
TCP, UDP = f"tcp/{ROUTER}:7447", f"udp/{FIELD}:7448"
DOCUMENTED = "port 7447 or (udp and port 7446) or ip[6:2] & 0x1fff != 0 or ip6[6] == 44"
BY_PORT = "tcp port 7447 or udp port 7447"
ROBOTS = [f"robot{n:02}" for n in range(20)]
BY_UDP, LEAVER = ROBOTS[:6], ROBOTS[19]
KINDS = ("imu", "status", "end", "camera")
VIEWS = ("publications", "deliveries", "subscriptions", "matrix", "gets", "gaps", "sessions")


class Process:
    """A process of the fleet. It replies to each line with a line."""

    def __init__(self, prefix: tuple[str, ...], *command: str) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", *command],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.zid = ""

    def send_line(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def read_line(self, expected: str = "") -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line.startswith(expected), (self.process.args, line)
        return line

    def account(self) -> dict[str, Any]:
        self.send_line("account")
        found: dict[str, Any] = json.loads(self.read_line("{"))
        return found

    def end(self) -> None:
        self.process.communicate()


class Accounts:
    """The counts of senders, relay and receivers."""

    def __init__(
        self, folder: Path, zids: dict[str, str], nodes: dict[str, dict[str, Any]], relay: dict[str, Any]
    ) -> None:
        self.folder = folder
        self.zids = zids
        self.nodes = nodes
        self.relay = relay

    def undelivered(self) -> int:
        """Return the number of publications that reached the router and not their subscribers."""
        published = [(key, count) for (_, key), count in self.published().items() if key.startswith("fleet/")]
        wanted = sum(count * (2 if key.endswith("/camera") else 1) for key, count in published)
        receivers = {self.zids["collector"], self.zids["slow"]}
        return wanted - sum(count for (_, zid), count in self.delivered().items() if zid in receivers)

    def relay_frames(self) -> int:
        return sum(self.relay["frames"].values())

    def dropped(self, name: str, kind: str) -> list[int]:
        """Return the numbers of a robot's publications that the relay dropped."""
        found: list[int] = self.relay["dropped"].get(name, {}).get(kind, [])
        return found

    def pictures(self, name: str) -> set[int]:
        """Return the numbers of a robot's pictures that reached the router."""
        numbers = range(self.nodes[name]["sent"]["camera"] + len(self.nodes[name]["withheld"]))
        return set(numbers) - set(self.nodes[name]["withheld"]) - set(self.dropped(name, "camera"))

    def published(self) -> Counter[tuple[str, str]]:
        """Return the publications that reached the router, by publisher and key."""
        found: Counter[tuple[str, str]] = Counter()
        for name in ROBOTS:
            for kind, count in self.nodes[name]["sent"].items():
                found[self.zids[name], f"fleet/{name}/{kind}"] = count - len(self.dropped(name, kind))
        found[self.zids["operator"], "cmd/all"] = self.nodes["operator"]["sent"]["cmd"]
        return found

    def delivered(self) -> Counter[tuple[str, str]]:
        """Return the publications that arrived, by publisher and subscriber."""
        found: Counter[tuple[str, str]] = Counter()
        for receiver in ("collector", "slow"):
            for name, count in self.nodes[receiver]["received"].items():
                found[self.zids[name], self.zids[receiver]] = count
        for name in ROBOTS:
            found[self.zids["operator"], self.zids[name]] = self.nodes[name]["heard"]
        return found


@contextmanager
def veth() -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return the prefixes of commands in two network namespaces with a wire between them."""
    up = "ip link set lo up"
    with apart((up,)) as router, apart((up,)) as field:
        [pid] = [word.split("/")[2] for word in field if "/proc/" in word]
        for prefix, command in (
            (router, f"ip link add wire0 type veth peer name wire1 netns {pid}"),
            (router, f"ip addr add {ROUTER}/24 dev wire0"),
            (router, "ip link set wire0 up"),
            # A small queue: samples for a slow subscriber are dropped early.
            (router, "sysctl -q -w net.ipv4.tcp_wmem=4096,16384,131072"),
            (field, "sysctl -q -w net.ipv4.tcp_rmem=4096,65536,131072"),
            (field, f"ip addr add {FIELD}/24 dev wire1"),
            (field, "ip link set wire1 up"),
        ):
            words = [word.replace(",", " ") for word in command.split()]
            made = subprocess.run([*prefix, *words], capture_output=True, text=True)
            if made.returncode:
                pytest.skip(f"no wire between namespaces here: {made.stderr.strip()}")
        yield router, field


def dropped_by_the_kernel(prefix: tuple[str, ...]) -> int:
    """Return the number of datagrams that a full socket lost in a namespace."""
    text = subprocess.run([*prefix, "cat", "/proc/net/snmp"], capture_output=True, text=True, check=True).stdout
    names, values = (line.split()[1:] for line in text.splitlines() if line.startswith("Udp:"))
    counts = dict(zip(names, map(int, values), strict=True))
    return counts["RcvbufErrors"] + counts["SndbufErrors"]


@contextmanager
def capturing(prefix: tuple[str, ...], path: Path, filter_: str) -> Iterator[None]:
    command = [
        "tcpdump",
        "-i",
        "wire0",
        "-U",
        "--immediate-mode",
        "-B",
        "65536",
        "-Z",
        "root",
        "-w",
        str(path),
        filter_,
    ]
    process = subprocess.Popen([*prefix, *command], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert any("listening on" in line for line in process.stderr), "tcpdump does not listen"
    yield
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert "\n0 packets dropped by kernel" in said, said


@contextmanager
def our_router(prefix: tuple[str, ...], log: Path, *endpoints: str) -> Iterator[None]:
    """Run our router, which records a log."""
    listen = [word for endpoint in endpoints for word in ("-l", endpoint)]
    router = subprocess.Popen(
        [*prefix, str(Path(sys.executable).with_name("zenlake")), "router", *listen, "--log", str(log)],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert router.stderr is not None
    assert "listens on" in router.stderr.readline()
    yield
    router.send_signal(signal.SIGTERM)
    assert "is sealed" in router.communicate(timeout=60)[1]


@contextmanager
def their_router(prefix: tuple[str, ...], *endpoints: str) -> Iterator[None]:
    """Run the real Zenoh as a router."""
    settings = json.dumps({"mode": "router", "listen/endpoints": endpoints})
    router = Process(prefix, "tests.interop.wheel", settings)
    router.read_line("READY")
    yield
    router.send_line("close")
    router.read_line("CLOSED")
    router.end()


def run_fleet(folder: Path, seconds: float, is_ours: bool) -> Accounts:
    """Run the scenario. Return the accounts, and leave `wire.pcap`, `old.pcap` and the `log` of our router in the folder."""
    endpoints = f"tcp/{ROUTER}:7447", f"udp/{ROUTER}:7447"
    with veth() as (at_router, in_field):
        router = our_router(at_router, folder / "log", *endpoints) if is_ours else their_router(at_router, *endpoints)
        with (
            router,
            capturing(at_router, folder / "wire.pcap", DOCUMENTED),
            capturing(at_router, folder / "old.pcap", BY_PORT),
        ):
            relay = Process(
                in_field, "tests.interop.lossy_relay", UDP.removeprefix("udp/"), f"{ROUTER}:7447", "0.08"
            )  # fmt: skip
            relay.read_line("READY")

            def node(role: str, name: str, endpoint: str = TCP, **options: Any) -> Process:
                return Process(in_field, "tests.interop.fleet_node", role, name, endpoint, json.dumps(options))

            nodes = {
                "operator": node("operator", "operator", commands=int(seconds * 5)),
                "collector": node("receiver", "collector", key="fleet/**", pause=0),
                "slow": node("receiver", "slow", key="fleet/*/camera", pause=0.1),
            }
            for n, name in enumerate(ROBOTS):
                nodes[name] = node(
                    "robot", name, UDP if name in BY_UDP else TCP,
                    seconds=seconds, queries=2 if n in (8, 9, 10) else 0,
                    leaves=name == LEAVER, withholds=n in (10, 11),
                )  # fmt: skip
            for each in nodes.values():
                each.zid = each.read_line("READY").split()[1]
            for name in ("operator", *ROBOTS):
                nodes[name].send_line("matched")
            for name in ("operator", *ROBOTS):
                nodes[name].read_line("MATCHED")
            time.sleep(0.2)  # until each subscription counts in the matrix
            for name in (*ROBOTS, "operator"):
                nodes[name].send_line("go")
            for name in (*ROBOTS, "operator"):
                nodes[name].read_line("DONE")
            for receiver in ("collector", "slow"):
                nodes[receiver].send_line("account")
            said = {receiver: json.loads(nodes[receiver].read_line("{")) for receiver in ("collector", "slow")}
            said |= {name: nodes[name].account() for name in ("operator", *ROBOTS)}
            dropped = relay.account()
            for each in nodes.values():
                each.send_line("close")
            for each in nodes.values():
                each.end()
            relay.send_line("close")
            relay.end()
            time.sleep(0.3)
        kernel = dropped_by_the_kernel(at_router) + dropped_by_the_kernel(in_field)
    assert kernel == 0, "the machine is too busy: a socket lost datagrams, which no account has"
    return Accounts(folder, {name: each.zid for name, each in nodes.items()}, said, dropped)


@pytest.fixture(scope="module")
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Accounts:
    """Run the scenario. The parameter is the router: `ours`, `theirs`, or one of them for a longer time."""
    router, _, long = request.param.partition(" ")
    return run_fleet(tmp_path_factory.mktemp("fleet"), 60.0 if long else 6.0, router == "ours")


_read: dict[Path, dict[str, list[dict[str, Any]]]] = {}


def read(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of all views of a recording."""
    if path not in _read:
        _read[path] = {name: zenlake.read(path, name).to_pylist() for name in VIEWS}
    return _read[path]


ROUTERS = ["ours", "theirs", *(pytest.param(name, marks=pytest.mark.slow) for name in ("ours long", "theirs long"))]
EACH = pytest.mark.parametrize(
    ("fleet", "recording"),
    [
        ("ours", "log"),
        ("ours", "wire.pcap"),
        ("theirs", "wire.pcap"),
        pytest.param("ours long", "log", marks=pytest.mark.slow),
        pytest.param("ours long", "wire.pcap", marks=pytest.mark.slow),
        pytest.param("theirs long", "wire.pcap", marks=pytest.mark.slow),
    ],
    indirect=["fleet"],
)


@EACH
def test_publications_are_what_was_sent_and_not_dropped(fleet: Accounts, recording: str) -> None:
    rows = read(fleet.folder / recording)["publications"]
    assert Counter((row["publisher"], row["key"]) for row in rows) == fleet.published()
    assert {row["identified"] for row in rows} <= {"order", "source"}
    sizes = Counter({name: sum(fleet.nodes[name]["bytes"].values()) for name in ROBOTS if name not in BY_UDP})
    names = {zid: name for name, zid in fleet.zids.items()}
    found: Counter[str] = Counter()
    for row in rows:
        if names[row["publisher"]] in sizes:
            found[names[row["publisher"]]] += row["payload_size"]
    assert found == sizes
    assert zenlake.read(fleet.folder / recording, once=True, columns=["key"]).num_rows == len(rows)


@EACH
def test_deliveries_are_what_the_receivers_received(fleet: Accounts, recording: str) -> None:
    rows = read(fleet.folder / recording)["deliveries"]
    assert Counter((row["publisher"], row["subscriber"]) for row in rows) == fleet.delivered()
    assert {(row["hops"], row["forwarded"]) for row in rows} == {(2, False)}


@EACH
def test_every_cell_of_the_matrix(fleet: Accounts, recording: str) -> None:
    published, delivered = fleet.published(), fleet.delivered()
    expected = {}
    for name in ROBOTS:
        zid = fleet.zids[name]
        for receiver, kinds in (("collector", KINDS), ("slow", ("camera",))):
            matched = sum(published[zid, f"fleet/{name}/{kind}"] for kind in kinds)
            got = delivered[zid, fleet.zids[receiver]]
            expected[name, receiver] = (matched, got, got / matched)
        got = delivered[fleet.zids["operator"], zid]
        expected["operator", name] = (got if name == LEAVER else published[fleet.zids["operator"], "cmd/all"], got)
    names = {zid: name for name, zid in fleet.zids.items()}
    found = {}
    for row in read(fleet.folder / recording)["matrix"]:
        cell = names[row["publisher"]], names[row["subscriber"]]
        found[cell] = (row["matched"], row["delivered"], row["share"])[: len(expected.get(cell, "   "))]
        assert (row["direct"], row["undecided"]) == (0, 0)
    # How many commands matched while the robot left is not known exactly.
    matched, got = found["operator", LEAVER]
    assert 0 <= matched - got <= 3
    found["operator", LEAVER] = (got, got)
    assert found == expected


@EACH
def test_the_age_of_what_a_slow_subscriber_received(fleet: Accounts, recording: str) -> None:
    """The age at the receiver includes the whole path, the age in the recording only the path to the connection of the router."""
    names = {zid: name for name, zid in fleet.zids.items()}
    for row in read(fleet.folder / recording)["matrix"]:
        receiver = names[row["subscriber"]]
        if receiver in ("collector", "slow") and row["delivered"]:
            assert 0 <= row["age_p50"] <= row["age_p99"] <= row["age_max"]
            assert row["age_max"] / 1e6 <= fleet.nodes[receiver]["oldest"][names[row["publisher"]]] + 0.05


@EACH
def test_gets_are_the_queries_of_the_robots(fleet: Accounts, recording: str) -> None:
    rows = read(fleet.folder / recording)["gets"]
    expected = {fleet.zids[name]: fleet.nodes[name]["outcomes"] for name in ROBOTS if fleet.nodes[name]["outcomes"]}
    found: dict[str, Counter[str]] = {}
    for row in rows:
        found.setdefault(row["querier"], Counter())[row["outcome"]] += 1
    assert found == expected
    assert {(row["key"], row["outcome"]) for row in rows} == set(QUERIES.items())
    assert sum(row["replies"] for row in rows) == fleet.nodes["operator"]["asked"]


@EACH
def test_each_loss_is_counted_once_and_has_its_cause(fleet: Accounts, recording: str) -> None:
    lost = lost_by_sender(fleet, recording)
    assert lost == fleet.relay["frames"]
    rows = read(fleet.folder / recording)["gaps"]
    found: Counter[tuple[str, str]] = Counter()
    for row in rows:
        if not row["repeated"]:
            found[row["scope"], row["cause"]] += row["missing"]
    assert found == {
        ("lane", "network"): lost.total(),
        ("source", "sender"): sum(len(fleet.nodes[name]["withheld"]) for name in ROBOTS),
        ("source", "router"): dropped_by_router(fleet),
    }


def dropped_by_router(fleet: Accounts) -> int:
    """Return the number of pictures that the router received and did not send on, to the slow subscriber for example."""
    return sum(len(between(fleet.pictures(name), seen)) for name, seen in received_pictures(fleet))


def received_pictures(fleet: Accounts) -> list[tuple[str, list[int]]]:
    found = [fleet.nodes[receiver]["pictures"] for receiver in ("collector", "slow")]
    return [(name, pictures[name]) for pictures in found for name in ROBOTS if name in pictures]


def between(numbers: Iterable[int], seen: list[int]) -> set[int]:
    """Return the numbers that are missing in `seen`, between its first and its last."""
    return {number for number in numbers if seen[0] < number < seen[-1]} - set(seen)


@EACH
def test_the_same_loss_on_later_hops_is_marked_with_its_cause(fleet: Accounts, recording: str) -> None:
    found: Counter[str] = Counter()
    for row in read(fleet.folder / recording)["gaps"]:
        if row["repeated"]:
            assert row["scope"] == "source"
            found[row["cause"]] += row["missing"]
    expected: Counter[str] = Counter()
    hops = [(name, sorted(fleet.pictures(name))) for name in ROBOTS]  # into the router
    for name, seen in hops:
        expected["network"] += len(between(fleet.dropped(name, "camera"), seen))
    for name, seen in received_pictures(fleet):
        expected["later"] += len(between([*fleet.dropped(name, "camera"), *fleet.nodes[name]["withheld"]], seen))
    # Between two pictures that a receiver received, several causes may have one row.
    assert found["network"] >= expected["network"]
    assert found.total() == expected.total()


def lost_by_sender(fleet: Accounts, recording: str, cause: str = "network") -> Counter[str]:
    """Return the missing frames of a cause by robot."""
    tables = read(fleet.folder / recording)
    names = {zid: name for name, zid in fleet.zids.items()}
    openers = {row["session"]: names[row["opener_zid"]] for row in tables["sessions"] if row["opener_zid"]}
    found: Counter[str] = Counter()
    for row in tables["gaps"]:
        if row["cause"] == cause and row["scope"] == "lane":
            assert row["direction"] == 0
            found[openers[row["session"]]] += row["missing"]
    return found


@EACH
def test_subscriptions_are_those_that_were_declared(fleet: Accounts, recording: str) -> None:
    rows = read(fleet.folder / recording)["subscriptions"]
    expected = {(fleet.zids[name], "cmd/**", "session") for name in ROBOTS}
    expected |= {(fleet.zids["collector"], "fleet/**", "session"), (fleet.zids["slow"], "fleet/*/camera", "session")}
    expected |= {(fleet.zids["operator"], "moment/**", "undeclared")}
    assert {(row["subscriber"], row["key"], row["ended_by"]) for row in rows} == expected
    assert len(rows) == len(expected)
    ends = sorted((row["ended"], row["subscriber"]) for row in rows if row["ended_by"] == "session")
    assert ends[0][1] == fleet.zids[LEAVER]


@EACH
def test_the_headline_and_the_findings_of_the_report(fleet: Accounts, recording: str) -> None:
    [figures] = zenlake.report.data(str(fleet.folder / recording))["recordings"]
    overview = figures["overview"]
    outcomes: Counter[str] = sum((Counter(fleet.nodes[name]["outcomes"]) for name in ROBOTS), Counter())
    delivered = fleet.delivered()
    assert {name: overview[name] for name in ("publications", "deliveries", "gets", "answered", "empty", "failed", "open")} == {
        "publications": fleet.published().total(), "deliveries": delivered.total(), "gets": outcomes.total(),
        "answered": outcomes["answered"], "empty": outcomes["empty"], "failed": outcomes["error"] + outcomes["timeout"],
        "open": 0,
    }  # fmt: skip
    low = {}
    for receiver, key, kinds in (("slow", "fleet/*/camera", ("camera",)), ("collector", "fleet/**", KINDS)):
        matched = sum(count for (_, each), count in fleet.published().items() if each.split("/")[-1] in kinds)
        share = sum(count for (_, zid), count in delivered.items() if zid == fleet.zids[receiver]) / matched
        if share < 0.995:
            text = f"{int(1000 * share) / 10:.{0 if share < 0.99 else 1}f} %"
            low[fleet.zids[receiver][:8]] = (
                f"{fleet.zids[receiver][:8]} ({key}) received {text} of what it subscribed to"
            )
    assert fleet.zids["slow"][:8] in low
    # The router itself counts what it drops, also before the first picture that a receiver received.
    more = fleet.undelivered() - dropped_by_router(fleet) if recording == "log" else 0
    found = {finding["text"] for finding in figures["findings"]}
    assert {
        text for text in found if not text.startswith("Samples to") and " about missing or repeated " not in text
    } == {
        f"{fleet.relay_frames():,} frames were lost in the network",
        f"{dropped_by_router(fleet):,} samples were dropped by routers",
        f"{sum(len(fleet.nodes[name]['withheld']) for name in ROBOTS):,} samples were not sent by their publishers' nodes",
        *low.values(),
        *([f"{more:,} messages were dropped for slow neighbours"] if more else []),
        f"{outcomes['timeout']} gets timed out",
        f"{outcomes['error']} gets were answered with an error",
        f"{outcomes['empty']} gets had no reply",
        "1 key expression was subscribed and has no publisher",
    }


@pytest.mark.parametrize("fleet", ROUTERS, indirect=True)
def test_a_capture_by_port_distinguishes_its_own_gaps_from_network_losses(fleet: Accounts) -> None:
    """Such a filter drops all IP fragments but the first, so the large datagrams are missing in the recording."""
    assert lost_by_sender(fleet, "old.pcap") == fleet.relay["frames"]
    assert lost_by_sender(fleet, "old.pcap", "recording") == fleet.relay["large"]
    tables = read(fleet.folder / "old.pcap")
    assert {row["cause"] for row in tables["gaps"] if row["scope"] == "lane"} == {"network", "recording"}
    # Their publications were forwarded, so they are counted, without the publisher that the recording does not show.
    # Unless the router did not forward them.
    missed = 0
    for name in BY_UDP:
        missed += len(fleet.pictures(name) - set(fleet.nodes["collector"]["pictures"][name]))
    assert fleet.published().total() - missed <= len(tables["publications"]) <= fleet.published().total()
    unknown = Counter(row["key"].split("/")[1] for row in tables["publications"] if row["publisher"] is None)
    assert set(unknown) == set(BY_UDP)
