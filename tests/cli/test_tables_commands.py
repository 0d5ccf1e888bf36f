# SPDX-License-Identifier: Apache-2.0
"""The commands `zenlake decode` and `zenlake sql`: their output, files and exit codes."""

import csv
import io
import json
import os
import pty
import signal
import subprocess
import sys
import time

import dpkt
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from rich.console import Console

import zenlake
from tests.capture import forge
from tests.log.fixtures import interleaved, written
from tests.tables.fixtures import PCAPS
from zenlake.cli import main, table_output
from zenlake.report import page
from zenlake.sample_captures import sample
from zenlake.tables import DERIVED, query
from zenlake.tables.schemas import TABLES

[QUERIES] = [str(path) for path in PCAPS if path.stem == "two_clients_queries"]
[CLEAN] = [str(path) for path in PCAPS if path.stem == "clean_full_sessions"]


@pytest.fixture
def run(capfdbinary):
    def typed(*arguments):
        with pytest.raises(SystemExit) as left:
            main(list(arguments))
        out, err = capfdbinary.readouterr()
        return left.value.code, out, err.decode()

    return typed


def test_a_table_is_printed_completely_without_a_terminal(run):
    code, out, err = run("decode", QUERIES, "--table", "queries", "--columns", "key,replies,outcome")
    lines = out.decode().splitlines()
    assert (code, err) == (0, "")
    assert "key" in lines[1]
    assert "outcome" in lines[1]
    assert lines[-1] == "130 rows"
    assert sum("answered" in line for line in lines) == 130


def test_columns_without_a_value_are_left_out_and_named(run):
    _, out, _ = run("decode", QUERIES, "--table", "events", "--columns", "kind,sn,count")
    assert out.decode().splitlines()[-1] == "3 rows; without values: sn, count"


def test_lines_of_json_keep_text_readable_and_bytes_exact(run):
    code, out, _ = run(
        "decode", CLEAN, "--columns", "key,payload,timestamp,attachment", "--format", "jsonl", "--key", "bench/**"
    )
    expected = zenlake.read(CLEAN, columns=["key", "payload", "timestamp"], keys="bench/**").to_pylist()
    found = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert len(found) == len(expected) > 0
    for row, wanted in zip(found, expected, strict=True):
        payload = row["payload"]
        exact = bytes.fromhex(payload["hex"]) if isinstance(payload, dict) else payload and payload.encode()
        assert (row["key"], exact) == (wanted["key"], wanted["payload"])
        assert row["timestamp"] == (wanted["timestamp"] and wanted["timestamp"].isoformat())
    assert any(isinstance(row["payload"], dict) for row in found)
    assert any(isinstance(row["payload"], str) for row in found)


@pytest.mark.parametrize("table", ["samples", "latest"])
@pytest.mark.parametrize("suffix", ["parquet", "arrow", "arrows", "feather", "ipc"])
def test_files_have_the_rows_of_read(run, tmp_path, table, suffix):
    out = tmp_path / f"out.{suffix}"
    code, printed, err = run("decode", CLEAN, "-t", table, "-o", str(out))
    expected = zenlake.read(CLEAN, table)
    assert (code, printed, err) == (0, b"", f"{expected.num_rows} rows of {table} written to {out}\n")
    readers = {
        "parquet": pyarrow.parquet.read_table,
        "feather": pyarrow.feather.read_table,
        "ipc": pyarrow.feather.read_table,
    }
    found = readers.get(suffix, lambda path: pa.ipc.open_stream(path).read_all())(out)
    assert found.sort_by([("key", "ascending"), ("packet", "ascending")]).schema.equals(expected.schema)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))


@pytest.mark.parametrize("suffix", ["json", "jsonl", "JSON"])
def test_a_file_of_json_has_a_line_for_each_row(run, tmp_path, suffix):
    out = tmp_path / f"out.{suffix}"
    run("decode", QUERIES, "-t", "queries", "--columns", "key", "-o", str(out))
    assert len([json.loads(line) for line in out.read_text().splitlines()]) == 130


