# SPDX-License-Identifier: Apache-2.0
"""`zenlake land`: a log into a lake, also from the network, with metrics, and one line for each error."""

import os
import signal
import socket
import threading
import urllib.error
import urllib.request

import pytest

import zenlake.spark
from tests.interop.nodes import Theirs
from tests.lake.fixtures import decoded, recorded, rows
from tests.spark.landing import until
from zenlake.cli import land, main
from zenlake.cli.land import AGAIN, GAVE_UP
from zenlake.lake import Lake
from zenlake.log import Log, readers

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["land", *map(str, arguments)])
    return ended.value.code, capsys.readouterr().err


def free():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{found.getsockname()[1]}"


def test_a_log_is_landed_once(spark, tmp_path, capsys):
    recorded(tmp_path / "log", size=20)
    for _ in range(2):
        status, output = run(capsys, tmp_path / "log", tmp_path / "lake", "--tables", "samples, events")
        assert status == 0, output
        assert f"rows landed in {tmp_path / 'lake'}" in output
    lake, log = Lake(tmp_path / "lake"), Log(tmp_path / "log")
    assert lake.totals()["samples"]["rows"] == decoded(tmp_path / "log", ["samples"])["samples"].num_rows > 0
    assert lake.tables() == ["events", "samples"]
    [(name, offsets)] = readers(tmp_path / "log").items()
    assert name.startswith("land-")
    assert name.endswith("-lake")
    assert offsets == {"tap-1": list(lake.landed_intervals("samples", log.id, ["tap-1"]).of("tap-1")[0][1])}


@pytest.mark.interop
def test_published_samples_are_landed_and_counted_until_the_interrupt(spark, tmp_path, capsys):
    where, page = f"tcp/{free()}", free()
    router = Theirs("router", listen=(where,))
    output = []

    def asked():
        try:
            with urllib.request.urlopen(f"http://{page}/metrics", timeout=5) as answer:
                output.append(answer.read().decode())
        except OSError:
            return False
        # Defect 2: the lag used to be that of the whole log, whatever was landed.
        done = [
            'zenlake_land_rows_total{table="samples"} 2.0',
            "zenlake_land_lag_bytes 0.0",
            "zenlake_land_lag_seconds 0.0",
        ]
        return all(line in output[-1] for line in done)

    def publish_and_interrupt():
        try:
            router.do("pub", "p", "fleet/a")
            until(lambda: router.do("matching", "p"), "it subscribes")
            for payload in ("1", "2"):
                router.do("publish", "p", payload)
            until(asked, "the metrics count both")
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    helper = threading.Thread(target=publish_and_interrupt)
    helper.start()
    live = ["--every", "1 second", "-e", where, "--subscribe", "fleet/**", "--metrics", page, "-t", "samples"]
    status, _ = run(capsys, tmp_path / "log", tmp_path / "lake", *live)
    helper.join()
    router.close()
    assert status == 130
    for name in (
        "zenlake_land_running 1.0",
        "zenlake_land_lag_bytes",
        "zenlake_land_lag_seconds",
        "zenlake_land_batch_seconds",
    ):
        assert name in output[-1]
    assert Lake(tmp_path / "lake").totals()["samples"]["rows"] == 2
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://{page}/metrics", timeout=5)


def test_small_files_are_merged_while_a_landing_runs(spark, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(land, "MERGE_EVERY", 1.0)
    recorded(tmp_path / "log", size=20)
    lake, most = Lake(tmp_path / "lake", create="delta"), []

    def watch():
        """Interrupt the command when all rows are landed in fewer files."""
        expected = decoded(tmp_path / "log", ["samples"])["samples"].num_rows

        def merged():
            files = lake.files("samples")
            most.append(len(files))
            return len(files) == 2 < max(most) and sum(file.rows for file in files) == expected

        try:
            until(merged, "one file for each of the two days")
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    watcher = threading.Thread(target=watch)
    watcher.start()
    status, output = run(
        capsys,
        tmp_path / "log",
        tmp_path / "lake",
        "-t",
        "samples",
        "--every",
        "1 second",
        "-o",
        "maxBytesPerTrigger=3000",
    )
    watcher.join()
    assert status == 130, output
    assert len(lake.files("samples")) == 2
    assert rows(zenlake.read(lake.location.path)) == rows(zenlake.read(tmp_path / "log"))


class Failing:
    """A query that fails a number of times for the same reason, and then ends."""

    def __init__(self, times, why):
        self.times, self.why, self.begun = times, why, 0

    def start(self, *_, **__):
        self.begun += 1
        return self

    def awaitTermination(self, _):
        if self.begun <= self.times:
            raise RuntimeError(self.why)
        return True

    def stop(self):
        pass


@pytest.mark.parametrize(
    ("times", "why", "begun", "status"),
    [(3, GAVE_UP, 4, 0), (99, GAVE_UP, 1 + AGAIN, 1), (1, "another reason", 1, 1)],
)
def test_a_query_that_spark_gave_up_on_is_begun_again(tmp_path, capsys, monkeypatch, times, why, begun, status):
    query = Failing(times, f"[STREAM_FAILED] Query terminated with exception: {why}. SQLSTATE: XXKST")
    monkeypatch.setattr(zenlake.spark, "land", query.start)
    monkeypatch.setattr(zenlake.spark, "session", lambda *_, **__: None)
    recorded(tmp_path / "log", size=5)
    Lake(tmp_path / "lake", create="delta")
    assert run(capsys, tmp_path / "log", tmp_path / "lake")[0] == status
    assert query.begun == begun


def test_a_mistake_is_reported_in_one_line(spark, tmp_path, capsys):
    assert "is not a log: zenlake-log.json is missing" in run(capsys, tmp_path, tmp_path / "lake")[1]
    recorded(tmp_path / "log", size=5)
    status, output = run(capsys, tmp_path / "log", tmp_path / "lake", "-t", "queries")
    assert status == 1
    assert output.splitlines()[-1].startswith(
        "zenlake: unknown table 'queries'; expected one or more of messages, samples"
    )
    for wrong, line in (
        (["--subscribe", "a"], "--subscribe needs --connect"),
        (["-e", "tcp/a:1"], "--connect needs --every"),
    ):
        status, output = run(capsys, tmp_path / "log", tmp_path / "lake", *wrong)
        assert (status, line in output) == (2, True)
