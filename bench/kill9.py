# SPDX-License-Identifier: Apache-2.0
"""`make proof`: kill -9 a recording tap and two landings, at every named point and at random, while five readers count.

    python -m bench.kill9 [--format delta|iceberg] [--store yes|no] [--kills 2] [--rate 1000] [--minutes 14] [--seed 1]

A publisher numbers its samples. A tap records them in a wire log. Two drivers land the log in the same lake at the same time:

- The first driver is killed at every named point of a task and of a commit, with its JVM and workers. Then only a worker is
  killed, and Spark repeats its task. Then all are killed at random. Its checkpoint stays.
- The second driver is killed at random. Each start has a new checkpoint, and begins with the end of the log or with its start. The
  earlier rows are then a backfill.

A thread compacts the lake. The tap is killed while it writes, syncs and seals, and at random. With a store, the lake is in an S3
server (moto) behind a proxy that refuses, delays and drops requests and responses.

Samples that a reader finds in the log when the tap was killed are *acknowledged*. At the end the lake must contain every
acknowledged sample once. At no moment may it contain a sample twice, or lose one. Five readers must agree about each version:
`deltalake` or `pyiceberg`, Polars, DuckDB, Zenlake's own reader, and Spark after each kill.

Without --format and --store, both formats are proved, on a local folder and on the store.
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
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
from rich.console import Console
from tests.lake.store import Store
from tests.spark.landing import LOG_POINTS, POINTS, faults, members

import zenlake
from zenlake.errors import LakeError
from zenlake.lake import Lake, compact, is_lake
from zenlake.lake.table_format import SERIAL
from zenlake.log import Log
from zenlake.tables.lake_location import Location
from zenlake.tables.lake_reader import (
    SnapshotFile,
    TableSnapshot,
    iceberg_files,
    list_delta,
    open_delta,
    open_iceberg,
    read_snapshot,
)

TABLE = "samples"
PAYLOADS = pa.schema([("payload", pa.binary())])
PATIENCE = 300.0  # a JVM may take long to start on a busy machine
KEY = "proof/number"
SEGMENT = 64 << 10  # bytes of a segment of the log, so that many are sealed
POINTS_OF_WORKERS = ("write", "written")
RATES = {"unavailable": 0.01, "timeout": 0.001, "slow": 0.02, "lost_response": 0.01, "late": 0.002}
COUNTS = "select count(*), count(distinct payload) from "


class Publisher:
    """A router, and a publisher that numbers its samples. Neither is killed."""

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
    """A Zenlake command in its own process group. The group is killed as a whole, or ends by itself at a named point."""

    def __init__(self, folder: Path, name: str, *arguments: str) -> None:
        self.arguments = arguments
        self.reached = folder / f"reached-{name}"
        self.errors = folder / f"errors-{name}"
        self.point: str | None = None
        self.kind = "all"
        self.ends = 0  # unexpected ends
        self.process: subprocess.Popen[bytes]

    def start(self, point: str | None = None, kind: str = "all", more: Iterable[str] = ()) -> None:
        self.reached.unlink(missing_ok=True)
        self.point, self.kind = point, kind
        environment = {**faults(point, self.reached, 1, kind), "FAULT_SEGMENT": str(SEGMENT)}
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", "from zenlake.cli import main; main()", *self.arguments, *more],
                env=environment, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, start_new_session=True,
            )  # fmt: skip

    def restart_if_ended(self) -> None:
        """Start again after an unexpected end: Spark gives up on a busy machine, and a store may be out of reach."""
        if self.process.poll() is not None:
            self.ends += 1
            self.start(self.point, self.kind)

    def kill(self) -> None:
        for pid in members(self.process.pid):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)


def read_log(log: Path) -> pa.Array:
    """Return the numbers that a reader finds in the log."""
    payloads = zenlake.read(log, columns=["payload"])["payload"]
    return payloads.cast(pa.string()).cast(pa.int64()).combine_chunks()


def count_commits(lake: str) -> int:
    """Return the number of commits of the lake. A store that fails has none."""
    try:
        return sum(Lake(lake).table(name).number(SERIAL) or 0 for name in (TABLE, "events")) if is_lake(lake) else 0
    except (LakeError, OSError):
        return 0


class Loop:
    """A function that a thread repeats until it is stopped."""

    def __init__(self, pause: float, work: Callable[[], None]) -> None:
        self.errors: Counter[str] = Counter()
        self._pause, self._work = pause, work
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._pause):
            try:
                self._work()
            except Exception as error:  # any library may raise its own error when the store fails
                self.errors[f"{type(error).__name__}: {error}".partition("\n")[0][:200]] += 1

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


class TapStorm:
    """Kills of the tap. Each time, the samples in the log are acknowledged."""

    def __init__(self, tap: Victim, log: Path, r: random.Random) -> None:
        self.acknowledged: list[pa.Array] = []
        self.kills = 0
        self._tap, self._log, self._r = tap, log, r
        self._points = list(LOG_POINTS)
        self._before: Any = None
        self._start()
        self.loop = Loop(0.05, self._turn)

    def _start(self) -> None:
        self._tap.start(self._points.pop(0) if self._points else None, "itself")

    def _turn(self) -> None:
        if self._tap.point is not None:
            if self._tap.process.poll() is None:
                return  # the process has not reached its point yet
        else:
            if Log(self._log).latest() == self._before:
                return  # the tap has not recorded anything since its start
            time.sleep(self._r.uniform(0.0, 2.0))
            self._tap.kill()
        self.kills += 1
        self.acknowledged.append(read_log(self._log))
        self._before = Log(self._log).latest()
        self._start()


class SecondDriver:
    """A driver that is killed at random and always has a new checkpoint."""

    def __init__(self, folder: Path, land: list[str], lake: str, r: random.Random) -> None:
        self.kills = 0
        self._folder, self._lake, self._r = folder, lake, r
        self._victim = Victim(folder, "second", *land, "--every", "700 milliseconds")
        self._start()
        self.loop = Loop(0.2, self._turn)

    def _start(self) -> None:
        start = "latest" if self.kills % 2 == 0 else "earliest"
        self._checkpoint = self._folder / f"checkpoint-{self.kills}"
        self._victim.start(more=["--checkpoint", str(self._checkpoint), "-o", f"startingOffsets={start}"])

    def _turn(self) -> None:
        if self._victim.process.poll() is None:
            if not any((self._checkpoint / "commits").glob("[0-9]*")):
                return  # the driver has not landed a batch yet
            time.sleep(self._r.uniform(0.0, 6.0))
            self._victim.kill()
        self.kills += 1
        self._start()

    def stop(self) -> None:
        self.loop.stop()
        self._victim.kill()


class Watch:
    """Five readers that count the same version of the lake."""

    def __init__(self, lake: str) -> None:
        self.looks = self.doubled = self.fewer = 0
        self.disagreements: list[dict[str, tuple[int, int]]] = []
        self.by_spark = 0
        self._lake, self._most = lake, 0
        self._location = Location(lake)
        self._lock = threading.Lock()
        self._spark: Any = None

    def look(self, with_spark: bool = False) -> dict[str, tuple[int, int]]:
        """Count once, and note whether the readers agree. Return rows and different rows, by reader."""
        with self._lock:
            return self._look(with_spark)

    def look_often(self) -> None:
        self.look()

    def _look(self, with_spark: bool) -> dict[str, tuple[int, int]]:
        if not is_lake(self._lake) or not Lake(self._lake).table(TABLE).exists:
            return {}
        lake = Lake(self._lake)
        found, files = (count_iceberg if lake.format == "iceberg" else count_delta)(lake)
        if not files:
            return {}
        with duckdb.connect() as engine:
            if self._location.is_local:
                engine.read_parquet([file.path for file in files], hive_partitioning=False).create_view("landed")
            else:
                dataset = TableSnapshot(files, self._location.filesystem).dataset(PAYLOADS)
                engine.register("landed", dataset)
            [found["duckdb"]] = engine.execute(COUNTS + "landed").fetchall()
        if with_spark:
            found["spark"] = self._count_by_spark(files)
            self.by_spark += 1
        rows, different = next(iter(found.values()))
        self.looks += 1
        if len(set(found.values())) != 1:
            self.disagreements.append(found)
        self.doubled += rows != different
        self.fewer += rows < self._most
        self._most = rows
        return found

    def _count_by_spark(self, files: list[SnapshotFile]) -> tuple[int, int]:
        from pyspark.sql.pandas.types import from_arrow_schema

        from zenlake.spark.stored_files import read_files

        if self._spark is None:
            self._spark = zenlake.spark.session("local[1]", quick=True)
        samples = read_files(self._spark, self._location, TABLE, files, from_arrow_schema(PAYLOADS))
        [row] = samples.selectExpr("count(*)", "count(distinct payload)").collect()
        return tuple(row)

    def close(self) -> None:
        if self._spark is not None:
            self._spark.stop()


def count_delta(lake: Lake) -> tuple[dict[str, tuple[int, int]], list[SnapshotFile]]:
    """Count one version by `deltalake`, Polars and Zenlake. Return its files too."""
    opened: Any = open_delta(lake.location, TABLE)
    version, uri, options = opened.version(), lake.location.uri(TABLE), lake.location.storage_options
    scanned = polars.scan_delta(uri, version=version, storage_options=options).select("payload").collect()
    files = list_delta(lake.location, TABLE, opened)
    return {
        "deltalake": count(opened.to_pyarrow_table(columns=["payload"])["payload"]),
        "polars": (scanned.height, scanned["payload"].n_unique()),
        "zenlake": count_files(lake, files),
    }, files


def count_iceberg(lake: Lake) -> tuple[dict[str, tuple[int, int]], list[SnapshotFile]]:
    """Count one snapshot by `pyiceberg`, Polars and Zenlake. Return its files too."""
    opened: Any = open_iceberg(lake.location, lake.about, TABLE)
    snapshot = opened.current_snapshot()
    if snapshot is None:
        return {}, []
    scanned = polars.scan_iceberg(opened, snapshot_id=snapshot.snapshot_id).select("payload").collect()
    files = iceberg_files(lake.location, opened)
    return {
        "pyiceberg": count(opened.scan(selected_fields=("payload",)).to_arrow()["payload"]),
        "polars": (scanned.height, scanned["payload"].n_unique()),
        "zenlake": count_files(lake, files),
    }, files


def count_files(lake: Lake, files: list[SnapshotFile]) -> tuple[int, int]:
    filesystem = None if lake.location.is_local else lake.location.filesystem
    return count(TableSnapshot(files, filesystem).dataset(PAYLOADS).to_table()["payload"])


def count(payloads: pa.ChunkedArray) -> tuple[int, int]:
    return len(payloads), len(payloads.unique())


def until(what: str, condition: Callable[[], bool], job: Victim) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"{what} did not happen in {PATIENCE:g} s; see {job.errors}:\n{job.errors.read_text()[-3000:]}")
        job.restart_if_ended()
        time.sleep(0.05)


def prove(
    folder: Path, lake: str, format: str, kills: int, rate: int, minutes: float, r: random.Random, console: Console
) -> bool:
    """Run one proof. Return whether it succeeded."""
    deadline = time.monotonic() + 60 * minutes
    log = folder / "log"
    publisher = Publisher(rate)
    tap = Victim(folder, "tap", "tap", publisher.endpoint, KEY, "--log", str(log))
    tap_storm = TapStorm(tap, log, random.Random(r.random()))
    while not (log / "zenlake-log.json").exists():
        time.sleep(0.05)
    watch = Watch(lake)
    land = ["land", str(log), lake, "--tables", f"{TABLE},events", "--format", format, "--master", "local[2,4]"]
    job = Victim(folder, "first", *land, "--every", "500 milliseconds")
    merged: list[int] = []

    def merge() -> None:
        if is_lake(lake) and Lake(lake).table(TABLE).exists:
            done = compact(Lake(lake), [TABLE], before=datetime.now(UTC).date() + timedelta(days=2))
            merged.extend(each.files for each in done if each.files)

    turns: list[tuple[str | None, str]] = [(point, "all") for point in POINTS]
    turns += [(point, "itself") for point in POINTS_OF_WORKERS] + [(None, "all")] * kills
    done = 0
    loops = [Loop(1.0, watch.look_often), Loop(20.0, merge)]
    second = SecondDriver(folder, land, lake, random.Random(r.random()))
    try:
        for turn, (point, kind) in enumerate(turns):
            if point is None and time.monotonic() > deadline:
                console.print(f"[dim]{len(turns) - turn} random kills are left out: {minutes:g} minutes are over[/]")
                break
            before = count_commits(lake)
            job.start(point, kind)
            if point is not None:
                until(f"the point {point!r}", job.reached.exists, job)
            if point is None or kind == "itself":
                until("a commit", lambda before=before: count_commits(lake) > before, job)
                time.sleep(r.uniform(0.0, 2.0))
            job.kill()
            done += 1
            what = (
                f"{'worker' if kind == 'itself' else 'landing'} killed {f'inside {point!r}' if point else 'at random'}"
            )
            counts = ", ".join(f"{name} {rows}" for name, (rows, _) in look_again(watch).items())
            console.print(
                f"[dim]{turn + 1:>3} of {len(turns)}[/]  {what}; rows by {counts or 'no reader yet'}; the tap was killed "
                f"{tap_storm.kills} times, the second driver {second.kills} times; {publisher.published:,} samples published"
            )
    finally:
        if hasattr(job, "process"):
            job.kill()
        second.stop()
        for loop in loops:
            loop.stop()
        tap_storm.loop.stop()
        publisher.stop()
        time.sleep(0.5)
        tap.end()
        publisher.session.close()
    tap_storm.acknowledged.append(read_log(log))
    console.print("[dim]the remaining rows are landed with a new checkpoint, and counted[/]")
    last = Victim(folder, "last", *land, "--checkpoint", str(folder / "checkpoint-last"))
    for _ in range(8):
        last.start()
        if last.process.wait(PATIENCE) == 0:
            break
    merge()
    found = look_again(watch)
    watch.close()
    console.print(f"""
  killed with -9        the tap {tap_storm.kills} times, the first driver {done} times, the second {second.kills} times
  ended by themselves   the first driver {job.ends} times
  compacted meanwhile   {sum(merged):,} files in {len(merged)} transactions""")
    for loop in (*loops, tap_storm.loop, second.loop):
        for text, times in loop.errors.most_common(3):
            console.print(f"  [dim]{times} x {text}[/]", markup=True)
    return verdict(lake, tap_storm.acknowledged, found, watch, publisher.published, console)


def look_again(watch: Watch) -> dict[str, tuple[int, int]]:
    """Count by all readers, also if the store fails at first."""
    for _ in range(5):
        try:
            return watch.look(with_spark=True)
        except Exception as error:  # any library may raise its own error when the store fails
            last = error
            time.sleep(1)
    raise last


def verdict(
    lake: str,
    acknowledged: list[pa.Array],
    found: dict[str, tuple[int, int]],
    watch: Watch,
    published: int,
    console: Console,
) -> bool:
    with duckdb.connect() as engine:
        engine.register("seen", pa.table({"n": pa.chunked_array(acknowledged)}))
        engine.register("samples", read_snapshot(lake, TABLE).dataset(PAYLOADS))
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
    repaired = ", ".join(f"{count} x {kind}" for kind, count in torn) or "none"
    readers = ", ".join(f"{name} {count:,}" for name, (count, _) in found.items())
    disagreements = len(watch.disagreements)
    console.print(f"""  published             {published:,}
  acknowledged          {known:,}  (the others came while the tap was dead, or were in its memory)
  rows in the lake      {rows:,}: {readers}
  of these twice        {rows - once:,}
  acknowledged, missing {missing:,}
  never acknowledged    {strange:,}
  versions counted      {watch.looks:,}, {watch.by_spark} of them by Spark too
  of these, wrong       {watch.doubled} with a row twice, {watch.fewer} with fewer rows, {disagreements} with disagreement
  torn tails recorded   {repaired}""")
    for each in watch.disagreements[:3]:
        console.print(f"  [red]{each}[/]")
    agree = len(found) == 5 and set(found.values()) == {(known, known)}
    whole = known > 0 and rows == once == known and not missing and not strange and agree
    proven = whole and not watch.doubled and not watch.fewer and not watch.disagreements
    console.print(
        "[bold green]proven[/]: every acknowledged sample is in the lake, once" if proven else "[bold red]NOT proven[/]"
    )
    return proven


def prove_one(format: str, in_store: bool, given: argparse.Namespace, seed: int, console: Console) -> bool:
    began = time.monotonic()
    console.print(
        f"\n[bold]{format}, {'S3 (moto) that fails at random' if in_store else 'a local folder'}[/]  [dim]--seed {seed}[/]"
    )
    arguments = format, given.kills, given.rate, given.minutes, random.Random(seed), console
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="zenlake-proof-", ignore_cleanup_errors=True))
        if not in_store:
            proven = prove(Path(folder), f"{folder}/tables", *arguments)
        else:
            store = Store()
            stack.callback(store.close)
            os.environ.update({**store.environment(), "XDG_STATE_HOME": f"{folder}/state"})
            with store.fault_rates(**RATES):
                proven = prove(Path(folder), "s3://lake/tables", *arguments)
            happened = ", ".join(f"{count} x {kind}" for kind, count in sorted(store.happened().items()))
            console.print(f"  faults of the store   {happened}")
    console.print(f"[dim]{time.monotonic() - began:.0f} s[/]")
    return proven


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--format", choices=["delta", "iceberg"], help="of the lake; default: first one, then the other"
    )
    parser.add_argument(
        "--store", choices=["yes", "no"], help="lake in a store that fails; default: first no, then yes"
    )
    parser.add_argument("--kills", type=int, default=2, help="of the first driver at random, after the named points")
    parser.add_argument("--rate", type=int, default=1000, help="samples per second")
    parser.add_argument("--minutes", type=float, default=12.0, help="of each proof; then random kills are left out")
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.randrange(1 << 32)
    console = Console(highlight=False, soft_wrap=True)
    proven = [
        prove_one(format, in_store, given, seed, console)
        for in_store in ([False, True] if given.store is None else [given.store == "yes"])
        for format in ([given.format] if given.format else ["delta", "iceberg"])
    ]
    console.print(f"\n[bold]{sum(proven)} of {len(proven)} proven[/]")
    sys.exit(0 if all(proven) else 1)


if __name__ == "__main__":
    main()
