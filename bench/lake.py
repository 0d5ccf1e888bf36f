# SPDX-License-Identifier: Apache-2.0
"""Lakes: landing in both formats, SQL, reads of one key, and the time until a published sample is visible.

Landing is compared with Spark's own Parquet writer, which reads the same source and writes the same layout. `zenlake sql` is
compared with DuckDB on the same files, each as a process, with its memory. A key is one of ten thousand, in the lake of one day;
the peer is Spark on the files of its own writer, which are in order of receipt.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.family import Cost
from bench.land import by_spark, land, record
from bench.report import Ratio, Result, show

SAMPLES, LARGE, ROUNDS = 2_000_000, 8_000_000, 3
KEYS = 10_000
VISIBLE_SECONDS = 40
PAUSE = 0.05
WARM = 5.0  # seconds of publications that are not counted, because Spark starts its workers for the first ones

QUESTION = "select key, count(*) as n, sum(payload_size) as size from {} group by key order by n desc, key limit 10"
OURS = "from zenlake.cli import main; main(['sql', {question!r}, {lake!r}, '--format', 'csv'])"
THEIRS = "import duckdb; duckdb.sql({question!r}).show()"
# Installed modules have bytecode. Without it, Zenlake's would be compiled at every start.
INSTALLED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
# VmHWM is the peak memory of the process. The figure of `resource` would include its parent.
MEASURED = """
try:
    {}
finally:
    print(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0])
"""


def run(quick: bool) -> list[Result]:
    with tempfile.TemporaryDirectory() as folder:
        return list(measured(Path(folder), quick))


def measured(folder: Path, quick: bool) -> Iterator[Result]:
    import zenlake.spark

    rounds = 1 if quick else ROUNDS
    spark = zenlake.spark.session("local[2]")
    cores = spark.sparkContext.defaultParallelism
    log, large = folder / "log", folder / "large"
    record(log, 250_000 if quick else SAMPLES)
    works: list[Callable[[], None]] = [
        lambda: by_spark(spark, log, folder / "parquet", cores),
        lambda: land(spark, log, folder / "delta"),
        lambda: land(spark, log, folder / "iceberg", format="iceberg"),
        lambda: land(spark, log, folder / "all", None),
    ]
    for work in works:
        work()  # warm-up
    costs = [[Cost(work) for work in works] for _ in range(rounds)]
    for i, name in ((1, "Delta"), (2, "Iceberg")):
        yield compare(f"landing in {name}, ms", "plain Parquet by Spark, ms", costs, i, 0, 1.1)
    yield compare("landing all tables, ms", "samples only, ms", costs, 3, 1, 2)

    record(large, 1_000_000 if quick else LARGE, keys=KEYS)
    land(spark, large, folder / "lake")
    by_spark(spark, large, folder / "received", cores)
    lake = str(folder / "lake")
    yield one_key(spark, lake, str(folder / "received" / "samples"), rounds, "as landed, ms", None)
    yield from sql(lake, rounds)
    zenlake.spark.compact(spark, lake, ["samples"])
    yield one_key(spark, lake, str(folder / "received" / "samples"), rounds, "after compaction, ms", 0.1)
    yield visible(spark, folder, 15 if quick else VISIBLE_SECONDS)
    spark.stop()


def compare(name: str, peer: str, costs: list[list[Cost]], ours: int, theirs: int, aim: float) -> Result:
    return Result(name, peer, [Ratio(1000 * row[ours].seconds, 1000 * row[theirs].seconds) for row in costs], aim)


def one_key(spark: Any, lake: str, received: str, rounds: int, name: str, aim: float | None) -> Result:
    import zenlake.spark

    samples = zenlake.spark.tables(spark, lake)["samples"]
    day = samples.selectExpr("min(to_date(received))").first()[0]
    where = f"key = 'fleet/robot7777/pose' and received >= '{day}' and received < '{day}' + interval 1 day"
    theirs = spark.read.parquet(received)
    counts = [rows.where(where).selectExpr("sum(length(payload))").first()[0] for rows in (samples, theirs)]  # warm-up
    if len(set(counts)) != 1:
        raise AssertionError(f"different rows: {counts}")

    def seconds(rows: Any) -> float:
        return Cost(lambda: rows.where(where).selectExpr("sum(length(payload))").first()).seconds

    ratios = [Ratio(1000 * seconds(samples), 1000 * seconds(theirs)) for _ in range(3 * rounds)]
    return Result(f"one of {KEYS} keys of a day in Spark, {name}", "files in order of receipt, ms", ratios, aim)


def sql(lake: str, rounds: int) -> Iterator[Result]:
    import duckdb

    from zenlake.lake import Lake
    from zenlake.tables import query

    files = Lake(lake).files("samples")
    ours = OURS.format(question=QUESTION.format("samples"), lake=lake)
    asked = QUESTION.format(f"read_parquet({[file.path for file in files]})")
    theirs = THEIRS.format(question=asked)
    works = (lambda: query(QUESTION.format("samples"), lake), lambda: duckdb.sql(asked).fetchall())
    size = f"on {sum(file.size for file in files) >> 20} MB"
    costs = [[Cost(work) for work in works] for _ in range(rounds + 1)][1:]
    yield compare(f"zenlake.tables.query {size}, ms", "DuckDB on the same files, ms", costs, 0, 1, 2)
    found = [[process(code) for code in (ours, theirs)] for _ in range(rounds + 1)][1:]
    for i, unit, aim in ((0, "ms", 2), (1, "ms of processor time", None), (2, "MB of memory", None)):
        ratios = [Ratio(mine[i], other[i]) for mine, other in found]
        yield Result(f"the command zenlake sql {size}, {unit}", f"a DuckDB program, {unit}", ratios, aim)


def process(code: str) -> tuple[float, float, float]:
    """Return the milliseconds of a Python program, its CPU milliseconds, and its peak memory in MB."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", MEASURED.format(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=INSTALLED)
    elapsed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return 1000 * elapsed, 1000 * processor, int(done.stdout.split()[-1]) / 1024


