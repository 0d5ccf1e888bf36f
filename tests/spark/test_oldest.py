# SPDX-License-Identifier: Apache-2.0
"""The oldest supported Spark: captures, logs, streams, landing and derived tables."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import zenlake
from tests.lake.fixtures import recorded
from zenlake.sample_captures import sample

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

JOB = """
import sys, pyspark, zenlake.spark
capture, log, lake = sys.argv[1:]
spark = zenlake.spark.session("local[2]", quick=True)
assert spark.version == pyspark.__version__
print(spark.version)
tables = zenlake.spark.tables(spark, capture)
print(tables["samples"].count(), tables["queries"].count())
print(spark.read.format("zenoh").option("keyExpr", "**").option("pushdown", "true").load(log).where("key is not null").count())
zenlake.spark.land(spark, log, lake, options={"maxBytesPerTrigger": "30000"}).awaitTermination()
landed = zenlake.spark.tables(spark, lake)
print(landed["samples"].count(), landed["rates"].count())
"""


def test_the_oldest_spark_that_is_promised(tmp_path):
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    [needed] = project["project"]["optional-dependencies"]["spark"]
    oldest = re.fullmatch(r"pyspark>=([0-9.]+)", needed)[1]
    packages, log = tmp_path / "packages", tmp_path / "log"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages)]
    if subprocess.run([*install, f"pyspark=={oldest}.0", "py4j"], capture_output=True).returncode != 0:
        pytest.skip(f"PySpark {oldest}.0 cannot be installed here")
    recorded(log)
    done = subprocess.run(
        [sys.executable, "-c", JOB, str(sample()), str(log), str(tmp_path / "lake")],
        env={**os.environ, "PYTHONPATH": str(packages)}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    capture = {name: zenlake.read(sample(), name).num_rows for name in ("samples", "queries")}
    rows = zenlake.read(log)
    keyed = rows.num_rows - rows["key"].null_count
    assert done.stdout.split() == [
        f"{oldest}.0", *map(str, capture.values()), str(keyed), str(rows.num_rows), str(zenlake.read(log, "rates").num_rows),
    ]  # fmt: skip