@pytest.mark.parametrize(
    "words", [("decode", CLEAN), ("sql", "from messages", CLEAN), ("log", "info"), ("explain", "04")]
)
def test_a_command_with_a_closed_output_exits_with_success(tmp_path, words):
    if words[0] == "log":
        words = (*words, written(tmp_path / "log", interleaved(3, size=3)).files.path)
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-c", "from zenlake.cli import main; main()", *words]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    "words",
    [
        "decode {capture} -o {out}.csv", "decode {capture} -t queries -o {out}.csv", "sql from(samples) {capture} -o {out}.csv",
        "log verify {log}", "log repair {log}", "log export {log} --pcapng {out}.pcapng",
    ],
)  # fmt: skip
def test_long_commands_show_progress_on_a_terminal_only(tmp_path, words):
    log = written(tmp_path / "log", interleaved(3, size=3)).files.path
    words = words.format(capture=CLEAN, log=log, out=tmp_path / "out").split()
    command = [sys.executable, "-c", "from zenlake.cli import main; main()", *words]
    quiet = subprocess.run(command, capture_output=True, timeout=60, check=True)
    assert not any(word in quiet.stderr for word in (b"reading", b"repairing", b"writing"))
    ours, theirs = pty.openpty()
    terminal = os.environ | {"TERM": "xterm"}
    shown = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, timeout=60, check=True, env=terminal)
    os.write(theirs, b"the end")  # otherwise the read would block without output
    said = os.read(ours, 1 << 16)
    os.close(theirs)
    assert any(word in said for word in (b"reading", b"repairing", b"writing"))
    os.close(ours)
    assert shown.stdout == quiet.stdout  # and no row is lost


def test_csv_has_bytes_in_hexadecimal(run, tmp_path):
    out = tmp_path / "out.csv"
    run("decode", QUERIES, "--columns", "key,payload", "-o", str(out))
    expected = zenlake.read(QUERIES, columns=["key", "payload"]).to_pylist()
    with out.open(newline="") as file:
        assert [(row["key"], row["payload"]) for row in csv.DictReader(file)] == [
            (row["key"], row["payload"].hex()) for row in expected
        ]


def test_several_files_are_one_capture(run):
    _, out, _ = run("sql", "select count(distinct session) as n from messages", QUERIES, CLEAN, "-f", "jsonl")
    assert json.loads(out) == {"n": 5}


def test_a_question_in_sql(run, tmp_path):
    sql = "select outcome, count(*) as n from queries group by outcome order by n"
    code, out, _ = run("sql", sql, CLEAN, "--format", "jsonl")
    assert code == 0
    assert [json.loads(line) for line in out.splitlines()] == [
        {"outcome": "error", "n": 2},
        {"outcome": "answered", "n": 16},
    ]
    run("sql", sql, CLEAN, "-o", str(tmp_path / "n.parquet"))
    assert pyarrow.parquet.read_table(tmp_path / "n.parquet")["n"].to_pylist() == [2, 16]


def test_names_of_tables_may_be_written_in_capitals_and_are_listed(run):
    _, out, _ = run(
        "sql", "select (select count(*) from Samples) as n, (select count(*) from QUERIES) as q", QUERIES, "--json"
    )
    assert json.loads(out) == {"n": 500, "q": 130}
    _, out, _ = run("sql", "Show tables", QUERIES, "--json")
    assert {json.loads(line)["name"] for line in out.splitlines()} == {*TABLES, *DERIVED}


