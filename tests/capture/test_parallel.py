# SPDX-License-Identifier: Apache-2.0
"""Several threads over a capture return the rows of one thread, in order. No thread is left after any kind of end."""

import signal
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from tests.capture.test_splits import EVERYTHING, gathered, packets_of, written
from zenlake import capture
from zenlake.capture import parallel
from zenlake.capture.decode import decode, decode_range


def at_work():
    return [thread for thread in threading.enumerate() if thread.name == "zenlake-capture"]


def test_two_threads_return_the_rows_of_one_in_order(tmp_path, monkeypatch):
    paths = written(tmp_path, packets_of(13), 2, 13)
    one = gathered(parallel.decode(paths, EVERYTHING, threads=1))
    assert gathered(parallel.decode(paths, EVERYTHING, threads=2)) == one
    open_as_usual = capture.open
    monkeypatch.setattr(capture, "open", lambda paths: open_as_usual(paths, rows=3))  # many steps
    one = gathered(parallel.decode(paths, EVERYTHING, threads=1))
    assert gathered(parallel.decode(paths, EVERYTHING, threads=2)) == one


@pytest.mark.parametrize("threads", [3, 4])
@pytest.mark.parametrize("size", [2000, 9000, 1 << 20])
def test_several_threads_return_the_rows_of_one_in_order(tmp_path, size, threads):
    paths = written(tmp_path, packets_of(13), 2, 13)
    one = gathered(parallel.decode(paths, EVERYTHING, threads=1))
    assert gathered(parallel.decode(paths, EVERYTHING, threads=threads, size=size)) == one


def test_compressed_files_are_read_where_they_are_decoded(tmp_path):
    import gzip

    plain = written(tmp_path, packets_of(7), 3, 7)
    zipped = plain[1].with_suffix(".pcap.gz")
    zipped.write_bytes(gzip.compress(plain[1].read_bytes()))
    paths = [plain[0], zipped, plain[2]]
    one = gathered(parallel.decode(paths, EVERYTHING, threads=1))
    assert gathered(parallel.decode(paths, EVERYTHING, threads=2)) == one
    assert gathered(parallel.decode(paths, EVERYTHING, threads=3, size=5000)) == one


def test_an_error_of_the_index_pass_is_raised_to_the_reader(tmp_path):
    paths = written(tmp_path, packets_of(13), 8, 13)
    whole = parallel.decode(paths, {"samples": None}, threads=3, size=1000, rows=1)
    next(whole)
    paths[-1].unlink()
    with pytest.raises(FileNotFoundError, match="rotated_00007"):
        list(whole)
    assert not at_work()


def test_an_error_of_the_reader_is_raised_after_the_rows_before_it(tmp_path):
    paths = written(tmp_path, packets_of(13), 3, 13)
    before = gathered(parallel.decode(paths[:2], {"messages": None}, threads=1))["messages"]
    source = capture.open(paths, rows=3)
    paths[-1].unlink()
    found = []
    with pytest.raises(FileNotFoundError, match="rotated_00002"):
        found.extend(decode(source, {"messages": None}, rows=1, ahead=True))
    assert len(gathered(found)["messages"]) > len(before) // 2
    assert not at_work()


def test_an_error_of_a_range_is_raised_after_the_rows_of_the_ranges_before_it(tmp_path, monkeypatch):
    paths = written(tmp_path, packets_of(13), 1, 13)
    ranges = list(capture.open(paths).ranges(1000))
    broken = len(ranges) // 2

    def steps(of, *arguments, **options):
        yield from decode_range(of, *arguments, **options)
        if of.first == ranges[broken].first:
            raise ValueError("a range in the middle")

    monkeypatch.setattr(parallel, "decode_range", steps)
    found = []
    with pytest.raises(ValueError, match="a range in the middle"):
        found.extend(parallel.decode(paths, {"samples": None}, threads=3, size=1000))
    before = [each for part in ranges[: broken + 1] for each in decode_range(part, {"samples": None})]
    assert gathered(found)["samples"] == gathered(before)["samples"]
    assert not at_work()


@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize("leave", [lambda whole: whole.close(), lambda whole: None], ids=["closed", "dropped"])
def test_a_reader_that_stops_early_leaves_no_thread(tmp_path, monkeypatch, leave, threads):
    paths = written(tmp_path, packets_of(13), 2, 13)
    open_as_usual = capture.open
    monkeypatch.setattr(capture, "open", lambda paths: open_as_usual(paths, rows=3))
    whole = parallel.decode(paths, EVERYTHING, threads=threads, size=1000, rows=1)
    next(whole)
    assert at_work()
    leave(whole)
    del whole
    assert not at_work()


INTERRUPTED = """
import sys, threading, time
from zenlake.capture import parallel
try:
    while True:
        for _ in parallel.decode(sys.argv[1], {"samples": None}, threads=int(sys.argv[2]), size=1000, rows=1):
            print("rows", flush=True)
except KeyboardInterrupt:  # which may have come while a thread that had nothing left to do was waited for
    end = time.monotonic() + 5
    while threading.active_count() > 1 and time.monotonic() < end:
        time.sleep(0.01)
    print("left", threading.active_count())
"""


def interrupt(process):
    """Interrupt a process and return its output. Repeat if the signal arrives in a Python finalizer, where it is ignored."""
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=10)
    process.kill()
    return process.communicate()


@pytest.mark.parametrize("threads", ["2", "3"])
def test_an_interrupt_ends_all_threads(tmp_path, threads):
    [path] = written(tmp_path, packets_of(13), 1, 13)
    command = [sys.executable, "-c", INTERRUPTED, str(path), threads]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "rows\n"
        output, errors = interrupt(process)
    assert output.endswith("left 1\n"), errors  # the interrupt may have split a line
    assert process.returncode == 0


def test_small_captures_and_pipes_are_read_by_one_thread(tmp_path):
    paths = written(tmp_path, packets_of(13), 2, 13)
    assert parallel.count_threads([str(path) for path in paths]) == 1
    assert parallel.count_threads(["-"]) == 1
    assert not parallel.are_files([str(paths[0]), "-"])
