# SPDX-License-Identifier: Apache-2.0
"""The example of a declarative pipeline: after each of two runs it has the tables of the growing log."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pyspark
import pytest

import zenlake
from tests.lake.fixtures import recorded
from zenlake.spark.java_home import java_home

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

PROJECT = Path(__file__).parents[2] / "examples" / "pipeline"
DERIVED_TABLES = [
    "pandas",
    "grpcio",
    "grpcio-status",
    "googleapis-common-protos",
    "zstandard",
    "pyyaml",
]  # pyspark[pipelines]


def run(project, log, packages):
    environment = {
        **os.environ, "ZENLAKE_LOG": str(log), "PYTHONPATH": str(packages), "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": java_home(), "SPARK_LOCAL_IP": "127.0.0.1",
    }  # fmt: skip
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-pipelines"), "run"]
    command += ["--conf", "spark.sql.catalogImplementation=hive"]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=400)
    output = done.stdout + done.stderr
    assert "Run is COMPLETED" in output, [line for line in output.splitlines() if "rror" in line or "xception" in line]


def test_the_pipeline_has_the_tables_of_the_log_as_it_grows(tmp_path):
    packages, log, project = tmp_path / "packages", tmp_path / "log", tmp_path / "project"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(packages), *DERIVED_TABLES]
    if subprocess.run(install, capture_output=True).returncode != 0:
        pytest.skip("what pyspark[pipelines] needs cannot be installed here")
    shutil.copytree(PROJECT, project)
    spec = (project / "spark-pipeline.yml").read_text()
    (project / "spark-pipeline.yml").write_text(
        spec.replace("file:///tmp/zenlake-pipeline", f"file://{tmp_path}/storage")
    )
    for seed in (1, 2):
        recorded(log, seed=seed, size=20)
        run(project, log, packages)
        for table in ("messages", "samples", "events", "sessions", "queries", "latest", "rates"):
            [(count,)] = duckdb.sql(f"select count(*) from '{project}/spark-warehouse/{table}/*.parquet'").fetchall()
            assert count == zenlake.read(log, table).num_rows > 0, table
