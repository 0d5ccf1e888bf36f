# SPDX-License-Identifier: Apache-2.0
"""The network commands of the command line, with eclipse-zenoh as the router and at the other end."""

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import zenlake
from tests.interop.nodes import PATIENCE, Theirs
from tests.interop.partner import Wheel
from zenlake.columns.schemas import SAMPLES
from zenlake.log import Log

ZENLAKE = str(Path(sys.executable).with_name("zenlake"))


class Router:
    """A router of eclipse-zenoh in its own process, with methods for its own operations."""

    def __init__(self, port: int) -> None:
        self.where = f"tcp/127.0.0.1:{port}"
        self.shell = Theirs("router", listen=(self.where,))

    def start(self, *words: str, **options: object) -> "subprocess.Popen[str]":
        """Start a command that keeps running, connected to the router."""
        return subprocess.Popen(
            [ZENLAKE, *words, "-e", self.where],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
        )  # fmt: skip

    def run(self, *words: str, stdin: str | None = None) -> tuple[int, list[str], str]:
        done = subprocess.run(
            [ZENLAKE, *words, "-e", self.where], input=stdin, capture_output=True, text=True, timeout=PATIENCE
        )
        return done.returncode, done.stdout.splitlines(), done.stderr

    def until_heard(self, key: str) -> None:
        """Wait for a subscriber."""
        name = f"listening to {key}"
        self.shell.do("pub", name, key)
        if not self.shell.do("matching", name):
            assert self.shell.events.wait("matching", name)[-1] == [True]
        self.shell.do("undeclare", name)


@pytest.fixture(scope="module")
def router(ports: Iterator[int]) -> Iterator[Router]:
    made = Router(next(ports))
    yield made
    made.shell.close()


def ended(process: "subprocess.Popen[str]") -> tuple[int, list[str], str]:
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out.splitlines(), err


def test_info_names_the_router_at_the_other_end_of_the_link(router: Router) -> None:
    code, [line], _ = router.run("info", "--json")
    result = json.loads(line)
    assert code == 0
    assert result["whatami"] == "client"
    [connected] = result["connected"]
    assert (connected["zid"], connected["whatami"], connected["dst"]) == (router.shell.zid, "router", router.where)


def test_put_reaches_the_real_subscriber_whole(router: Router) -> None:
    router.shell.do("sub", "puts", "cli/put/**")
    said = ("--encoding", "text/plain;utf-8", "--attachment", "with it", "--priority", "interactive-high", "--express")
    assert router.run("put", "cli/put/a", "grüße", *said)[0] == 0
    assert router.run("put", "cli/put/b", "--file", "-", stdin="from a pipe")[0] == 0
    assert router.run("put", "cli/put/a", "--delete")[0] == 0
    first, second, third = router.shell.events.wait("sample", "puts", 3)
    assert first[:3] == ["cli/put/a", "put", "grüße"]
    assert first[3] | {"stamped": True} == {
        "attachment": "with it", "encoding": "text/plain;utf-8", "priority": "Priority.INTERACTIVE_HIGH",
        "express": True, "stamped": True, "congestion": "CongestionControl.BLOCK",
    }  # fmt: skip
    assert (second[:3], second[3]["encoding"]) == (["cli/put/b", "put", "from a pipe"], "zenoh/bytes")
    assert third[:2] == ["cli/put/a", "delete"]


def test_pub_counts_and_publishes_the_lines_of_a_pipe(router: Router) -> None:
    router.shell.do("sub", "pubs", "cli/pub")
    code, _, err = router.run("pub", "cli/pub", "number {n}", "--rate", "0", "--count", "3")
    assert (code, err[:11]) == (0, "3 published")
    assert router.run("pub", "cli/pub", "--encoding", "application/json", stdin='{"a": 1}\n[]\n')[0] == 0
    seen = [(sample[2], sample[3]["encoding"]) for sample in router.shell.events.wait("sample", "pubs", 5)]
    texts = [(f"number {n}", "zenoh/string") for n in range(3)]
    assert seen == [*texts, ('{"a": 1}', "application/json"), ("[]", "application/json")]


def test_sub_prints_a_line_for_each_sample_whatever_is_in_it(router: Router) -> None:
    process = router.start("sub", "cli/sub/*", "--count", "3")
    router.until_heard("cli/sub/a")
    router.shell.do("put", "cli/sub/a", "two\nlines \x1b[31m")
    router.shell.do("put", "cli/sub/b", 4)
    router.shell.do("delete", "cli/sub/a")
    assert ended(process) == (0, [r"cli/sub/a two\nlines \x1b[31m", "cli/sub/b 00000000", "cli/sub/a (deleted)"], "")


