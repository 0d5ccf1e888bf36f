# SPDX-License-Identifier: Apache-2.0
"""The command `zenlake explain`: its output and exit code."""

import io

import pytest

from zenlake import __version__
from zenlake.cli import main
from zenlake.cli.explain import parse_hex
from zenlake.errors import InvalidValue
from zenlake.wire.raw_memory import COMPILED


@pytest.fixture
def zenlake(capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as left:
            main(list(arguments))
        out, err = capsys.readouterr()
        return left.value.code, out, err

    return run


def test_a_batch_is_printed_plain_without_a_terminal(zenlake):
    code, out, err = zenlake("explain", "0300")
    assert code == 0
    assert out.splitlines() == [
        "  0000  03                       CLOSE                       this link",
        "  0001  00                         reason                    GENERIC",
    ]
    assert err == ""


def test_it_is_coloured_on_a_terminal(zenlake, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    _, out, _ = zenlake("explain", "08")
    assert "\x1b[1;31m" in out


def test_the_exit_code_is_1_after_a_decode_error(zenlake):
    code, out, _ = zenlake("explain", "0308")
    assert code == 0
    code, out, _ = zenlake("explain", "03")
    assert code == 1
    assert out.splitlines()[-1].split(maxsplit=2) == ["0001", "error", "CLOSE.reason: 1 byte needed, 0 left"]


def test_each_option(zenlake, tmp_path):
    assert "SCOUT" in zenlake("explain", "--scouting", "010903")[1]
    assert "length" in zenlake("explain", "--stream", "010004")[1]
    assert "PUSH" in zenlake("explain", "--low-latency", "1d0502")[1]
    assert "compression" in zenlake("explain", "--compressed", "0004")[1]
    (tmp_path / "batch").write_bytes(b"\x04")
    assert "KEEP_ALIVE" in zenlake("explain", "--file", str(tmp_path / "batch"))[1]


def test_a_dash_reads_from_stdin(zenlake, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("04\n04\n"))
    assert zenlake("explain", "-")[1].count("KEEP_ALIVE") == 2


@pytest.mark.parametrize("text", ["0309", "03 09", "0x03 0x09", "03:09", "0X0309", " 03\n09 "])
def test_hex_as_people_paste_it(text):
    assert parse_hex(text) == b"\x03\x09"


@pytest.mark.parametrize(
    ("text", "hint"),
    [("03g9", "'g' is not a hexadecimal digit"), ("030", "3 hexadecimal digits; expected an even number")],
)
def test_text_that_is_not_hex(text, hint):
    with pytest.raises(InvalidValue, match=hint):
        parse_hex(text)


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        (["explain", "xyz"], 1, "is not a hexadecimal digit"),
        (["explain", "--file", "does/not/exist"], 1, "does/not/exist"),
        (["explain"], 2, "expected either HEX"),
        (["explain", "04", "--file", "x"], 2, "expected either HEX"),
        (["explain", "--scouting", "--stream", "04"], 2, "use it alone"),
        (["explian"], 2, "No such command"),
        (["explain", "--sream", "04"], 2, "No such option"),
    ],
)
def test_a_mistake_costs_one_line_with_a_hint(zenlake, arguments, code, hint):
    left, out, err = zenlake(*arguments)
    assert left == code
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("zenlake: ")
    assert hint in err
    assert ("--help`)" in err) == (code == 2)


def test_debug_shows_where(capsys):
    with pytest.raises(InvalidValue):
        main(["--debug", "explain", "xyz"])


def test_the_version_shows_whether_it_is_compiled(zenlake):
    assert zenlake("--version")[1] == f"zenlake {__version__} (compiled: {'yes' if COMPILED else 'no'})\n"


def test_without_arguments_there_is_help(zenlake):
    _, out, _ = zenlake()
    assert "explain" in out
