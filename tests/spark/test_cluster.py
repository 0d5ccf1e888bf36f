# SPDX-License-Identifier: Apache-2.0
"""Captures, and a landing, on a real standalone cluster and through Spark Connect, as docs/howto/cluster.md says.

Each job is its own process.
"""

import os
import subprocess
import sys

import pytest

import zenlake
from tests.lake.fixtures import recorded
from tests.spark.cluster import cluster, started
from tests.spark.test_capture_source import FILES as ALL
from tests.spark.test_capture_source import QUERIES

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


def answers(folder, master, **environment):
    recorded(folder / "log")
    environment = {**os.environ, **environment}
    arguments = [
        sys.executable, "-c", JOB, master, ",".join(FILES), QUERIES, str(folder / "log"), str(folder / "lake"),
    ]  # fmt: skip
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment, timeout=900)
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.split()]


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
