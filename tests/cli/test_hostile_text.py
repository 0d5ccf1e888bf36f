# SPDX-License-Identifier: Apache-2.0
"""Text from the network and from files that tries to control a terminal, to be Rich markup, or to end a command."""

import json
import logging
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

import zenlake
from tests.cli.test_tables_commands import run  # noqa: F401
from zenlake.api.session import Session
from zenlake.cli import table_output
from zenlake.cli.console import status_line
from zenlake.cli.formatting import SkippedParts, json_line, payload_text
from zenlake.cli.router import line as router_line
from zenlake.core.encoding import Encoding
from zenlake.runtime.traffic_stats import TrafficStats

SGR = "\x1b[35;5m"  # a sequence that no command of ours writes
EVIL = f"{SGR}\x9b35m\u2028\u2029\u202e\u2066\x7f\u200b\U000e0041"
MARKUP = r"m\[/red] [/x] \[bold] [link=https:evil.example]click :smile:"
KEYS = [f"h/{EVIL}", f"h/{MARKUP}", "h/__proto__"]
NESTED = b"[" * 200_000
JSON = {
    "lone surrogate": rb'{"a": "\ud800"}',
    "controls": json.dumps({EVIL: EVIL}).encode(),
    "deep": NESTED + b"]" * len(NESTED),
    "unclosed": NESTED,
    "deep objects": b'{"a":' * 50_000,
    "as deep as Python reads": b"[" * 900 + b"]" * 900,
    "large number": b"9" * 10_000,
    "infinite": b"1e999",
    "NaN": b"[NaN, -Infinity]",
    "not text": b'"\xff"',
    "empty": b"",
}
OURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # what Rich and `echo` write
COMMAND = [sys.executable, "-c", "from zenlake.cli import main; main()"]


def is_safe(output: str) -> None:
    """Refuse output in which data controls the terminal."""
    assert SGR not in output
    rest = OURS.sub("", output)
    wrong = {each for each in rest if not each.isprintable()} - set("\r\n")
    assert not wrong, sorted(map(hex, map(ord, wrong)))


class OnTerminal:
    """A command with a terminal of its own for both outputs."""

    def __init__(self, *words: object, columns: int = 200) -> None:
        self.ours, theirs = pty.openpty()
        environment = os.environ | {"TERM": "xterm", "COLUMNS": str(columns), "PYTHONUTF8": "1"}
        self.process = subprocess.Popen(
            [*COMMAND, *map(str, words)], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment
        )
        os.close(theirs)
        self.seen = b""

    def read(self, until: Callable[[str], bool] = lambda _: False, seconds: float = 60.0) -> str:
        """Read up to the end of the output, or until the condition holds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until(self.seen.decode(errors="replace")):
            if select.select([self.ours], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.ours, 1 << 16)
                except OSError:  # how Linux reports the end
                    break
        return self.seen.decode()

    def end(self) -> int:
        """Interrupt the command and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.read()
        os.close(self.ours)
        return self.process.wait(30)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str, Session]]:
    """A recording router with hostile keys in its log: the log, the router's endpoint and a session with it."""
    log = tmp_path_factory.mktemp("hostile") / "log"
    router = subprocess.Popen(
        [*COMMAND, "router", "-l", "tcp/127.0.0.1:0", "--log", str(log)], stderr=subprocess.PIPE, text=True
    )
    assert router.stderr is not None
    where = router.stderr.readline().split(" listens on ")[1].split(",")[0]
    config = zenlake.Config.from_json5(json.dumps({"mode": "client", "connect": {"endpoints": [where]}}))
    with zenlake.open(config) as session:
        for key in KEYS:
            session.put(key, EVIL.encode(), encoding=f"text/plain;{EVIL}", attachment=EVIL.encode())
        for number, data in enumerate(JSON.values()):
            session.put(f"j/{number}", data, encoding="application/json")
        session.get("j/ask", timeout=0.1)
        yield log, where, session
    router.send_signal(signal.SIGTERM)
    router.communicate(timeout=60)


@pytest.mark.parametrize("name", JSON)
def test_every_json_value_is_shown(name: str) -> None:
    for encoding in ("application/json", "text/json;schema"):
        shown = payload_text(JSON[name], Encoding(encoding), 64)
        is_safe(shown.replace("\t", ""))
        shown.encode()
        if name in ("lone surrogate", "controls"):
            assert json.loads(shown) == json.loads(JSON[name])


@pytest.mark.parametrize(
    "value",
    [EVIL, "\ud800 alone", "\U000e0041", "\x00\x1f\x7f\x80\x9f", [{"a": EVIL}], {EVIL: 1}, 10**400, EVIL.encode()],
)
def test_json_escapes_and_decodes_to_the_same(value: object) -> None:
    text = json_line({"value": value})
    text.encode()
    assert text.isprintable()
    decoded = value.decode() if isinstance(value, bytes) else value
    assert json.loads(text) == {"value": decoded}


def test_json_has_neither_nan_nor_infinity() -> None:
    text = json_line({"a": float("nan"), "b": [float("inf"), 1.5], "c": {"d": float("-inf")}})
    assert json.loads(text, parse_constant=pytest.fail) == {"a": None, "b": [None, 1.5], "c": {"d": None}}


def test_data_is_never_markup() -> None:
    names = [MARKUP, EVIL, "x"]
    table = pa.table({name: pa.array([MARKUP, EVIL]) for name in names})
    console = Console(width=400, force_terminal=True, color_system="truecolor")
    with console.capture() as captured:
        console.print(table_output.rich_table(table))
        console.print(table_output.rich_table(table, dict.fromkeys(names, 100)))
        console.print(status_line(["1 message"], [MARKUP, EVIL]))
        console.print(router_line(TrafficStats(), TrafficStats(), 1.0, MARKUP))
    is_safe(captured.get())
    assert captured.get().count(MARKUP) >= 4
    assert "\x1b]8" not in captured.get()


