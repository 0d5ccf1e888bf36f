# SPDX-License-Identifier: Apache-2.0
"""`zenlake land`: a log into a lake, and one line about what cannot be done."""

import pytest

from tests.lake.given import decoded, recorded
from zenlake.cli import main
from zenlake.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["land", *map(str, arguments)])
    return ended.value.code, capsys.readouterr().err


def test_a_log_is_landed_once(spark, tmp_path, capsys):
    recorded(tmp_path / "log", size=20)
    for _ in range(2):
        status, told = run(capsys, tmp_path / "log", tmp_path / "lake", "--tables", "samples, events")
        assert status == 0, told
        assert f"are landed in {tmp_path / 'lake'}" in told
    assert Lake(tmp_path / "lake").tables() == ["events", "samples"]
    rows = sum(file.rows for file in Lake(tmp_path / "lake").ledger.last().files if file.table == "samples")
    assert rows == decoded(tmp_path / "log", ["samples"])["samples"].num_rows > 0


def test_what_is_wrong_is_told_in_one_line(spark, tmp_path, capsys):
    assert "is no log: there is no zenlake-log.json in it" in run(capsys, tmp_path, tmp_path / "lake")[1]
    recorded(tmp_path / "log", size=5)
    status, told = run(capsys, tmp_path / "log", tmp_path / "lake", "-t", "queries")
    assert status == 1
    assert told.splitlines()[-1].startswith("zenlake: no decoded table 'queries'; there are messages, samples")
