# SPDX-License-Identifier: Apache-2.0
"""A landing job in its own processes, which the test kills with -9 at a named point."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

# Two queries into one lake at once, each with its own checkpoint. A task that fails is tried again.
JOB = """
import sys, zenlake.spark
log, lake, format, *checkpoints = sys.argv[1:]
spark = zenlake.spark.session("local[2,4]", quick=True)
queries = [
    zenlake.spark.land(spark, log, lake, ["samples", "events"], format=format, checkpoint=checkpoint,
                       options={"maxBytesPerTrigger": str(size)})
    for checkpoint, size in zip(checkpoints, (9000, 14000))
]
for query in queries:
    query.awaitTermination()
"""

POINTS = ("write", "written", "commit", "committed")  # of a landing
LOG_POINTS = ("log written", "log synced", "log ended", "log sealed")
PATIENCE = 90.0  # seconds; Spark starts slowly on a busy machine
LONG = 300.0  # for a whole job
# Spark waits ten seconds for a worker. No setting changes this. A busy machine exceeds it, and the job is run again.
GAVE_UP = "Python worker failed to connect back"


def until(true, what):
    """Poll until a condition holds that has no event."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"{what}: not in {PATIENCE:g} s"
        time.sleep(0.05)


def faults(point, file, after=0, kind="all"):
    """Return the environment of a process that stops at this point, if any, and records that in a file."""
    root = Path(__file__).parent
    found = {**os.environ, "PYTHONPATH": f"{root / 'faults'}:{root.parents[1] / 'src'}"}
    if point is not None:
        found |= {"FAULT_POINT": point, "FAULT_AFTER": str(after), "FAULT_KIND": kind, "FAULT_FILE": str(file)}
    return found


def landing(log, lake, checkpoints, format="delta", point=None, after=0, kind="all"):
    """Run the job until it ends or is killed at the point. Return whether the point was reached."""
    reached = Path(lake).parent / "reached"
    reached.unlink(missing_ok=True)
    env = faults(point, reached, after, kind)
    errors = Path(lake).parent / "errors.txt"
    for _ in range(8):
        command = [sys.executable, "-c", JOB, str(log), str(lake), format, *map(str, checkpoints)]
        with errors.open("w") as file:
            job = subprocess.Popen(command, env=env, start_new_session=True, stdout=file, stderr=file)
        try:
            if kind == "all" and point is not None:
                ended(job, reached)
            else:
                job.wait(LONG)
        finally:
            status = job.poll()
            for process in members(job.pid):
                os.kill(process, signal.SIGKILL)
            job.wait()
        text = errors.read_text()
        if status in (0, None):
            return reached.exists()
        assert GAVE_UP in text, text
    raise AssertionError(text)


def ended(job, reached):
    """Wait until the job has ended, or reports that it reached the point of its kill."""
    end = time.monotonic() + LONG
    while job.poll() is None and not reached.exists():
        assert time.monotonic() < end, f"neither ended nor reached in {LONG:g} s"
        time.sleep(0.05)


def members(session):
    """Return the processes that a job has started, in any process group."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session:
                yield int(entry.name)
