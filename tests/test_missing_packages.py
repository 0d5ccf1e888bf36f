# SPDX-License-Identifier: Apache-2.0
"""Each command runs without the packages that it does not need, and names the extra of a package that it needs."""

import subprocess
import sys

import pytest

START = """
import sys
for name in {missing!r}:
    sys.modules[name] = None  # an import raises ModuleNotFoundError
"""
NETWORK = """
import zenlake
config = zenlake.Config.from_json5("{listen: {endpoints: ['tcp/127.0.0.1:0']}, scouting: {multicast: {enabled: false}}}")
with zenlake.open(config) as session:
    subscriber = session.declare_subscriber("key")
    session.put("key", b"value")
    assert bytes(subscriber.recv(timeout=60).payload) == b"value"
"""
COMMAND = "from zenlake.cli import main; main({arguments!r})"


def run(program, *missing):
    command = [sys.executable, "-c", START.format(missing=missing) + program]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


def test_the_network_needs_neither_arrow_nor_duckdb():
    done = run(NETWORK, "pyarrow", "duckdb", "numpy", "pyspark")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "command", ["put", "sub", "get", "scout", "queryable", "liveliness", "ping", "hz", "router", "doctor"]
)
def test_network_commands_start_without_arrow_and_duckdb(command):
    done = run(COMMAND.format(arguments=[command, "--help"]), "pyarrow", "duckdb", "numpy", "pyspark")
    assert done.returncode == 0, done.stderr
    assert f"zenlake {command}" in done.stdout


def test_demo_without_spark_names_the_extra_before_it_starts(tmp_path):
    lake = tmp_path / "lake"
    done = run(COMMAND.format(arguments=["demo", "--lake", str(lake)]), "pyspark")
    assert (done.returncode, done.stderr) == (1, "zenlake: Spark is not installed: pip install 'zenlake[spark]'\n")
    assert not lake.exists()


def test_a_link_names_its_extra():
    done = run(COMMAND.format(arguments=["put", "key", "value", "-e", "ws/127.0.0.1:1"]), "websockets")
    assert done.returncode == 1
    assert "pip install 'zenlake[ws]'" in done.stderr


@pytest.mark.parametrize(
    "arguments", [("decode", "capture"), ("report", "capture"), ("tap", "tcp/127.0.0.1:1"), ("log", "info", "log")]
)
def test_commands_that_need_arrow_name_it(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(COMMAND.format(arguments=arguments), "pyarrow")
    assert done.returncode == 1
    assert done.stderr == "zenlake: this command needs pyarrow, which is not installed: pip install pyarrow\n"
    assert not list(tmp_path.iterdir())
