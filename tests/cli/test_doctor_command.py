# SPDX-License-Identifier: Apache-2.0
"""`zenlake doctor`: the findings are true, each problem has a fix, and the exit code says whether a requirement is missing."""

import json
import os
import resource
import socket
import sys

import pytest

from zenlake.cli import doctor, main

CHECKS = ["python", "pyarrow", "duckdb", "compiled modules", "compiler", "java", "pyspark", "spark's python", "tcp 7447",
          "udp 7446", "multicast", "file handles"]  # fmt: skip


@pytest.fixture
def examined(capsys):
    def run():
        with pytest.raises(SystemExit) as end:
            main(["doctor", "--json"])
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return end.value.code, {each["check"]: each for each in found}

    return run


def test_doctor_reports_every_check_and_a_fix_for_each_problem(examined):
    code, found = examined()
    assert list(found) == CHECKS
    assert all(each["fix"] for each in found.values() if each["state"] != "ok")
    assert code == (1 if any(each["state"] == "missing" for each in found.values()) else 0)
    assert sys.executable in found["python"]["found"]


def test_json_keeps_the_deprecated_name_of_the_fix(examined):
    _, found = examined()
    assert all(each[doctor.DEPRECATED_FIX] == each["fix"] for each in found.values())


def test_a_worker_without_zenlake_is_missing(examined, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "false")
    code, found = examined()
    assert code == 1
    assert found["spark's python"]["state"] == "missing"
    assert found["spark's python"]["fix"] == f"export PYSPARK_PYTHON={sys.executable}"


def test_a_python_on_the_path_without_zenlake_is_advice_with_the_error_of_spark(examined, monkeypatch, tmp_path):
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'zenlake'\" >&2; exit 1\n")
    other.chmod(0o755)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    _, found = examined()
    finding = found["spark's python"]
    assert finding["state"] == "advice"
    assert finding["found"].startswith(f"{other}, the default of Spark, cannot import zenlake: ModuleNotFound")
    assert finding["found"].endswith("reading `zenoh` fails there with DATA_SOURCE_NOT_FOUND")
    assert finding["fix"] == f"use zenlake.spark.session(), or export PYSPARK_PYTHON={sys.executable}"


def test_a_port_in_use_is_advice_with_a_fix():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        found = doctor.port("tcp", socket.SOCK_STREAM, taken.getsockname()[1], "use another")
    assert (found.state, found.found, found.fix) == (
        "advice",
        "cannot be bound: Address already in use",
        "use another",
    )


def test_few_file_handles_are_advice():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        found = doctor.handles()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found.state == "advice"
    assert "ulimit -n" in found.fix


def test_no_java_is_advice_because_only_spark_needs_it(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = doctor.java()
    assert found.state == "advice"
    assert "correct it or unset it" in found.fix


def test_a_check_that_breaks_does_not_end_the_examination(monkeypatch):
    def broken():
        raise RuntimeError("no such thing")

    broken.__name__ = "multicast"
    monkeypatch.setattr(doctor, "multicast", broken)
    found = {each.check: each for each in doctor.examine()}
    assert list(found) == CHECKS
    assert found["multicast"].found == "check failed: no such thing"
