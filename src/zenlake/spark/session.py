# SPDX-License-Identifier: Apache-2.0
"""A Spark session that finds Zenlake, Python and Java.

Spark starts its workers with `python3` from the PATH unless it is told otherwise; in a virtual environment that was not
activated this is another Python, which has no Zenlake, and the format is then "not found". So the session is told.
"""

import os
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from zenlake.spark.launcher import python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PYTHONS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")  # of functions, and of sources

# Any of these says that somebody else decided where Spark runs.
_DECIDED = ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME", "MASTER")


# Less work for the JVM's own compiler: half the CPU time of a job of seconds, but slower than usual in one of minutes.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def session(
    master: str | None = None,
    app: str = "zenlake",
    *,
    quick: bool = False,
    quiet: bool = False,
    conf: dict[str, str] | None = None,
) -> "SparkSession":
    """The session in use, or a new one: on this machine, unless `master` or Spark's own settings say otherwise.

    A new one runs its workers with this Python, finds Java where there is one, and keeps time in UTC, in Parquet too. On this
    machine it also stays on the loopback, without a web page, and logs errors only; with `quiet`, for programs that tell them, not
    even those. `quick` is for little data. Both do without the processor's vectors in MLlib. `conf` has the last word.

    A thread that did not make the session calls this too, before it writes with `format("zenoh")`.

    `master` is a cluster's (`spark://host:7077`, `yarn`, `k8s://...`) or a Spark Connect server's address (`sc://host:15002`),
    which needs no Java here.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise ImportError("Spark is not installed: pip install 'zenlake[spark]'") from None
    active, made = SparkSession.getActiveSession(), getattr(SparkSession, "_instantiatedSession", None)
    if active is None and made is not None and made._sc._jsc is not None:
        active = made  # by another thread
    if active is not None:
        return activated(active)
    if master is None and not any(name in os.environ for name in _DECIDED):
        master = "local[*]"
    here = master is not None and master.startswith("local")
    ours = [name for name in _PYTHONS if name not in os.environ]
    for name in ours:
        os.environ[name] = python() if here else sys.executable
    settings = {
        "spark.app.name": app,
        "spark.sql.session.timeZone": "UTC",
        "spark.python.authenticate.socketTimeout": "60s",  # 15 are few for a worker on a busy machine
        "spark.sql.python.filterPushdown.enabled": "true",  # for those who ask a source for it by pushdown=true
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # others read Spark's own INT96 as times without a zone
    }
    builder = SparkSession.builder
    home = None
    if master is not None and master.startswith("sc://"):
        builder = builder.remote(master)
    elif master is not None:
        from zenlake.spark.java import java_home, launcher

        settings["spark.master"] = master
        os.environ["JAVA_HOME"] = home = java_home()
        if here and (quick or quiet) and os.name == "posix":
            os.environ["JAVA_HOME"] = launcher(Path(home, "bin", "java"))
    if here:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        log = f"-Dlog4j2.configurationFile={files('zenlake.spark') / 'log4j2.properties'}"
        if quiet:
            log += " -Dzenlake.log=off"
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
            "spark.driver.extraJavaOptions": f"{log} {_QUICK}" if quick else log,
        }
    for name, value in {**settings, **(conf or {})}.items():
        builder = builder.config(name, value)
    try:
        return activated(builder.getOrCreate())
    finally:
        for name in ours:
            os.environ[name] = sys.executable  # the scripts are for this session, and for this machine
        if home is not None:
            os.environ["JAVA_HOME"] = home


def activated(spark: "SparkSession") -> "SparkSession":
    """The session, now also the calling thread's: there Spark looks for a Python sink, and only the thread that made one has it."""
    if hasattr(spark, "_jsparkSession"):  # a session of Spark Connect has none, and needs it not
        spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
    return spark