def test_sub_as_json_has_the_names_of_the_table(router: Router) -> None:
    process = router.start("sub", "cli/json", "--count", "1", "--json")
    router.until_heard("cli/json")
    router.shell.do("put", "cli/json", "x", attachment="y", priority="BACKGROUND", encoding="text/plain")
    code, [line], _ = ended(process)
    result = json.loads(line)
    assert code == 0
    assert set(result) <= set(SAMPLES.names)
    assert {"key": "cli/json", "kind": "put", "payload": "x", "encoding": "text/plain", "attachment": "y", "priority": 7,
            "congestion": "drop", "express": False}.items() <= result.items()  # fmt: skip


def test_echo_decodes_by_the_encoding(router: Router) -> None:
    process = router.start("echo", "cli/echo", "--count", "3", "--bytes", "16")
    router.until_heard("cli/echo")
    router.shell.do("put", "cli/echo", '{"a":[1]}', encoding="application/json")
    router.shell.do("put", "cli/echo", "two\nlines", encoding="text/plain")
    router.shell.do("put", "cli/echo", 20)
    code, lines, _ = ended(process)
    shown = [[line for line in block.splitlines() if line][2:] for block in "\n".join(lines).split("---")[:3]]
    zeros = "00000000  " + " ".join(["00"] * 16) + "  " + "." * 16
    assert code == 0
    assert shown == [["{", '  "a": [', "    1", "  ]", "}"], ["two", "lines"], [zeros, "... and 4 more bytes"]]


def test_a_closed_pipe_ends_it_quietly(router: Router) -> None:
    process = router.start("sub", "cli/pipe")
    router.until_heard("cli/pipe")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    router.shell.do("put", "cli/pipe", "x")
    assert process.wait(PATIENCE) == 0
    assert process.stderr.read() == ""
    process.stderr.close()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_a_subscriber(router: Router, number: int, code: int) -> None:
    process = router.start("sub", f"cli/ctrl/{code}")
    router.until_heard(f"cli/ctrl/{code}")
    process.send_signal(number)
    assert ended(process) == (code, [], "")


@pytest.mark.parametrize("command", ["hz", "bw"])
def test_ctrl_c_ends_a_measurement_with_130(router: Router, command: str) -> None:
    publishing = router.start("pub", "cli/stop/a", "x", "--rate", "20")
    process = router.start(command, "cli/stop/*", "--every", "0.2", "--json")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["key"] == "cli/stop/a"
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 130
    publishing.send_signal(signal.SIGINT)
    ended(publishing)


def test_get_prints_the_answers_of_a_real_queryable(router: Router) -> None:
    router.shell.do("queryable", "answers", "cli/get/a", "reply")
    router.shell.do("queryable", "errors", "cli/get/bad", "err")
    code, [line], _ = router.run("get", "cli/get/a?x=1", "body", "--json")
    assert (code, json.loads(line)["payload"]) == (0, "of answers")
    assert router.shell.events.wait("query", "answers") == [["cli/get/a", "x=1", "body"]]
    assert router.run("get", "cli/get/bad") == (1, [], "error reply: no errors\n")
    code, lines, err = router.run("get", "cli/get/none", "--timeout", "2")
    assert (code, lines) == (1, [])
    assert "no replies to cli/get/none" in err


def test_queryable_answers_the_real_client(router: Router) -> None:
    process = router.start("queryable", "cli/answer/**", "42", "--encoding", "text/plain", "--count", "1")
    router.shell.do("querier", "asking", "cli/answer/a")
    router.shell.events.wait("matching", "asking")
    assert router.shell.do("get", "cli/answer/a?y") == [["put", "cli/answer/a", "42"]]
    assert ended(process) == (0, ["cli/answer/a?y"], "")


def test_liveliness_in_both_directions(router: Router) -> None:
    router.shell.do("live", "watching", "cli/alive/*", False)
    process = router.start("liveliness", "token", "cli/alive/ours")
    assert router.shell.events.wait("alive", "watching") == [["cli/alive/ours", True]]
    router.shell.do("token", "their token", "cli/alive/theirs")
    code, lines, _ = router.run("liveliness", "get", "cli/alive/*")
    assert (code, sorted(lines)) == (0, ["cli/alive/ours", "cli/alive/theirs"])
    watching = router.start("liveliness", "sub", "cli/alive/*", "--count", "3")
    assert watching.stdout is not None
    before = sorted(watching.stdout.readline() for _ in range(2))
    assert before == ["alive  cli/alive/ours\n", "alive  cli/alive/theirs\n"]
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 0
    assert ended(watching)[:2] == (0, ["gone   cli/alive/ours"])
    assert router.run("liveliness", "get", "cli/dead/*")[0] == 1


