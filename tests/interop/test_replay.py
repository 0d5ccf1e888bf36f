# SPDX-License-Identifier: Apache-2.0
"""Recorded by a tap, replayed through the real router, recorded again: the same samples at the same pace."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import zenlake
from tests.cli.test_tables_commands import run  # noqa: F401
from tests.interop.nodes import PATIENCE, Theirs
from tests.interop.test_commands import ZENLAKE, Router
from tests.interop.test_tap import received
from tests.lake.test_commit import land
from tests.runtime.nodes import until
from zenlake.api.session import Session
from zenlake.core.enums import CongestionControl, Priority
from zenlake.lake import Lake, LandingBatch
from zenlake.log import Log
from zenlake.replay import Replay
from zenlake.sample_captures import sample as example
from zenlake.tap.tap import Tap

SAME = ["key", "kind", "payload", "encoding", "schema", "attachment", "priority", "congestion", "express", "reliable"]
KEYS = ("fleet/r1/pose", "fleet/r1/log", "fleet/r2/pose")
BLOCK = CongestionControl.BLOCK


@pytest.fixture(scope="module")
def router(ports: Iterator[int]) -> Iterator[Router]:
    made = Router(next(ports))
    yield made
    made.shell.close()


def client(where: str) -> Session:
    config = zenlake.Config()
    config.insert_json5("mode", '"client"')
    config.insert_json5("connect/endpoints", json.dumps([where]))
    return zenlake.open(config)


@pytest.fixture(scope="module")
def recorded(router: Router, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish a second of traffic: three keys, irregular intervals, and every field of a sample."""
    log = tmp_path_factory.mktemp("recorded")
    with Tap(log, ["fleet/**"], connect=[router.where]) as tap, client(router.where) as session:
        for number in range(60):
            key = KEYS[number % 3]
            # one priority for each key, because samples of a higher priority may overtake others
            priority = (Priority.DATA, Priority.REAL_TIME, Priority.BACKGROUND)[number % 3]
            session.put(
                key,
                b"%d" % number if number != 30 else bytes(150_000),
                encoding=("zenoh/bytes", "text/plain;utf-8", "application/json")[number % 3],
                attachment=b"\xff%d" % number if number % 2 else None,
                priority=priority,
                congestion_control=BLOCK,
                express=number % 3 == 1,
            )
            if number % 20 == 19:
                session.delete(key, priority=priority, congestion_control=BLOCK)
            time.sleep(0.005 if number % 5 else 0.05)  # the intervals are recorded
        until(received(tap, 63))
    return log


def record(router: Router, folder: Path, count: int, *words: str) -> tuple[list[str], pa.Table]:
    """Run `zenlake replay`. Return its output, and the samples that a tap recorded."""
    with Tap(folder, ["**"], connect=[router.where]) as tap:
        code, lines, err = router.run("replay", *words)
        assert code == 0, err
        until(received(tap, count))
    return lines, zenlake.read(folder)