def test_errors_are_one_safe_line(run: Any, tmp_path: Path) -> None:  # noqa: F811
    SkippedParts()(ValueError(f"no {EVIL}\nzenlake: forged"))
    said = ""
    for words in (
        ["decode", f"{tmp_path}/{EVIL}"],
        ["put", f"{EVIL}//", "1"],
        ["sql", f'select "{EVIL}"', "sample.pcap"],
    ):
        code, _, err = run(*words)
        assert code in (1, 2)
        said += err
    is_safe(said)
    assert said.count("\n") == 4


def test_lines_of_the_log_are_safe(run: Any) -> None:  # noqa: F811
    run("--version")
    assert logging.lastResort is not None
    record = logging.LogRecord("zenlake", logging.ERROR, "", 1, "%s", (f"{EVIL}\nforged",), None)
    text = logging.lastResort.format(record)
    is_safe(text)
    assert "\n" not in text


TABLES = [
    ["decode", "LOG"],
    ["decode", "LOG", "--json"],
    ["decode", "LOG", "--format", "csv"],
    ["decode", "LOG", "--columns", "key"],
    ["decode", "LOG", "--table", "declarations"],
    ["decode", "LOG", "--table", "messages", "--once"][:4],
    ["sql", f'select key as "{MARKUP}", encoding as "{EVIL}", null as "[/red]" from samples', "LOG"],
    ["sql", "select kind, detail from events", "LOG"],
    ["log", "info", "LOG"],
    ["log", "verify", "LOG"],
]


@pytest.mark.parametrize("words", TABLES, ids=lambda words: " ".join(words)[:30].encode("ascii", "replace").decode())
def test_tables_of_a_hostile_log(recorded: tuple[Path, str, Session], words: list[str]) -> None:
    words = [str(recorded[0]) if word == "LOG" else word for word in words]
    on_terminal = OnTerminal(*words, columns=120)
    is_safe(on_terminal.read())
    assert on_terminal.end() == 0
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    piped = subprocess.run([*COMMAND, *words], capture_output=True, timeout=60, env=environment)
    assert (piped.returncode, piped.stderr) == (0, b"")


LIVE = {
    "echo": ["echo", "h/**"],
    "echo json": ["echo", "j/**"],
    "sub": ["sub", "h/**"],
    "sub --json": ["sub", "h/**", "--json"],
    "hz": ["hz", "h/**"],
    "hz --json": ["hz", "h/**", "--json"],
    "liveliness": ["liveliness", "sub", "h/**"],
    "liveliness --json": ["liveliness", "sub", "h/**", "--json"],
    "queryable": ["queryable", "h/**", "1"],
}


def test_live_commands_survive_hostile_samples(recorded: tuple[Path, str, Session]) -> None:
    _, where, session = recorded
    running = {name: OnTerminal(*words, "-e", where) for name, words in LIVE.items()}
    time.sleep(1)
    ended = time.monotonic() + 60
    waiting = set(running)
    tokens = []
    while waiting and time.monotonic() < ended:
        for token in tokens:
            token.undeclare()
        tokens = [session.liveliness().declare_token(key) for key in KEYS]
        for key in KEYS:
            session.put(key, EVIL.encode(), encoding="application/json", attachment=EVIL.encode())
            session.get(f"{key}?{EVIL}", payload=EVIL.encode(), timeout=0.1)
        for data in JSON.values():
            session.put("j/x", data, encoding="application/json")
        session.put("j/last", b"last")
        session.put("h/last", b"last")
        for name in list(waiting):
            last = {"echo json": "j/last", "liveliness": "__proto__", "liveliness --json": "__proto__"}.get(
                name, "h/last"
            )
            last = "__proto__" if name == "queryable" else last
            if last in running[name].read(lambda seen, last=last: last in seen, 0.5):
                waiting.discard(name)
    codes = {name: each.end() for name, each in running.items()}
    assert not waiting
    assert codes == dict.fromkeys(LIVE, 130)
    for name, each in running.items():
        is_safe(each.seen.decode())
        if name.endswith("--json"):
            lines = [json.loads(line) for line in each.seen.decode().splitlines()]
            assert set(KEYS) <= {line["key"] for line in lines}


def test_replies_are_safe(recorded: tuple[Path, str, Session]) -> None:
    _, where, session = recorded

    def reply(query: Any) -> None:
        query.reply(KEYS[0], EVIL.encode(), encoding=f"text/plain;{EVIL}")
        query.reply_err(EVIL.encode())

    queryable = session.declare_queryable("h/**", reply)
    for more in ([], ["--json"]):
        asks = OnTerminal("get", "h/**", "-e", where, *more)
        is_safe(asks.read())
        assert asks.end() == 0
        if more:
            lines = [json.loads(line) for line in asks.seen.decode().splitlines()]
            assert {line.get("key") for line in lines} == {KEYS[0], None}
    queryable.undeclare()


@pytest.mark.parametrize("words", [["decode", "LOG"], ["decode", "LOG", "--json"], ["doctor"]])
def test_a_reader_that_leaves_does_not_fail_the_command(recorded: tuple[Path, str, Session], words: list[str]) -> None:
    words = [str(recorded[0]) if word == "LOG" else word for word in words]
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run([*COMMAND, *words], stdout=write, stderr=subprocess.PIPE, timeout=60)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (0, b"")
