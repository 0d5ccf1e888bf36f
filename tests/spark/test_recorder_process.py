# SPDX-License-Identifier: Apache-2.0
"""Recording while reading, through a router of eclipse-zenoh: samples arrive, and the recorder ends with its query."""

import json
import os
import signal
import subprocess
import sys

import pytest

import zenlake
from tests.spark.landing import PATIENCE, members, until
from zenlake.log import readers
from zenlake.spark.recorder_main import PLACE

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.timeout(300)]


def recorder(log):
    """Wait for the process that records into this log, and return it."""
    until(lambda: (log / PLACE).exists() and (log / PLACE).read_text(), "a recorder runs")
    return json.loads((log / PLACE).read_text())["process"]


def is_alive(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def runs_java(process):
    try:
        return "java" in os.readlink(f"/proc/{process}/exe")
    except FileNotFoundError:  # a short-lived process of Spark
        return False


def live(spark, router, log, **options):
    reader = spark.readStream.format("zenoh").option("connect", router.where).option("path", str(log))
    return reader.options(**{"subscribe": "live/**", **options}).load()


class Heard:
    """A query over live samples, with their payloads so far."""

    def __init__(self, rows, checkpoint):
        self.payloads = []
        self.fail = False
        writer = rows.select("payload").writeStream.foreachBatch(self.take)
        self.query = writer.option("checkpointLocation", str(checkpoint)).start()

    def take(self, rows, _):
        if self.fail:
            raise RuntimeError("on purpose")
        self.payloads += [bytes(row.payload).decode() for row in rows.collect()]

    def has(self, *payloads):
        def come():
            assert self.query.isActive, self.query.exception()
            return self.payloads == list(payloads)

        until(come, f"{payloads} of {self.payloads}")


def test_a_recorder_lives_as_long_as_its_query_and_is_replaced_when_it_is_lost(spark, router, tmp_path):
    log = tmp_path / "log"
    first = Heard(live(spark, router, log, columns="payload", reader="first"), tmp_path / "first")
    process = recorder(log)
    router.do("pub", "live", "live/a")
    until(lambda: router.do("matching", "live"), "it subscribes")
    router.do("publish", "live", "1")
    first.has("1")
    assert readers(log)["first"].keys() <= {"spark"}

    os.kill(process, signal.SIGKILL)
    until(lambda: recorder(log) != process, "another recorder")
    until(lambda: router.do("matching", "live"), "the new one subscribes")
    router.do("publish", "live", "2")
    first.has("1", "2")

    second = Heard(live(spark, router, log, columns="payload"), tmp_path / "second")
    until(lambda: second.query.lastProgress is not None, "a second query stands by")
    process = recorder(log)
    first.query.stop()
    until(lambda: not is_alive(process), "the recorder of a stopped query ends")
    until(lambda: recorder(log) != process, "the other one takes its place")
    until(lambda: router.do("matching", "live"), "which subscribes")
    router.do("publish", "live", "3")
    second.has("3")

    process = recorder(log)
    with pytest.raises(Exception, match=r"another query records live/\*\* of .* into .*; use another path"):
        live(spark, router, log, subscribe="other/**").writeStream.format("noop").start().awaitTermination(PATIENCE)
    second.fail = True
    router.do("publish", "live", "4")
    with pytest.raises(Exception, match="on purpose"):
        second.query.awaitTermination(PATIENCE)
    until(lambda: not is_alive(process), "the recorder of a failed query ends")
    assert zenlake.read(log)["payload"].to_pylist() == [b"1", b"2", b"3", b"4"]


def test_a_refused_connection_is_reported_in_one_line(spark, tmp_path):
    reader = (
        spark.readStream.format("zenoh").options(connect="tcp/127.0.0.1:1", subscribe="a").load(str(tmp_path / "log"))
    )
    with pytest.raises(Exception, match=r"zenoh: tcp/127\.0\.0\.1:1: connection refused"):
        reader.writeStream.format("noop").start().awaitTermination(PATIENCE)


HOLDER = """
import sys
from zenlake.spark.recorder_process import RecordingOptions, start_recording
start_recording(sys.argv[1], RecordingOptions([sys.argv[2]], ["live/**"], None, None))
sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_recorder_ends_with_the_process_that_wanted_it(router, tmp_path, number):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "log"), router.where],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        process = recorder(tmp_path / "log")
        holder.send_signal(number)
        holder.wait(PATIENCE)
        until(lambda: not is_alive(process), "it ends")
    finally:
        holder.kill()
        holder.wait()
        holder.stdin.close()


JOB = """
import sys, zenlake.spark
spark = zenlake.spark.session("local[1]", quick=True)
rows = spark.readStream.format("zenoh").option("connect", sys.argv[2]).option("subscribe", "live/**").load(sys.argv[1])
rows.writeStream.format("noop").option("checkpointLocation", sys.argv[1] + "-checkpoint").start().awaitTermination()
"""


@pytest.mark.slow
def test_a_recorder_ends_when_the_driver_is_killed(router, tmp_path):
    log = tmp_path / "log"
    job = subprocess.Popen([sys.executable, "-c", JOB, str(log), router.where], start_new_session=True)
    try:
        process = recorder(log)
        started = set(members(job.pid))
        assert process in started
        [driver] = [each for each in started if runs_java(each)]
        os.kill(driver, signal.SIGKILL)
        os.kill(job.pid, signal.SIGKILL)
        until(lambda: not is_alive(process), "it ends")
    finally:
        for each in members(job.pid):
            os.kill(each, signal.SIGKILL)
        job.wait()
