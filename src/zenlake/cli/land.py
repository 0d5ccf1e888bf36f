# SPDX-License-Identifier: Apache-2.0
"""`zenlake land`: write the tables of a log into a lake with Spark."""

import logging
import threading
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import typer

from zenlake.cli.lake_options import Catalog, LakePath, split_names
from zenlake.cli.network_options import until_stopped
from zenlake.cli.recording_options import Metrics
from zenlake.tables.schemas import TABLES

logger = logging.getLogger("zenlake.cli")

Format = Literal["delta", "iceberg", "parquet"]  # `parquet` is refused with the remedy
MERGE_EVERY = 3600.0  # seconds between two compactions
PAUSE = 0.25  # seconds between two checks for a stop request
LIVE = "Recording while landing"

# Spark waits ten seconds for a Python worker to start. No setting changes this, and a busy machine exceeds it. The query is then
# restarted from its checkpoint, at most AGAIN times.
GAVE_UP = "Python worker failed to connect back"
AGAIN = 5


def land(
    context: typer.Context,
    log: Annotated[
        str,
        typer.Argument(
            metavar="LOG",
            help="Wire log: a folder, or the address of a mirror like s3://bucket/log.",
            show_default=False,
        ),
    ],
    lake: LakePath,
    tables: Annotated[
        str | None,
        typer.Option(
            "--tables", "-t", metavar="NAMES", help=f"Tables to land, as a,b,c: {', '.join(TABLES)}. Default: all."
        ),
    ] = None,
    format: Annotated[
        Format | None,
        typer.Option("--format", "-f", help="Format of the tables: delta or iceberg.", show_default="delta"),
    ] = None,
    catalog: Catalog = None,
    every: Annotated[
        str | None,
        typer.Option(
            "--every",
            metavar="INTERVAL",
            help="Land continuously at this interval, like '10 seconds', until Ctrl-C. Default: land once.",
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            help="Local folder of the Spark checkpoint.",
            show_default="in LAKE; for a store ~/.local/state/zenlake",
        ),
    ] = None,
    compact: Annotated[
        bool, typer.Option(help="With --every: merge small files once an hour, while landing continues.")
    ] = True,
    refuse: Annotated[
        bool, typer.Option("--refuse", help="Fail if a block is already landed. Default: skip landed blocks.")
    ] = False,
    master: Annotated[
        str | None,
        typer.Option(
            "--master", metavar="URL", help="Spark master, like spark://host:7077.", show_default="this machine"
        ),
    ] = None,
    metrics: Metrics = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            metavar="NAME=VALUE",
            help="Option of the Spark source `zenoh`, like `failOnGap=true`. Repeatable. See docs/spark.md.",
        ),
    ] = None,
    connect: Annotated[
        list[str] | None,
        typer.Option(
            "--connect",
            "-e",
            metavar="ENDPOINT",
            help="Endpoint to record into LOG from while landing, like tcp/localhost:7447. Repeatable.",
            rich_help_panel=LIVE,
        ),
    ] = None,
    subscribe: Annotated[
        list[str] | None,
        typer.Option(
            "--subscribe",
            metavar="KEY",
            help="With --connect: key expressions to record. Repeatable.",
            show_default="**",
            rich_help_panel=LIVE,
        ),
    ] = None,
) -> int:
    """Land a log in a lake. Each row is landed once, even if the command is killed and restarted.

    Landing decodes a wire log and appends its rows to Delta or Iceberg tables with Spark. It creates a missing lake. It continues
    where it stopped.

    $ zenlake land lake/log lake/tables
    $ zenlake land lake/log lake/tables --every '10 seconds'
    $ zenlake land lake/log s3://bucket/tables --format iceberg
    $ zenlake land lake/log lake/tables --every '1 minute' -e tcp/localhost:7447
    """
    from zenlake.errors import LakeError, ZenlakeError
    from zenlake.log import Log
    from zenlake.runtime.metrics import MetricsPage
    from zenlake.spark import land as start
    from zenlake.spark import session
    from zenlake.spark.land import open_lake
    from zenlake.spark.landing_metrics import figures, find_failure

    if subscribe and not connect:
        raise typer.BadParameter("--subscribe needs --connect", param_hint="--subscribe")
    if connect and every is None:
        raise typer.BadParameter(
            "--connect needs --every; otherwise the command ends before it records anything", param_hint="--connect"
        )
    if not connect:
        Log(log)  # reject an invalid log before a JVM is started
    options = {}
    for each in option or ():
        name, is_given, value = each.partition("=")
        if not is_given:
            raise typer.BadParameter(f"invalid option {each!r}; expected NAME=VALUE", param_hint="--option")
        options[name] = value
    if connect:
        options |= {"connect": ",".join(connect), "subscribe": ",".join(subscribe or ["**"])}
    made = open_lake(lake, format, catalog)
    before = made.totals()
    if made.catalog is not None:
        typer.echo(f"Iceberg catalog: {made.catalog}", err=True)
    spark = session(master, quiet=not context.find_root().params["debug"])

    def begin_query() -> Any:  # a StreamingQuery; this layer does not import pyspark
        names = split_names(tables)
        already: Literal["refuse", "skip"] = "refuse" if refuse else "skip"
        assert format != "parquet"
        trigger = every or "availableNow"
        try:
            return start(
                spark, log, lake, names,
                format=format, catalog=catalog, trigger=trigger, checkpoint=checkpoint, already=already, options=options,
            )  # fmt: skip
        except (ZenlakeError, OSError):
            raise
        except Exception as error:  # errors of pyspark
            raise LakeError(_last_line(str(error))) from error

    query = begin_query()
    with ExitStack() as stack:
        stack.callback(lambda: query.stop())
        if metrics is not None:
            page = MetricsPage(metrics, lambda: figures(query, log, lake), lambda: find_failure(query))
            stack.callback(page.close)
        stop = stack.enter_context(until_stopped())
        merging = None if every is None or not compact else Merging(spark, lake)
        again = AGAIN
        while not stop.is_set():
            if merging is not None:
                merging.run_if_due()
            try:
                # Wait in short steps: a signal during a call into the JVM breaks the connection to it.
                if query.awaitTermination(PAUSE):
                    break
            except Exception as error:
                if GAVE_UP not in str(error) or not again:
                    raise LakeError(_last_line(str(error))) from error
                again -= 1
                query = begin_query()
    landed = {table: counts["rows"] - before.get(table, {"rows": 0})["rows"] for table, counts in made.totals().items()}
    rows = ", ".join(f"{count} of {table}" for table, count in landed.items() if count) or "no new rows"
    typer.echo(f"rows landed in {lake}: {rows}", err=True)
    return 0


class Merging:
    """Compaction beside a landing, in a thread. Its errors are logged, because the landing continues without it."""

    def __init__(self, spark: Any, lake: str) -> None:
        self._spark, self._lake = spark, lake
        self._due = time.monotonic() + MERGE_EVERY
        self._thread: threading.Thread | None = None

    def run_if_due(self) -> None:
        if time.monotonic() < self._due or (self._thread is not None and self._thread.is_alive()):
            return
        self._due = time.monotonic() + MERGE_EVERY
        self._thread = threading.Thread(target=self._run, name="zenlake-compaction", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        from zenlake.lake import Lake, remove_orphans
        from zenlake.spark import compact

        try:
            compact(self._spark, self._lake, before=datetime.now(UTC).date() + timedelta(days=1))
            remove_orphans(Lake(self._lake))
        except Exception as error:  # of Spark, or of the lake
            logger.warning("compaction: %s; it is repeated later", _last_line(str(error)))


def _last_line(text: str) -> str:
    """Return the line of a Spark error that names the problem."""
    lines = [line.strip() for line in text.splitlines() if "zenlake.errors." in line or line.startswith("ValueError: ")]
    return lines[-1].partition(": ")[2] if lines else text.partition("\n")[0]
