# SPDX-License-Identifier: Apache-2.0
"""`zenlake doctor`: what it finds is so, what is missing says how to be mended, and the exit code tells."""

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
    def typed():
        with pytest.raises(SystemExit) as left:
            main(["doctor", "--json"])
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return left.value.code, {each["check"]: each for each in found}

    return typed


def test_every_check_is_told_and_what_is_not_well_says_how_to_mend_it(examined):
    code, found = examined()
    assert list(found) == CHECKS
    assert all(each["mend"] for each in found.values() if each["state"] != "ok")
    assert code == (1 if any(each["state"] == "missing" for each in found.values()) else 0)
    assert sys.executable in found["python"]["found"]


def test_a_worker_without_zenlake_is_missing(examined, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "false")
    code, found = examined()
    assert code == 1
    assert found["spark's python"]["state"] == "missing"
    assert found["spark's python"]["mend"] == f"export PYSPARK_PYTHON={sys.executable}"


def test_a_python_on_the_path_that_has_no_zenlake_is_told_as_what_spark_says_of_it(examined, monkeypatch, tmp_path):
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'zenlake'\" >&2; exit 1\n")
    other.chmod(0o755)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    _, found = examined()
    told = found["spark's python"]
    assert told["state"] == "advice"
    assert told["found"].startswith(f"{other}, the default of Spark, cannot import zenlake: ModuleNotFound")
    assert told["found"].endswith("reading `zenoh` fails there with DATA_SOURCE_NOT_FOUND")
    assert told["mend"] == f"use zenlake.spark.session(), or export PYSPARK_PYTHON={sys.executable}"


def test_a_port_in_use_is_told_with_what_to_do():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        found = doctor.port("tcp", socket.SOCK_STREAM, taken.getsockname()[1], "use another")
    assert (found.state, found.found, found.mend) == (
        "advice",
        "cannot be bound: Address already in use",
        "use another",
    )


def test_few_file_handles_are_told():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        found = doctor.handles()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found.state == "advice"
    assert "ulimit -n" in found.mend


def test_no_java_is_advice_because_only_spark_needs_it(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = doctor.java()
    assert found.state == "advice"
    assert "correct it or unset it" in found.mend


def test_a_check_that_breaks_does_not_end_the_examination(monkeypatch):
    def broken():
        raise RuntimeError("no such thing")

    broken.__name__ = "multicast"
    monkeypatch.setattr(doctor, "multicast", broken)
    found = {each.check: each for each in doctor.examine()}
    assert list(found) == CHECKS
    assert found["multicast"].found == "check failed: no such thing"
