# SPDX-License-Identifier: Apache-2.0
"""The command `zenlake report`: its page, its line of output, and one line for each error."""

import sys
import webbrowser

import pytest

from tests.tables.fixtures import PCAPS
from zenlake.cli import main

[QUERIES] = [str(path) for path in PCAPS if path.stem == "two_clients_queries"]


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def typed(*arguments):
        with pytest.raises(SystemExit) as left:
            main(["report", *arguments])
        out, err = capsys.readouterr()
        return left.value.code, (out + err).splitlines()

    return typed


def test_the_page_is_written_and_named(run, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    code, [line] = run("sample.pcap", "--open")  # this file does not exist, so the name selects the included capture
    assert code == 0
    assert line.startswith("report.html  1.3 MB  file:///")
    assert opened == [(tmp_path / "report.html").as_uri()]
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_the_page_opens_by_itself_only_on_a_desktop(run, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    assert run(QUERIES)[0] == 0
    assert opened == []  # the output goes to a test, not to a terminal
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    assert run(QUERIES)[0] == 0
    assert len(opened) == 1
    assert run(QUERIES, "--no-open")[0] == 0
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 40000 10.0.0.2 22")
    assert run(QUERIES)[0] == 0
    assert len(opened) == 1


def test_a_file_of_the_users_own_named_like_the_sample_is_the_users(run, tmp_path):
    (tmp_path / "sample.pcap").write_bytes(b"# mine\n")
    code, [line] = run("sample.pcap")
    assert (code, line.split(" (")[0]) == (1, "zenlake: sample.pcap is not a capture: neither pcap nor pcapng")


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["nowhere.pcap"], 1, "zenlake: nowhere.pcap does not exist; expected a capture, a log or a lake"),
        (
            [QUERIES, "-o", "nowhere/report.html"],
            1,
            "zenlake: the folder nowhere of report.html does not exist; create it, or choose another with -o",
        ),
        ([QUERIES, "-o", "."], 1, "zenlake: . is a folder; expected the name of a file after -o"),
        ([QUERIES, QUERIES, QUERIES], 2, "zenlake: Invalid value: 3 recordings; expected one or two."),
        ([], 2, "zenlake: Missing argument"),
        (["."], 1, "zenlake: . is a folder without captures, and it is neither a lake nor a log"),
    ],
)
def test_a_mistake_is_one_line_and_an_exit_code(run, tmp_path, arguments, code, line):
    left, [output] = run(*arguments)
    assert (left, output[: len(line)]) == (code, line)
    assert list(tmp_path.iterdir()) == []
