# SPDX-License-Identifier: Apache-2.0
"""`zenlake log readers` and `zenlake log forget`: a dead reader no longer holds back retention (defect 16)."""

import pytest

from tests.lake.fixtures import recorded
from zenlake.cli import main
from zenlake.log import Log, Retention, Writer, readers, register, retain


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["log", *map(str, arguments)])
    return ended.value.code, capsys.readouterr()


def test_a_dead_reader_is_shown_and_removed(tmp_path, capsys):
    recorded(tmp_path / "log", segment_size=4000)
    size = sum(part.size for part in Log(tmp_path / "log").plan())
    register(tmp_path / "log", "dead", {"tap-1": [1, 0]})
    register(tmp_path / "log", "alive", Log(tmp_path / "log").latest())
    status, output = run(capsys, "readers", tmp_path / "log")
    assert status == 0
    assert f"dead: has read up to {{'tap-1': [1, 0]}}; {size} bytes behind" in output.out
    assert "; 0 bytes behind" in output.out
    limits = Retention(size=1000, hard_size=1 << 40)
    with Writer(tmp_path / "log", "tap-1") as writer:
        assert retain(writer, limits) == []
        assert run(capsys, "forget", tmp_path / "log", "dead")[0] == 0
        assert retain(writer, limits)
    assert list(readers(tmp_path / "log")) == ["alive"]
    status, output = run(capsys, "forget", tmp_path / "log", "dead")
    assert status == 1
    assert "has no reader 'dead'; its readers: alive" in output.err
