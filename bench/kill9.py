# SPDX-License-Identifier: Apache-2.0
"""`make proof`: kill -9 the recording tap and the landing job, at every named point and at random, then let Spark and DuckDB count.

    python -m bench.kill9 [--kills 3] [--rate 2000] [--format delta|iceberg] [--store] [--seed 1]

A publisher numbers its samples. A tap records them into a wire log, a Spark job lands the log in a lake, both in processes of their
own that are killed and started again. First at named points: the tap inside writing, syncing and sealing, the job (driver, JVM and
workers at once) inside writing and committing. Then at random: the tap a moment after it has recorded something, the job a
moment after it has committed something. DuckDB reads the lake all the while.

What a reader finds in the log when the tap has just been killed is *acknowledged*. In the end every acknowledged sample must be in
the lake once; and at no moment may one be there twice. What was published while the tap was dead was never acknowledged.

With `--store`, the lake is in an S3 server (moto) behind a proxy, which loses the responses of 20 commits and refuses 20 others.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from rich.console import Console
from tests.lake.store import Store
from tests.spark.landing import LOG_POINTS, POINTS, faults, members

import zenlake
from zenlake.lake import Lake, is_lake
from zenlake.lake.table_format import SERIAL
from zenlake.log import Log
from zenlake.tables.lake_reader import TableSnapshot, open_delta, open_iceberg, read_snapshot

PAYLOADS = pa.schema([("payload", pa.binary())])
PATIENCE = 600.0  # a JVM may take long to start on a busy machine
KEY = "proof/number"
SEGMENT = 64 << 10  # bytes of a segment of the log, so that many are sealed


class Publisher:
    """A router with a publisher on it, which counts on whatever happens to the others."""

    def __init__(self, rate: int) -> None:
        config = zenlake.Config.from_json5(
            "{mode: 'router', listen: {endpoints: ['tcp/127.0.0.1:0']}, scouting: {multicast: {enabled: false}}}"
        )
        self.session = zenlake.open(config)
        self.endpoint = self.session._node.locators[0]
        self.published = 0
        self._stop = threading.Event()
        self._rate = rate
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        publisher = self.session.declare_publisher(KEY, congestion_control=zenlake.CongestionControl.BLOCK)
        began = time.monotonic()
        while not self._stop.wait(0.01):
            while self.published < (time.monotonic() - began) * self._rate:
                publisher.put(str(self.published))
                self.published += 1

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


class Victim:
    """A command of Zenlake's in processes of its own, which are killed together, or stop at a named point by themselves."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.arguments = arguments
        self.reached = folder / f"reached-{arguments[0]}"
        self.point: str | None = None
        self.process: subprocess.Popen[bytes]

    def start(self, point: str | None = None, kind: str = "all") -> None:
        self.reached.unlink(missing_ok=True)
        self.point = point
        environment = {**faults(point, self.reached, 1, kind), "FAULT_SEGMENT": str(SEGMENT)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from zenlake.cli import main; main()", *self.arguments], env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def kill(self) -> None:
        for pid in members(self.process.pid):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)


def in_log(log: Path) -> pa.Array:
    """The numbers that a reader finds there now."""
    payloads = zenlake.read(log, columns=["payload"])["payload"]
    return payloads.cast(pa.string()).cast(pa.int64()).combine_chunks()


def commits(lake: str) -> int:
    return sum(Lake(lake).table(name).number(SERIAL) or 0 for name in ("samples", "events")) if is_lake(lake) else 0


class Storm:
    """The tap's killer, in a thread of its own, and what was acknowledged each time."""

    def __init__(self, tap: Victim, log: Path, r: random.Random) -> None:
        self.acknowledged: list[pa.Array] = []
        self.kills = 0
        self._tap, self._log, self._r = tap, log, r
        self._stop = threading.Event()
        self._points = list(LOG_POINTS)
        self._start()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _start(self) -> None:
        self._tap.start(self._points.pop(0) if self._points else None, "itself")

    def _run(self) -> None:
        before = None
        while not self._stop.wait(0.05):
            if self._tap.point is not None:
                if self._tap.process.poll() is None:
                    continue  # it has not come to its point yet
            else:
                if Log(self._log).latest() == before:
                    continue  # it has not recorded anything since it was started again
                self._stop.wait(self._r.uniform(0.0, 2.0))
                self._tap.kill()
            self.kills += 1
            self.acknowledged.append(in_log(self._log))
            before = Log(self._log).latest()
            self._start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


class Watch:
    """DuckDB, which reads the lake again and again while all this happens."""

    def __init__(self, lake: str) -> None:
        self.looks = self.doubled = self.fewer = 0
        self._lake, self._most = lake, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with duckdb.connect() as engine:
            while not self._stop.wait(1.0):
                if not is_lake(self._lake) or not (snapshot := read_snapshot(self._lake, "samples")).files:
                    continue
                rows, once = numbers(engine, snapshot)
                self.looks += 1
                self.doubled += rows != once
                self.fewer += rows < self._most
                self._most = rows

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def numbers(engine: duckdb.DuckDBPyConnection, snapshot: TableSnapshot) -> tuple[int, int]:
    """How many rows there are, and how many different ones."""
    engine.register("landed_now", snapshot.dataset(PAYLOADS))
    [(rows, once)] = engine.execute("select count(*), count(distinct payload) from landed_now").fetchall()
    return rows, once


def until(what: str, condition: Callable[[], bool], job: Victim) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"{what} did not happen in {PATIENCE:g} s")
        if job.process.poll() is not None:  # on a busy machine Spark itself gives up: that, too, must do no harm
            job.start(job.point)
        time.sleep(0.05)