def test_ping_measures_round_trips_to_another_of_its_kind(router: Router) -> None:
    answering = router.start("ping", "--answer")
    code, [line], _ = router.run("ping", "--count", "50", "--json", "--size", "200")
    result = json.loads(line)
    assert (code, result["sent"], result["back"], result["size"]) == (0, 50, 50, 200)
    assert 0 < result["min_us"] <= result["p50_us"] <= result["p99_us"] <= result["max_us"]
    answering.send_signal(signal.SIGINT)
    assert ended(answering)[0] == 130
    code, _, err = router.run("ping", "--timeout", "0.3")
    assert code == 1
    assert "start `zenlake ping --answer`" in err


def test_hz_and_bw_print_the_rate_and_the_bytes_of_each_key(router: Router) -> None:
    publishing = router.start("pub", "cli/rate/a", "0123456789", "--rate", "50")
    code, lines, _ = router.run("hz", "cli/rate/*", "--count", "40", "--json")
    result = json.loads(lines[-1])
    assert (code, result["key"], result["samples"]) == (0, "cli/rate/a", 40)
    assert result["hz"] == pytest.approx(50, rel=0.1)
    assert result["min_ms"] <= 20 <= result["max_ms"]
    code, lines, _ = router.run("bw", "cli/rate/*", "--seconds", "1", "--every", "0.4", "--json")
    result = json.loads(lines[-1])
    assert result["bytes_s"] == pytest.approx(500, rel=0.15)
    assert (result["mean"], result["min"], result["max"]) == (10, 10, 10)
    assert len(lines) >= 2
    publishing.send_signal(signal.SIGINT)
    assert ended(publishing)[0] == 130
    assert router.run("hz", "cli/silent", "--seconds", "0.2")[0] == 1


def test_hz_draws_a_table_on_a_terminal(router: Router) -> None:
    publishing = router.start("pub", "cli/screen/[x]", "1", "--rate", "50")
    ours, theirs = pty.openpty()
    watching = subprocess.run(
        [ZENLAKE, "hz", "cli/screen/*", "--count", "20", "-e", router.where],
        stdout=theirs, stderr=subprocess.PIPE, timeout=PATIENCE, env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    publishing.kill()
    ended(publishing)
    assert watching.returncode == 0
    assert "cli/screen/[x]" in shown
    assert "longest ms" in shown


def shows(terminal: int, pattern: str) -> None:
    """Wait until a terminal shows this text, in any colours."""
    shown = ""
    end = time.monotonic() + PATIENCE
    while not re.search(pattern, shown):
        assert select.select([terminal], [], [], end - time.monotonic())[0], shown
        shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown + os.read(terminal, 1 << 16).decode(errors="replace"))


def test_tap_shows_its_progress_and_seals_when_interrupted(router: Router, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with socket.create_server(("127.0.0.1", 0)) as free:
        page = f"127.0.0.1:{free.getsockname()[1]}"
    words = ["tap", router.where, "cli/tapped/**", "--log", str(tmp_path / "log"), "--metrics", page]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "160"}
    with subprocess.Popen([ZENLAKE, *words], stderr=theirs, env=environment) as recording:
        os.close(theirs)
        router.until_heard("cli/tapped/a")
        with router.start("pub", "cli/tapped/a", "0123456789", "--rate", "50") as publishing:
            try:
                shows(ours, r"[1-9]\d* messages/s · .* unwritten · 0 missing · 0 lost")
                assert urllib.request.urlopen(f"http://{page}/health", timeout=10).read() == b"ok\n"
                figures = urllib.request.urlopen(f"http://{page}/metrics", timeout=10).read().decode()
                assert 'zenlake_tap_lost_batches_total{tap="tap"} 0.0' in figures
                recording.send_signal(signal.SIGTERM)
                shows(ours, "is sealed")
                assert recording.wait(PATIENCE) == 0
            finally:
                publishing.kill()
                recording.kill()
    os.close(ours)
    log = Log(tmp_path / "log")
    assert all(log.index("tap", segment).sealed for segment in log.segments("tap"))
    assert set(zenlake.read(tmp_path / "log")["payload"].to_pylist()) == {b"0123456789"}


def test_scout_finds_the_real_router(namespace: tuple[str, ...]) -> None:
    wheel = Wheel(
        {"mode": "router", "listen/endpoints": ["tcp/127.0.0.1:7447"], "scouting/multicast/enabled": True},
        prefix=namespace,
    )
    zid = wheel.expect("READY").split()[1]
    command = [*namespace, ZENLAKE, "scout", "--count", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    wheel.close()
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"zid": zid, "whatami": "router", "locators": ["tcp/127.0.0.1:7447"]}
    command = [*namespace, ZENLAKE, "scout", "--seconds", "0.3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no node replied within 0.3 s" in done.stderr