@pytest.mark.parametrize("table", ["samples", "queries"])
def test_a_key_filter_without_a_match_names_the_nearest_key(run, table):
    key = zenlake.read(sample(), table, columns=["key"])["key"][0].as_py()
    code, out, err = run("decode", sample(), "-t", table, "--key", f"{key[:-1]}", "--json")
    assert (code, out) == (0, b"")
    assert err == f"no row of {table} has a key that intersects {key[:-1]}; nearest key: {key}\n"
    code, _, err = run("decode", sample(), "-t", table, "--key", key, "--until", "2020-01-01")
    assert code == 0
    assert err.endswith(f"{key} in the selected time; the recording has such keys at other times\n")


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (
            ["replay", sample(), "--key", "fleet/r1/poze"],
            1,
            "zenlake: nothing to replay: no row of samples has a key that",
        ),
        (["decode", "nowhere.pcap"], 1, "zenlake: nowhere.pcap does not exist; expected a capture, a log or a lake"),
        (
            ["decode", QUERIES, "--table", "query"],
            2,
            "zenlake: Invalid value: unknown table 'query'; expected one of messages, ",
        ),
        (
            ["decode", QUERIES, "--columns", "keys"],
            2,
            "zenlake: Invalid value: samples has no column 'keys'; expected one of rec",
        ),
        (
            ["decode", QUERIES, "-t", "events", "--key", "a"],
            2,
            "zenlake: Invalid value: events has no key column",
        ),
        (
            ["decode", QUERIES, "--once", "-t", "messages"],
            2,
            "zenlake: Invalid value for --once: --once applies only to the table samples",
        ),
        (
            ["decode", QUERIES, "-o", "x.foo"],
            2,
            "zenlake: Invalid value: x.foo: unknown extension; expected .jsonl",
        ),
        (["sql", "from samples", QUERIES, "-o", "x.xls"], 2, "zenlake: Invalid value: x.xls: unknown extension"),
        (["sql", " ", QUERIES], 2, "zenlake: Invalid value for SQL: empty query; expected a SELECT or FROM statement"),
        (
            ["sql", "drop table samples", QUERIES],
            1,
            "zenlake: tables are read-only; expected a SELECT or FROM statement",
        ),
        (["decode", QUERIES, "--key", "a//b"], 2, "zenlake: "),
        (["decode", QUERIES, "--format", "xml"], 2, "zenlake: "),
        (["decode"], 2, "zenlake: "),
        (["sql", "selekt", QUERIES], 1, 'zenlake: Parser Error: syntax error at or near "selekt"'),
        (["sql", "select 1"], 2, "zenlake: "),
    ],
)
def test_a_mistake_is_one_line_and_an_exit_code(run, arguments, code, line):
    left, out, err = run(*arguments)
    assert (left, out) == (code, b"")
    [text] = err.splitlines()
    assert text.startswith(line)


@pytest.mark.parametrize("width", [60, 80, 110, 200])
@pytest.mark.parametrize("table", ["samples", "queries", "sessions"])
def test_a_terminal_gets_the_first_rows_and_the_columns_that_fit(table, width):
    rows = zenlake.read(sample(), table)
    printed = io.StringIO()
    count = table_output._print_some(
        Console(file=printed, width=width), rows.schema, rows.to_batches(max_chunksize=150)
    )
    assert count == rows.num_rows
    head, _, *lines = printed.getvalue().splitlines()[1:]
    names = head.split()
    assert names[0] == "received"
    assert {"samples": "key", "queries": "outcome", "sessions": "reason"}[table] in names
    assert not any(len(line) > width for line in lines)
    assert sum(line.startswith(" 20") for line in lines) == min(count, table_output.SCREEN)
    text = " ".join(printed.getvalue().split())
    assert f"{count} rows" in text
    empty = sum(rows[name].null_count == count for name in rows.column_names)
    assert f"; {rows.num_columns - empty - len(names)} more columns do not fit; use -o FILE" in text


