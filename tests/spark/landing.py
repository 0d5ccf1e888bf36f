# SPDX-License-Identifier: Apache-2.0
"""A landing job in processes of its own, which can be killed with -9 at a named point of its work."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

JOB = """
import sys, zenlake.spark
spark = zenlake.spark.session("local[2]", quick=True)
query = zenlake.spark.land(spark, sys.argv[1], sys.argv[2], ["samples", "events"], format=sys.argv[3],
                           options={"maxBytesPerTrigger": sys.argv[4]})
query.awaitTermination()
"""


PATIENCE = 90.0  # seconds; Spark begins slowly where others work too


def until(true, what):
    """Wait for what no event tells of."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"{what}: not in {PATIENCE:g} s"
        time.sleep(0.05)


def landing(log, lake, format="parquet", size=9000, point=None, after=0, kind="all"):
    """Run the job until it ends or reaches the point; whether it came to its end."""
    reached = Path(lake).parent / "reached"
    reached.unlink(missing_ok=True)
    env = {**os.environ, "PYTHONPATH": f"{Path(__file__).parent / 'faults'}:{Path(__file__).parents[2] / 'src'}"}
    if point is not None:
        env |= {"FAULT_POINT": point, "FAULT_AFTER": str(after), "FAULT_KIND": kind, "FAULT_FILE": str(reached)}
    job = subprocess.Popen(
        [sys.executable, "-c", JOB, str(log), str(lake), format, str(size)],
        env=env, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 300
        while job.poll() is None and time.monotonic() < deadline:
            if reached.exists() and kind == "all":
                break
            time.sleep(0.05)
        done = job.poll() == 0
        assert done or point is not None, job.stderr.read()
        assert done or reached.exists(), job.stderr.read()
        return done
    finally:
        for process in members(job.pid):
            os.kill(process, signal.SIGKILL)
        job.wait()
        job.stderr.close()


def members(session):
    """The processes that a job has started, whatever groups they made."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session:
                yield int(entry.name)
