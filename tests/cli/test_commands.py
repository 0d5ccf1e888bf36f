# SPDX-License-Identifier: Apache-2.0
"""All commands: they are listed, imported only on use, and report an error in one line."""

import re
import shlex
import subprocess
import sys

import pytest
from typer.main import get_command

from tests.cli.test_tables_commands import run  # noqa: F401
from zenlake.cli import COMMANDS, PANELS, app, main
from zenlake.cli.formatting import escape, one_line, payload_text
from zenlake.cli.lazy_group import LazyCommands
from zenlake.cli.table_output import text as cell
from zenlake.core.encoding import Encoding
from zenlake.errors import LinkError

HEAVY = ("pyarrow", "duckdb", "pyspark", "asyncio")


def test_help_lists_every_command_in_its_panel(run, monkeypatch):  # noqa: F811
    monkeypatch.setenv("TERMINAL_WIDTH", "200")
    code, out, _ = run("--help")
    text = out.decode()
    assert code == 0
    shown = re.findall(r"^│ ([a-z]+) ", text, re.MULTILINE)
    assert shown == list(COMMANDS)
    assert re.findall(r"─ ([A-Z][a-z, ]+?) ─", text) == ["Options", *PANELS]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(run, name):  # noqa: F811
    code, out, _ = run(name, "-h")
    assert code == 0
    assert f"zenlake {name}" in out.decode()
    assert "<bool>" not in out.decode()


def test_without_arguments_the_help_is_shown(run):  # noqa: F811
    code, out, err = run()
    assert (code, err) == (2, "")
    assert b"Usage: zenlake" in out


def commands(group, *words):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *words, name)
        else:
            yield pytest.param(command, (*words, name), id=" ".join((*words, name)))


@pytest.mark.parametrize(("command", "words"), list(commands(get_command(app))))
def test_every_command_shows_examples_that_it_takes(command, words):
    examples = (command.epilog or "").splitlines()
    assert examples
    for line in examples:
        dollar, zenlake, *given = shlex.split(re.split(r" [|<] ", line)[0])
        assert (dollar, zenlake, *given[: len(words)]) == ("$", "zenlake", *words)
        command.make_context("zenlake", given[len(words) :])


def test_command_lists_show_the_first_line_of_each_help():
    commands = LazyCommands(COMMANDS)
    for name in COMMANDS:
        sketch = commands.sketch(name)
        assert sketch.get_short_help_str() == commands[name].get_short_help_str() != ""
        assert sketch.rich_help_panel == commands[name].rich_help_panel


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["put", "a//b", "1"], ["sub", "--help"]], ids=" ".join)
def test_a_light_command_imports_no_heavy_module(words):
    program = f"""
import sys
from zenlake.cli import main
try:
    main({words!r})
except SystemExit:
    print(*(name for name in {HEAVY!r} if name in sys.modules), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stderr.splitlines()[-1] == ""


@pytest.mark.parametrize(
    ("code", "words", "why"),
    [
        (2, "put a//b 1 -e tcp/127.0.0.1:1", "chunks cannot be empty"),
        (2, "put a 1 -e 127.0.0.1:1", "did you mean tcp/127.0.0.1:1?"),
        (1, "put a 1 -e tcp/127.0.0.1:1", "connection refused"),
        (2, "put a", "expected either VALUE or --file"),
        (1, "put a --file there/is/none", "there/is/none: no such file or directory"),
        (2, "put a 1 --priority urgent", "unknown name 'urgent'; expected real-time"),
        (2, "put a --delete 1", "--delete conflicts with VALUE and --file"),
        (2, "get a --target any -e tcp/127.0.0.1:1", "'--target'"),
        (2, "sub a --mode robot", "'robot' is not one of 'client', 'peer', 'router'"),
        (2, "sub a --set lease", "expected KEY=VALUE, like transport/link/tx/lease=5000"),
        (2, "hz a --window 1", "'--window'"),
        (2, "sup a", "No such command 'sup'"),
        (1, "put a 1 --listen tcp/127.0.0.1:0 --set scouting/multicast/enabled=false", "no node found"),
    ],
)
def test_mistakes_are_reported_in_one_line(run, code, words, why):  # noqa: F811
    found, out, err = run(*words.split())
    assert (found, out) == (code, b"")
    assert len(err.splitlines()) == 1
    assert err.startswith("zenlake: ")
    assert why in err


def test_a_session_without_neighbours_prints_a_hint(run):  # noqa: F811
    alone = ("--listen", "tcp/127.0.0.1:0", "--set", "scouting/multicast/enabled=false")
    code, out, err = run("sub", "**", "--seconds", "0.1", *alone)
    assert (code, out) == (0, b"")
    assert err == "waiting: no node is connected yet; name one with -e tcp/HOST:7447\n"


def test_debug_shows_where():
    with pytest.raises(LinkError):
        main(["--debug", "put", "a", "1", "-e", "tcp/127.0.0.1:1"])


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("zenlake live", "liveliness"), ("zenlake sub a --mo", "--mode"), ("zenlake decode --table qu", "queries")],
)
def test_completion_offers_commands_options_and_tables(typed, offered):
    position = str(len(typed.split()) - 1)
    asked = {"_ZENLAKE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": position, "PATH": "/usr/bin"}
    program = "from zenlake.cli import main; main([])"
    done = subprocess.run([sys.executable, "-c", program], env=asked, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == [offered]


def test_nothing_from_the_network_moves_the_cursor():
    assert escape("a\x1b[2Jb\r\n\u202e") == r"a\x1b[2Jb\r\n\u202e"
    assert cell("a\x1b[2J\n") == r"a\x1b[2J\n"
    assert one_line(b"\xff\x00") == "ff00"
    assert one_line(b"a\tb\n") == r"a\tb\n"
    assert payload_text(b"a\x1b[2J\nb", Encoding("text/plain"), 16) == "a\\x1b[2J\nb"


def test_payloads_that_contradict_their_encoding_are_shown_raw():
    assert payload_text(b"{", Encoding("application/json"), 16) == "{"
    assert payload_text(b"\xff", Encoding("text/plain"), 16).split() == ["00000000", "ff", "."]
    assert payload_text(b"\x01\x02", Encoding("zenoh/bytes"), 16).split() == ["00000000", "01", "02", ".."]