def prove(folder: Path, lake: str, kills: int, rate: int, format: str, r: random.Random, console: Console) -> bool:
    log = folder / "log"
    publisher = Publisher(rate)
    tap = Victim(folder, "tap", publisher.endpoint, KEY, "--log", str(log))
    storm = Storm(tap, log, random.Random(r.random()))
    while not (log / "zenlake-log.json").exists():
        time.sleep(0.05)
    watch = Watch(lake)
    land = ["land", str(log), lake, "--tables", "samples,events", "--format", format]
    job = Victim(folder, *land, "--every", "500 milliseconds")
    turns = [*POINTS, *[None] * kills]
    try:
        for turn, point in enumerate(turns):
            before = commits(lake)
            job.start(point)
            if point is not None:
                until(f"the point {point!r}", job.reached.exists, job)
            else:
                until("a commit", lambda before=before: commits(lake) > before, job)
                time.sleep(r.uniform(0.0, 2.0))
            job.kill()
            console.print(
                f"[dim]{turn + 1:>3} of {len(turns)}[/]  landing killed {f'inside {point!r}' if point else 'at random'}, at commit "
                f"{commits(lake)}; the tap {storm.kills} times so far; {publisher.published:,} samples published"
            )
    finally:
        if hasattr(job, "process"):
            job.kill()
        storm.stop()
        publisher.stop()
        time.sleep(0.5)
        tap.end()
        publisher.session.close()
    storm.acknowledged.append(in_log(log))
    console.print("the rest is landed, and counted")
    last = Victim(folder, *land)
    for _ in range(5):
        last.start()
        if last.process.wait(PATIENCE) == 0:
            break
    watch.stop()
    return verdict(lake, storm, watch, publisher.published, len(turns), console)


def verdict(lake: str, storm: Storm, watch: Watch, published: int, kills: int, console: Console) -> bool:
    acknowledged = pa.table({"n": pa.chunked_array(storm.acknowledged)})
    with duckdb.connect() as engine:
        engine.register("seen", acknowledged)
        engine.register("samples", read_snapshot(lake, "samples").dataset(PAYLOADS))
        engine.register("events", read_snapshot(lake, "events").dataset(pa.schema([("kind", pa.string())])))
        engine.execute("create view landed as select cast(decode(payload) as bigint) as n from samples")
        [(known, rows, once, missing, strange)] = engine.execute(
            """select (select count(distinct n) from seen), (select count(*) from landed), (select count(distinct n) from landed),
                (select count(distinct n) from seen where n not in (from landed)),
                (select count(*) from landed where n not in (from seen))"""
        ).fetchall()
        torn = engine.execute(
            "select kind, count(*) from events where starts_with(kind, 'log ') group by 1 order by 1"
        ).fetchall()
    by_spark, by_format = counted_by_spark(lake), counted_by_format(lake)
    repaired = ", ".join(f"{count} x {kind}" for kind, count in torn) or "none"
    console.print(f"""
  killed with -9        the tap {storm.kills} times, the landing {kills} times
  published             {published:,}
  acknowledged          {known:,}  (the rest came while the tap was dead, or was in its memory)
  rows in the lake      {rows:,} by DuckDB, {by_spark[0]:,} ({by_spark[1]:,} different) by Spark, {by_format:,} by its library
  of these twice        {rows - once:,}
  acknowledged, missing {missing:,}
  never acknowledged    {strange:,}
  looks meanwhile       {watch.looks:,}, of these with a row twice {watch.doubled}, with fewer rows than before {watch.fewer}
  torn tails recorded   {repaired}""")
    whole = (
        known > 0
        and rows == once == known
        and by_spark == (rows, rows)
        and by_format == rows
        and not missing
        and not strange
    )
    proven = whole and watch.looks > 0 and not watch.doubled and not watch.fewer
    console.print(
        "[bold green]proven[/]: every acknowledged sample is in the lake, once" if proven else "[bold red]NOT proven[/]"
    )
    return proven


def counted_by_format(lake: str) -> int:
    """How many rows `deltalake` or `pyiceberg` reads."""
    opened = Lake(lake)
    if opened.format == "iceberg":
        iceberg: Any = open_iceberg(opened.location, opened.about, "samples")
        return int(iceberg.scan().to_arrow().num_rows)
    found: Any = open_delta(opened.location, "samples")
    return int(found.to_pyarrow_table(columns=["key"]).num_rows)


def counted_by_spark(lake: str) -> tuple[int, int]:
    import zenlake.spark

    spark = zenlake.spark.session("local[2]", quick=True)
    samples = zenlake.spark.tables(spark, lake)["samples"]
    [row] = samples.selectExpr("count(*)", "count(distinct payload)").collect()
    spark.stop()
    return tuple(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=3, help="of the landing job at random, after the named points")
    parser.add_argument("--format", choices=["delta", "iceberg"], default="delta", help="of the lake")
    parser.add_argument("--store", action="store_true", help="with the lake in an S3 server that fails now and then")
    parser.add_argument("--rate", type=int, default=2000, help="samples a second")
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.randrange(1 << 32)
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]kill -9[/]  [dim]--seed {seed}[/]")
    with tempfile.TemporaryDirectory(prefix="zenlake-proof-") as folder:
        arguments = given.kills, given.rate, given.format, random.Random(seed), console
        if given.store:
            store = Store()
            os.environ.update({**store.environment(), "XDG_STATE_HOME": f"{folder}/state"})
            with store.faults(lost_response=20, unavailable=20):
                proven = prove(Path(folder), "s3://lake/tables", *arguments)
            store.close()
        else:
            proven = prove(Path(folder), f"{folder}/tables", *arguments)
    sys.exit(0 if proven else 1)


if __name__ == "__main__":
    main()
