# SPDX-License-Identifier: Apache-2.0
"""A Spark session that finds Zenlake, Python and Java.

By default Spark starts its workers with `python3` from the PATH. In a virtual environment that is not activated, this
is another Python without Zenlake, and Spark does not find the format. This session sets the Python.
"""

import os
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from zenlake.spark.launcher_scripts import python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PYTHONS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")  # of functions, and of sources

# Each of these selects where Spark runs.
_DECIDED = ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME", "MASTER")


# Less work for the JIT compiler: half the CPU time of a job of seconds, but slower than usual in a job of minutes.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def session(
    master: str | None = None,
    app: str = "zenlake",
    *,
    quick: bool = False,
    quiet: bool = False,
    conf: dict[str, str] | None = None,
) -> "SparkSession":
    """Return the active Spark session, or create one.

    A new session runs its workers with this Python, finds Java, and uses UTC, in Parquet too. A local session uses
    loopback only, has no web page, and logs errors only. A thread that did not create the session calls this before it
    writes with `format("zenoh")`.

    Args:
        master: A cluster (`spark://host:7077`, `yarn`, `k8s://...`) or a Spark Connect server (`sc://host:15002`, which needs no
            Java here). Default: Spark's own settings, else this machine.
        app: Name of the Spark application.
        quick: Reduce the start-up cost for small data. Disables vector instructions in MLlib.
        quiet: Do not log errors either, for programs that print them. Disables vector instructions in MLlib.
        conf: Spark settings, which override all others.

    Returns:
        The session.

    Raises:
        ImportError: PySpark is not installed.
        FileNotFoundError: No usable Java was found.
    """
    require_spark()
    from pyspark.sql import SparkSession

    active, made = SparkSession.getActiveSession(), getattr(SparkSession, "_instantiatedSession", None)
    if active is None and made is not None and made._sc._jsc is not None:
        active = made  # by another thread
    if active is not None:
        return activate(active)
    if master is None and not any(name in os.environ for name in _DECIDED):
        master = "local[*]"
    here = master is not None and master.startswith("local")
    ours = [name for name in _PYTHONS if name not in os.environ]
    for name in ours:
        os.environ[name] = python() if here else sys.executable
    settings = {
        "spark.app.name": app,
        "spark.sql.session.timeZone": "UTC",
        "spark.python.authenticate.socketTimeout": "60s",  # the default 15 is not enough for a worker on a busy machine
        "spark.sql.python.filterPushdown.enabled": "true",  # for sources with pushdown=true
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # other engines read Spark's INT96 as times without a zone
    }
    builder = SparkSession.builder
    home = None
    if master is not None and master.startswith("sc://"):
        builder = builder.remote(master)
    elif master is not None:
        from zenlake.spark.java_home import java_home, launcher

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
        return activate(builder.getOrCreate())
    finally:
        for name in ours:
            os.environ[name] = sys.executable  # the scripts are for this session on this machine
        if home is not None:
            os.environ["JAVA_HOME"] = home


def require_spark(java: bool = False) -> None:
    """Raise an error that names the remedy if PySpark is missing. A command calls this before it starts work.

    Args:
        java: Whether to require Java as well, for Spark on this machine.

    Raises:
        ImportError: PySpark is not installed.
        FileNotFoundError: No usable Java was found.
    """
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise ImportError("Spark is not installed: pip install 'zenlake[spark]'") from None
    if java and not any(name in os.environ for name in _DECIDED):
        from zenlake.spark.java_home import java_home

        java_home()


def activate(spark: "SparkSession") -> "SparkSession":
    """Make the session active in the calling thread, where Spark looks for a Python sink."""
    if hasattr(spark, "_jsparkSession"):  # a Spark Connect session does not have or need this
        spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
    return spark