def by_key(table: pa.Table, columns: list[str]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in table.select(["key", *columns]).to_pylist():
        found.setdefault(row.pop("key"), []).append(row)
    return found


@pytest.mark.parametrize("what", ["log", "lake"])
def test_the_same_samples_in_the_same_order_at_the_same_pace(
    router: Router, recorded: Path, tmp_path: Path, what: str
) -> None:
    before = zenlake.read(recorded)
    source = recorded
    if what == "lake":
        source = tmp_path / "lake"
        land(Lake(source, create="delta"), Log(recorded), LandingBatch("q", 0), tables=["samples"])
    [line], after = record(router, tmp_path / "again", 63, str(source), "--json")
    assert by_key(after, SAME[1:]) == by_key(before, SAME[1:])
    result = json.loads(line)
    assert (result["sent"], result["dropped"], result["skipped"]) == (63, 0, 0)
    errors = []
    for key, rows in by_key(before, ["received_ns"]).items():
        first = [row["received_ns"] for row in rows]
        second = [row["received_ns"] for row in by_key(after, ["received_ns"])[key]]
        errors += [abs((b - second[0]) - (a - first[0])) / 1e6 for a, b in zip(first, second, strict=True)]
    # The delay that the command reports bounds half of them. The machine causes the rest.
    assert sorted(errors)[len(errors) // 2] <= result["late_p99_ms"] + 5
    assert max(errors) <= result["late_max_ms"] + 100


def test_faster_renamed_a_part_and_with_its_own_timestamps(router: Router, recorded: Path, tmp_path: Path) -> None:
    before = zenlake.read(recorded, keys="fleet/r1/pose")
    words = (str(recorded), "--speed", "4", "--key", "fleet/r1/pose", "--rename", "fleet/r1=sim", "--keep-timestamps")
    _, after = record(router, tmp_path, before.num_rows, *words)
    assert after["key"].unique().to_pylist() == ["sim/pose"]
    assert after["payload"].to_pylist() == before["payload"].to_pylist()
    assert after["ntp64"].to_pylist() == before["ntp64"].to_pylist()
    took, was = (table["received_ns"][-1].as_py() - table["received_ns"][0].as_py() for table in (after, before))
    assert took == pytest.approx(was / 4, rel=0.5)


def test_replay_with_bounds_at_maximum_speed(router: Router, recorded: Path, tmp_path: Path) -> None:
    whole = zenlake.read(recorded)["received_ns"].to_pylist()
    wanted = sum(whole[0] + 0.2e9 <= at < whole[0] + 0.5e9 for at in whole)
    [line], after = record(router, tmp_path, wanted, str(recorded), "--from", "0.2", "--to", "0.5", "--speed", "0")
    assert abs(after.num_rows - wanted) <= 1  # received times are cut to microseconds
    assert line.startswith(f"{after.num_rows} samples in ")


def test_loop_continues_until_stopped(router: Router, recorded: Path) -> None:
    process = router.start("replay", str(recorded), "--speed", "0", "--loop")
    assert process.stdout is not None
    for _ in range(3):
        assert process.stdout.readline().startswith("63 samples in ")
    process.terminate()
    assert process.wait(15) == 0
    process.communicate()


def test_each_publication_of_a_capture_is_replayed_once(router: Router, tmp_path: Path) -> None:
    """A capture beside a router has incoming and outgoing samples: the incoming ones are replayed."""
    chosen = Replay(example(), speed=float("inf"))
    assert chosen.extent.sent_by == "opener"
    rows = zenlake.read(example()).filter(
        (pa.compute.field("direction") == 0) & pa.compute.field("request_id").is_null()
    )
    assert chosen.extent.samples == rows.num_rows
    with client(router.where) as session:
        outcome = chosen.run(session)
    assert outcome.sent + outcome.dropped + outcome.skipped == rows.num_rows


@pytest.mark.parametrize(
    ("code", "words", "why"),
    [
        (1, ("--key", "no/such"), "nothing to replay"),
        (1, ("there/is/none",), "there/is/none does not exist; expected a capture, a log or a lake"),
        (2, ("--from", "noon"), "expected a time like"),
        (2, ("--rename", "a"), "expected OLD=NEW, like robots/r1=sim/r1"),
        (2, ("--rename", "a//b=c"), "chunks cannot be empty"),
    ],
)
def test_mistakes_are_reported(recorded: Path, run: Any, code: int, words: tuple[str, ...], why: str) -> None:  # noqa: F811
    found, out, err = run("replay", str(recorded), *words)
    assert (found, out) == (code, b"")
    assert len(err.splitlines()) == 1
    assert why in err


@pytest.fixture
def found_router(ports: Iterator[int]) -> Iterator[tuple[Theirs, tuple[str, ...]]]:
    """A real router that only scouting finds, and the options of a command that scouts for it."""
    group = {"scouting/multicast/address": f"224.0.0.224:{next(ports)}", "scouting/multicast/interface": "lo"}
    made = Theirs("router", listen=(f"tcp/127.0.0.1:{next(ports)}",), **group, **{"scouting/multicast/enabled": True})
    yield made, tuple(word for name, value in group.items() for word in ("--set", f"{name}={value}"))
    made.close()


def test_replay_without_an_endpoint_names_the_nodes_and_refuses(
    found_router: tuple[Theirs, tuple[str, ...]], recorded: Path
) -> None:
    node, options = found_router
    node.do("sub", "all", "**")
    words = [ZENLAKE, "replay", str(recorded), "--speed", "0", *options]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"63 samples would go to router {node.zid} at tcp/127.0.0.1:" in done.stderr
    assert "name the endpoint, or use --yes" in done.stderr
    done = subprocess.run([*words, "--yes"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0
    # The shell prints samples without an attachment: half of the puts, and the deletes. Each comes from the second command.
    samples = [(key, kind, value) for key, kind, value, _ in node.events.wait("sample", "all", 33)]
    assert len(samples) == len(set(samples)) == 33


@pytest.mark.parametrize(("reply", "code", "samples"), [(b"n\n", 1, 0), (b"\x03", 130, 0), (b"y\n", 0, 63)])
def test_replay_without_an_endpoint_prompts_on_a_terminal(
    found_router: tuple[Theirs, tuple[str, ...]], recorded: Path, reply: bytes, code: int, samples: int
) -> None:
    node, options = found_router
    node.do("sub", "all", "**")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(ZENLAKE, [ZENLAKE, "replay", str(recorded), "--speed", "0", *options])
    shown = b""
    while b"[y/N]: " not in shown:
        shown += os.read(terminal, 4096)
    assert f"Publish 63 samples to router {node.zid} at ".encode() in shown
    os.write(terminal, reply)
    with contextlib.suppress(OSError):  # the end of a terminal
        while True:
            if select.select([terminal], [], [], 1)[0]:
                shown += os.read(terminal, 4096)
            elif reply == b"\x03":  # CPython may miss a signal that arrives just before the prompt waits
                os.write(terminal, reply)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code
    assert b"Traceback" not in shown
    assert (b"63 samples in" in shown) == (samples == 63)
    os.close(terminal)


def test_interrupted_replay_exits_with_130(router: Router, recorded: Path) -> None:
    process = router.start("replay", str(recorded), "--speed", "0.001")
    assert process.stderr is not None
    assert process.stderr.readline().startswith("63 samples of")
    node = client(router.where)
    with node.declare_subscriber("fleet/**") as subscriber:
        subscriber.recv()  # the replay publishes
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    node.close()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert re.match(r"\d+ samples in ", out)
