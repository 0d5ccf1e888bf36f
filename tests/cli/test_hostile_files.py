# SPDX-License-Identifier: Apache-2.0
"""Files that are truncated, damaged, of a huge declared size, or not captures: one clear line, the readable part, an exit code."""

import gzip
import json
import random
import resource
import struct
import subprocess
import sys

import pyarrow as pa
import pytest

from tests.cli.test_tables_commands import CLEAN, run  # noqa: F401

with open(CLEAN, "rb") as file:
    WHOLE = file.read()
HEAD = WHOLE[:24]


def damaged():
    data, r = bytearray(WHOLE), random.Random(1)
    for _ in range(len(data) // 200):
        data[r.randrange(24, len(data))] = r.randrange(256)
    return bytes(data)


NO_CAPTURE = {
    "empty": (b"", "the file is empty"),
    "half a header": (HEAD[:10], "neither pcap nor pcapng"),
    "text": (b"no capture\n" * 50, "neither pcap nor pcapng"),
    "zeros": (bytes(100_000), "neither pcap nor pcapng"),
    "a packet of 4 GB": (HEAD + struct.pack("<IIII", 1, 1, 0xFFFFFFF0, 0xFFFFFFF0), "packet 1 claims 4294967280 bytes"),
    "a block of 4 GB": (b"\x0a\x0d\x0d\x0a\xf0\xff\xff\xff\x4d\x3c\x2b\x1a" + bytes(99), "a block claims 4294967280"),
    "no gzip": (b"\x1f\x8b" + b"x" * 100, "the compressed data is truncated or damaged"),
    "no zstd": (b"\x28\xb5\x2f\xfd" + b"x" * 100, "the compressed data is truncated or damaged"),
}
COMMANDS = [("decode",), ("sql", "select count(*) from samples"), ("report", "-o", "REPORT")]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("name", NO_CAPTURE)
def test_a_file_that_is_not_a_capture_is_refused_in_one_line(run, tmp_path, name, command):  # noqa: F811
    data, why = NO_CAPTURE[name]
    path = tmp_path / "given.pcap"
    path.write_bytes(data)
    command = [str(tmp_path / "report.html") if word == "REPORT" else word for word in command]
    code, out, err = run(*command, str(path))
    assert (code, out) == (1, b"")
    assert err.startswith(f"zenlake: {path} is not a capture: ")
    assert why in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("given.pcap", WHOLE[: len(WHOLE) // 2 + 3]),
        ("given.pcap.gz", gzip.compress(WHOLE)[:-2000]),
        ("given.pcap", damaged()),
    ],
    ids=["cut", "cut gzip", "damaged"],
)
@pytest.mark.parametrize(
    "command",
    [
        ("sql", "select a.n from (select count(*) as n from messages) a, (select count(*) from samples) b", "--format", "jsonl"),
        ("decode", "--table", "messages", "--format", "jsonl"),
        ("decode", "--table", "sessions", "--format", "jsonl"),
    ],
    ids=["sql", "decode", "decode derived"],
)  # fmt: skip
def test_readable_parts_are_decoded_and_one_line_reports_the_rest(run, tmp_path, name, data, command):  # noqa: F811
    path = tmp_path / name
    path.write_bytes(data)
    code, out, err = run(*command, str(path))
    assert code == 1
    assert json.loads(out.splitlines()[0])
    [line] = err.splitlines()
    assert line.startswith(f"zenlake: {path}: read up to packet ")


def at_most_700_mib():
    resource.setrlimit(resource.RLIMIT_DATA, (700 << 20,) * 2)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["zstd", "gzip"])
def test_a_bomb_takes_time_but_no_memory(tmp_path, how):
    """Return a gigabyte of packets of another protocol, compressed to less than a megabyte."""
    packet = struct.pack("<IIII", 1, 1, 1 << 20, 1 << 20) + bytes(1 << 20)
    path = tmp_path / f"bomb.{how}"
    with pa.CompressedOutputStream(str(path), how) as file:
        file.write(HEAD)
        for _ in range(1000):
            file.write(packet)
    assert path.stat().st_size < 2 << 20
    program = "from zenlake.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "sql", "select sum(count)::int as n from events", str(path), "-f", "jsonl"],
        capture_output=True, text=True, timeout=100, preexec_fn=at_most_700_mib,
    )  # fmt: skip
    assert (done.returncode, json.loads(done.stdout)) == (0, {"n": 1000}), done.stderr


def test_a_damaged_description_of_a_log_is_repaired(run, tmp_path):  # noqa: F811
    from tests.log.fixtures import interleaved, written

    log = written(tmp_path / "log", interleaved(1))
    before = log.plan()
    (tmp_path / "log" / "zenlake-log.json").write_bytes(b"{damaged")
    code, _, err = run("decode", str(tmp_path / "log"))
    assert (code, "is damaged; run `zenlake log repair` to rebuild it" in err) == (1, True)
    assert run("log", "repair", str(tmp_path / "log"))[0] == 0
    assert run("decode", str(tmp_path / "log"))[0] == 0
    assert log.plan() == before