def visible(spark: Any, folder: Path, seconds: float) -> Result:
    """Measure the time from a put until a Delta reader without Zenlake finds the row."""
    import duckdb

    import zenlake
    import zenlake.spark
    from zenlake.lake import Lake

    config = "{mode: 'router', listen: {endpoints: ['tcp/127.0.0.1:0']}, scouting: {multicast: {enabled: false}}}"
    times: list[float] = []
    stop = threading.Event()
    with zenlake.open(zenlake.Config.from_json5(config)) as session:
        options = {"connect": session._node.locators[0], "subscribe": "bench/**"}
        query = zenlake.spark.land(
            spark, folder / "live", folder / "live-lake", ["samples"], trigger="1 second", options=options
        )

        def publish() -> None:
            publisher = session.declare_publisher("bench/time")
            while not stop.wait(PAUSE):
                publisher.put(str(time.time()))

        thread = threading.Thread(target=publish)
        thread.start()
        seen: set[str] = set()
        began: float | None = None
        while began is None or time.monotonic() < began + seconds:
            time.sleep(PAUSE / 2)
            lake = Lake(folder / "live-lake")
            new = [file.path for file in lake.files("samples") if file.path not in seen]
            if not new:
                continue
            now = time.time()
            began = began or time.monotonic()
            seen.update(new)
            rows = duckdb.sql(f"select decode(payload) from read_parquet({new}) where kind = 'put'").fetchall()
            if time.monotonic() > began + WARM:
                times += [1000 * (now - float(text)) for (text,) in rows]
        stop.set()
        thread.join()
        with suppress(Exception):
            query.stop()
    p95 = statistics.quantiles(times, n=20)[-1]
    return Result("p95 from a put to a visible row, ms", "the trigger of a second, ms", [Ratio(p95, 1000)], 1.5)


if __name__ == "__main__":
    show(run("--quick" in sys.argv))