def test_ctrl_c_ends_a_command_with_130_and_leaves_the_output_file_as_it_was(tmp_path):
    out = tmp_path / "out.parquet"
    out.write_text("before")
    program = [sys.executable, "-c", "from zenlake.cli import main; main()", "decode", "-", "-o", str(out)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(list(tmp_path.iterdir())) == 2  # the file that will replace it
        process.send_signal(signal.SIGINT)
        assert (process.wait(60), process.stderr.read()) == (130, b"")
    assert [file.name for file in tmp_path.iterdir()] == ["out.parquet"]
    assert out.read_text() == "before"


def test_ctrl_c_during_a_scan_of_duckdb_is_not_an_error_of_the_query(monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("zenlake.tables.duckdb_engine.decode", interrupt)
    with pytest.raises(KeyboardInterrupt):
        query("from samples", QUERIES)
    with pytest.raises(KeyboardInterrupt):
        page(QUERIES)


@pytest.mark.parametrize("form", ["table", "jsonl", "csv"])
def test_rows_of_a_pipe_are_printed_as_packets_arrive(form):
    with open(QUERIES, "rb") as file:
        data = file.read()
    half = len(data) // 2
    program = [
        sys.executable,
        "-c",
        "from zenlake.cli import main; main()",
        "decode",
        "-",
        "--columns",
        "key",
        "-f",
        form,
    ]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(data[:half])
        process.stdin.flush()
        out = b""
        while out.count(b"\n") < 100:  # the input has not ended: a command that reads it completely prints nothing yet
            out += os.read(process.stdout.fileno(), 1 << 16)
        out += process.communicate(data[half:], timeout=60)[0]
    expected = zenlake.read(QUERIES, columns=["key"])["key"].to_pylist()
    assert [key for key in expected if key.encode() not in out] == []
    assert out.count(b"\n") >= len(expected)


@pytest.mark.parametrize("content", ["empty", "other protocol"])
@pytest.mark.parametrize(
    "command",
    [["decode"], ["report", "--no-open", "-o", "page.html"], ["sql", "select count(*) from publications"]],
    ids=lambda command: command[0],
)
def test_a_capture_without_zenoh_is_one_line_and_no_file(run, tmp_path, monkeypatch, command, content):
    monkeypatch.chdir(tmp_path)
    packets = (
        [] if content == "empty" else [forge.Connection(server=("10.0.0.1", 80)).send(0, b"GET / HTTP/1.0\r\n\r\n")]
    )
    with open(tmp_path / "other.pcap", "wb") as file:
        writer = dpkt.pcap.Writer(file, linktype=1)
        for packet in packets:
            writer.writepkt(packet, 1_700_000_000)
    code, _, err = run(*command, "other.pcap")
    [line] = err.splitlines()
    assert (code, line.startswith("zenlake: other.pcap: no Zenoh message found; Zenoh uses TCP")) == (1, True)
    assert [file.name for file in tmp_path.iterdir()] == ["other.pcap"]


def test_a_time_without_rows_names_the_time_of_the_recording(run):
    code, out, err = run("decode", "sample.pcap", "--since", "2030-01-01", "--columns", "key,received", "--json")
    assert (code, out) == (0, b"")
    assert err.startswith("no row of samples was received in the selected time; its rows are from 2026-11-16T01:06:31")
    assert run("decode", "sample.pcap", "--since", "2030-01-01", "--until", "2029-01-01")[0] == 2


def test_a_truncated_capture_is_named_once_although_a_report_reads_it_several_times(tmp_path):
    with open(QUERIES, "rb") as file:
        (tmp_path / "cut.pcap").write_bytes(file.read()[:-7])
    program = [sys.executable, "-c", "from zenlake.cli import main; main()", "report", "--no-open", "cut.pcap"]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr.count("the file ends inside a packet")) == (1, 1)
    assert (tmp_path / "report.html").is_file()


def test_a_time_range_that_ends_before_its_start_is_refused(run):
    code, _, err = run("decode", QUERIES, "--since", "2026-02-01", "--until", "2026-01-01")
    assert (code, "is not before until=2026-01-01" in err) == (2, True)
