# SPDX-License-Identifier: Apache-2.0
"""Common mistakes: each gives an exit code and one line that names the problem and the remedy."""

import os
import socket
import sys

import pytest

from tests.cli.test_tables_commands import run  # noqa: F401
from zenlake.log import Writer
from zenlake.sample_captures import sample

NOT_OURS = "choose a writable folder"


@pytest.fixture
def fail(run, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)

    def run_command(*words):
        code, out, err = run(*map(str, words))
        [line] = err.splitlines()
        assert out == b""
        assert line.startswith("zenlake: ")
        assert "Errno" not in line
        assert "Traceback" not in line
        return code, line

    return run_command


def test_a_port_in_use(fail):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"tcp/127.0.0.1:{taken.getsockname()[1]}"
        code, line = fail("router", "-l", where)
        assert code == 1
        assert f"{where}: address already in use" in line
        code, line = fail("router", "-l", "tcp/127.0.0.1:0", "--metrics", where.removeprefix("tcp/"))
        assert code == 1
        assert "address already in use" in line


def test_no_java(fail, tmp_path, monkeypatch):
    if "pyspark" in sys.modules:
        monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
        monkeypatch.setattr("pyspark.sql.SparkSession._instantiatedSession", None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    Writer(tmp_path / "log", "tap").close()
    code, line = fail("land", tmp_path / "log", tmp_path / "lake")
    assert code == 1
    assert f"JAVA_HOME is {tmp_path}, but bin/java does not work" in line


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a Linux device")
@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet", "arrow", "table"])
def test_no_room_on_the_disk(fail, format):
    code, line = fail("decode", sample(), "--columns", "key", "--format", format, "-o", "/dev/full")
    assert code == 1
    assert "/dev/full: no space left on device; free some disk space, or choose another disk" in line


@pytest.mark.parametrize("endpoint", ["router:7447", "tcp/router", "tcp:router:7447", "carrier-pigeon/router:7447"])
def test_a_wrong_endpoint(fail, endpoint):
    for words in (("tap", endpoint), ("sub", "**", "-e", endpoint), ("router", "-l", endpoint)):
        code, line = fail(*words)
        assert code == 2
        assert endpoint in line


def test_a_forgotten_protocol(fail):
    assert fail("tap", "router:7447") == (2, "zenlake: invalid endpoint `router:7447`; did you mean tcp/router:7447?")
    assert fail("sub", "**", "-e", "router") == (
        2,
        "zenlake: invalid endpoint `router`; expected an endpoint like tcp/localhost:7447",
    )


def test_a_refused_connection(fail):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        code, line = fail("tap", f"tcp/127.0.0.1:{closed.getsockname()[1]}")
    assert code == 1
    assert "connection refused" in line


@pytest.mark.parametrize("words", ["sub", "get", "hz", "liveliness sub", "tap tcp/127.0.0.1:1"])
@pytest.mark.parametrize("key", ["/fleet", "fleet//pose", "fleet/r*1/pose", "fleet/#"])
def test_a_wrong_key_expression(fail, words, key):
    code, line = fail(*words.split(), key)
    assert code == 2
    assert f"`{key}`" in line


@pytest.mark.skipif(not os.path.isdir("/sys/kernel"), reason="a folder that is read-only for all users")
def test_a_folder_that_is_not_for_writing(fail):
    for words in (
        ("router", "-l", "tcp/127.0.0.1:0", "--log", "/sys/kernel/zenlake"),
        ("demo", "--lake", "/sys/kernel/zenlake"),
        ("report", sample(), "-o", "/sys/kernel/report.html"),
    ):
        code, line = fail(*words)
        assert code == 1
        assert "/sys/kernel/" in line
        assert NOT_OURS in line


def test_a_folder_that_is_a_file(fail, tmp_path):
    (tmp_path / "file").touch()
    code, line = fail("router", "-l", "tcp/127.0.0.1:0", "--log", tmp_path / "file" / "log")
    assert code == 1
    assert "not a directory; a part of that path is a file" in line


@pytest.mark.parametrize("words", ["tap tcp/127.0.0.1:1", "router -l tcp/127.0.0.1:0"])
def test_a_log_in_an_object_store(fail, tmp_path, words):
    code, line = fail(*words.split(), "--log", "s3://bucket/log")
    assert code == 2
    assert "a log must be a local folder; use --mirror s3://bucket/log to copy it there" in line
    code, line = fail(*words.split(), "--log", "log", "--mirror", "pigeon://bucket/log")
    assert code == 2
    assert "--mirror: pigeon://bucket/log: " in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", ["tap tcp/127.0.0.1:1", "router -l tcp/127.0.0.1:0 --log log"])
def test_a_wrong_name_of_a_writer(fail, tmp_path, words):
    code, line = fail(*words.split(), "--name", "a/b")
    assert code == 2
    assert "invalid writer or reader name 'a/b'; use letters, digits, `_`, `.` and `-`" in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["foo", "127.0.0.1:99999", "127.0.0.1:"])
@pytest.mark.parametrize("words", ["tap tcp/127.0.0.1:1", "router -l tcp/127.0.0.1:0"])
def test_a_wrong_address_for_metrics(fail, tmp_path, words, address):
    code, line = fail(*words.split(), "--metrics", address)
    assert code == 2
    assert f"invalid address {address}; expected HOST:PORT, like 127.0.0.1:9100 or :9100" in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sync", ["-1", "nan", "inf", "often"])
def test_a_wrong_time_between_syncs(fail, sync):
    code, line = fail("tap", "tcp/127.0.0.1:1", "--sync", sync)
    assert code == 2
    assert f"invalid value {sync!r}; expected block, sealed or a number of seconds" in line


def test_a_table_that_there_is_not(fail):
    code, line = fail("sql", "from sample", sample())
    assert code == 1
    assert "unknown table sample; expected one of messages, samples, " in line


def test_a_configuration_that_is_not_there(fail):
    code, line = fail("router", "-c", "robots.json5")
    assert (code, line) == (2, "zenlake: cannot read the configuration robots.json5: No such file or directory")


def test_a_folder_without_a_log_starts_no_spark(fail, tmp_path):
    code, line = fail("land", tmp_path, tmp_path / "lake")
    assert code == 1
    assert line == f"zenlake: {tmp_path} is not a log: zenlake-log.json is missing"


@pytest.mark.parametrize("words", ["report", "decode", "sql from(samples)", "replay -e tcp/127.0.0.1:1"])
def test_a_file_that_is_not_a_capture(fail, tmp_path, words):
    (tmp_path / "notes.pcap").write_text("not packets, but words\n" * 100)
    command, *rest = words.split()
    code, line = fail(command, *rest, "notes.pcap")
    assert code == 1
    assert "notes.pcap is not a capture: neither pcap nor pcapng" in line
