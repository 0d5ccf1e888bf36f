# SPDX-License-Identifier: Apache-2.0
"""Captures, and a landing, on a real standalone cluster and through Spark Connect, as in docs/howto/cluster.md.

Each job is its own process.
"""

import json
import os
import subprocess
import sys

import pytest

import zenlake
from tests.lake.fixtures import decoded, recorded, rows
from tests.lake.store import Store
from tests.lake.test_commit import place
from tests.spark.cluster import cluster, started
from tests.spark.test_capture_source import FILES as ALL
from tests.spark.test_capture_source import QUERIES
from zenlake.log import Log, Mirror

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

FILES = [*ALL[:1], QUERIES]

JOB = """
import sys, zenlake.spark

master, path, queries = sys.argv[1], sys.argv[2].split(","), sys.argv[3]
spark = zenlake.spark.session(master)
captures = [spark.read.format("zenoh_capture").load(each) for each in path]
union = captures[0]
for each in captures[1:]:
    union = union.union(each)
print(union.count())
print(zenlake.spark.tables(spark, queries)["queries"].count())
typed = zenlake.spark.values(union.where("key like 'svc/%'"), "text")
print(typed.where("value is not null").count())
log, lake = sys.argv[4:]
for _ in range(2):
    zenlake.spark.land(spark, log, lake, ["samples"], options={"maxBytesPerTrigger": "30000"}).awaitTermination()
    print(zenlake.spark.tables(spark, lake)["samples"].count())
"""

# Each landing has a new checkpoint. The first one begins in the middle of the log.
STORE_JOB = """
import os, sys, time, zenlake.spark

master, log, folder, middle, *lakes = sys.argv[1:]
spark = zenlake.spark.session(master)

def look(_):
    time.sleep(1)  # so that one worker does not run all tasks
    found = [os.stat(folder).st_dev, len([name for name in os.listdir(folder) if name.startswith("of-driver")])]
    return [found]

open(f"{folder}/of-driver", "w").close()
seen = spark.sparkContext.parallelize(range(6), 6).mapPartitions(look).collect()
print(len({device for device, _ in seen} - {os.stat(folder).st_dev}), sum(count for _, count in seen))
for lake in lakes:
    format = os.path.basename(lake)
    for i, start in enumerate((middle, "earliest", "earliest")):
        query = zenlake.spark.land(
            spark, log, lake, ["samples", "events"], format=format, checkpoint=f"{folder}/{format}-{i}",
            options={"maxBytesPerTrigger": "9000", "startingOffsets": start},
        )
        query.awaitTermination()
        print(sum(each["observedMetrics"]["landed"]["rows"] for each in query.recentProgress if each["numInputRows"]))
    for name in ("samples", "events"):
        print(zenlake.spark.tables(spark, lake)[name].count())
"""


def answers(folder, master, **environment):
    recorded(folder / "log")
    return run(JOB, master, ",".join(FILES), QUERIES, folder / "log", folder / "lake", **environment)


def run(job, *arguments, **environment):
    """Return the numbers that a job prints."""
    command = [sys.executable, "-c", job, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=900)
    assert done.returncode == 0, done.stderr
    return [int(number) for number in done.stdout.split()]


def expected(folder):
    samples = [row for path in FILES for row in zenlake.read(path, columns=["key", "payload"]).to_pylist()]
    texts = 0
    for row in samples:
        if (row["key"] or "").startswith("svc/") and row["payload"] is not None:
            try:
                row["payload"].decode()
            except UnicodeDecodeError:
                continue
            texts += 1
    landed = zenlake.read(folder / "log").num_rows
    return [len(samples), zenlake.read(QUERIES, "queries").num_rows, texts, landed, landed]


def test_a_standalone_cluster_of_two_workers(tmp_path):
    with cluster(tmp_path) as master:
        assert answers(tmp_path, master, SPARK_LOCAL_IP="127.0.0.1") == expected(tmp_path)


def test_workers_that_share_nothing_but_a_store(tmp_path, monkeypatch):
    """Each worker has its own mount namespace, with an empty folder in the place of the driver's. The log is in the store too."""
    pytest.importorskip("moto.server")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("only root makes a mount namespace")
    log, here = tmp_path / "log", tmp_path / "private"
    here.mkdir()
    recorded(log, size=30)
    middle = place(Log(log), 1 / 2)
    expected = decoded(log, ["samples", "events"])
    store = Store()
    try:
        environment = {**store.environment(), "XDG_STATE_HOME": str(here), "TMPDIR": str(here)}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        Mirror(log, "tap-1", "s3://lake/log").catch_up()
        log.rename(tmp_path / "hidden")
        lakes = [f"s3://lake/{format}" for format in ("delta", "iceberg")]
        with cluster(here, private=True, **environment) as master:
            found = run(
                STORE_JOB, master, "s3://lake/log", here, json.dumps(middle), *lakes, SPARK_LOCAL_IP="127.0.0.1"
            )
        folders, seen, *counts = found
        assert (folders, seen) == (2, 0)
        total = sum(table.num_rows for table in expected.values())
        for lake in lakes:
            first, second, third, *each = counts[:5]
            del counts[:5]
            assert 0 < first < total
            assert (first + second, third) == (total, 0)
            for (name, table), count in zip(expected.items(), each, strict=True):
                assert count == table.num_rows
                assert rows(zenlake.read(lake, name)) == rows(table)
    finally:
        store.close()


def test_spark_connect(tmp_path):
    """The server is Spark's own, from the same environment; the client has what pyspark[connect] asks for, in a folder."""
    packages = tmp_path / "packages"
    needed = ["pandas", "grpcio", "grpcio-status", "googleapis-common-protos", "zstandard"]
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(packages), *needed]
    if subprocess.run(install, capture_output=True).returncode != 0:
        pytest.skip("what pyspark[connect] needs cannot be installed here")
    server = [
        "org.apache.spark.deploy.SparkSubmit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master", "local[2]", "--conf", "spark.connect.grpc.binding.port=0", "--conf", "spark.ui.enabled=false",
        "--conf", "spark.connect.grpc.binding.address=127.0.0.1", "spark-internal",
    ]  # fmt: skip
    ready = r"Spark Connect server started at: \S*?:(\d+)"
    with started(server, ready, tmp_path) as found:
        assert answers(tmp_path, f"sc://127.0.0.1:{found[1]}", PYTHONPATH=str(packages)) == expected(tmp_path)
