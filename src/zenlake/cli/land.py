# SPDX-License-Identifier: Apache-2.0
"""`zenlake land`: a log becomes tables in a lake, by Spark."""

from contextlib import ExitStack
from typing import Annotated, Any, Literal

import typer

from zenlake.cli.network import until_stopped
from zenlake.tables.schemas import TABLES

PAUSE = 0.25  # seconds between two looks at whether somebody wants it to stop
LIVE = "Recording while landing"

# Spark waits ten seconds for a Python process that it starts, which no setting changes and a busy machine exceeds. Then the query
# is begun again, so often at most: it goes on where it was.
GAVE_UP = "Python worker failed to connect back"
AGAIN = 5


def land(
    context: typer.Context,
    log: Annotated[str, typer.Argument(metavar="LOG", help="The folder of a wire log.", show_default=False)],
    lake: Annotated[str, typer.Argument(metavar="LAKE", help="The lake; made if it is not there.", show_default=False)],
    tables: Annotated[
        str | None, typer.Option("--tables", "-t", help=f"Some of {', '.join(TABLES)}, as a,b,c.")
    ] = None,
    format: Annotated[
        Literal["parquet", "delta"], typer.Option("--format", "-f", help="What the tables are.")
    ] = "parquet",
    every: Annotated[
        str | None,
        typer.Option("--every", metavar="TIME", help="Go on, as often as this (`10 seconds`), until stopped."),
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", help="Where Spark remembers how far it is.", show_default="in LAKE")
    ] = None,
    refuse: Annotated[
        bool, typer.Option("--refuse", help="Stop, rather than skip, where a part is landed already.")
    ] = False,
    master: Annotated[str | None, typer.Option("--master", help="Spark's master.", show_default="this machine")] = None,
    metrics: Annotated[
        str | None, typer.Option("--metrics", metavar="HOST:PORT", help="Serve /metrics and /health there.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="NAME=VALUE", help="Of the source `zenoh`, such as `failOnGap=true`."),
    ] = None,
    connect: Annotated[
        list[str] | None,
        typer.Option(
            "--connect", "-e", metavar="ENDPOINT", help="Record LOG from this node meanwhile.", rich_help_panel=LIVE
        ),
    ] = None,
    subscribe: Annotated[
        list[str] | None,
        typer.Option("--subscribe", metavar="KEY", help="The keys to record.", show_default="**", rich_help_panel=LIVE),
    ] = None,
) -> int:
    """Land a log in a lake: every row once, also if this is killed and run again.

    $ zenlake land lake/log lake/tables
    $ zenlake land lake/log lake/tables --every '10 seconds'
    $ zenlake land lake/log lake/tables --format delta --every '1 minute' -e tcp/localhost:7447
    """
    from zenlake.errors import LakeError, ZenlakeError
    from zenlake.lake import Lake, is_lake
    from zenlake.log import Log
    from zenlake.runtime.metrics import MetricsPage
    from zenlake.spark import land as start
    from zenlake.spark import session
    from zenlake.spark.figures import figures, trouble

    if subscribe and not connect:
        raise typer.BadParameter("--connect says from where", param_hint="--subscribe")
    if connect and every is None:
        raise typer.BadParameter("recording needs --every, or it ends as soon as it has begun", param_hint="--connect")
    if not connect:
        Log(log)  # what is none is refused before a JVM is started for it
    options = {}
    for each in option or ():
        name, is_given, value = each.partition("=")
        if not is_given:
            raise typer.BadParameter(f"{each!r} is not NAME=VALUE", param_hint="--option")
        options[name] = value
    if connect:
        options |= {"connect": ",".join(connect), "subscribe": ",".join(subscribe or ["**"])}
    before = Lake(lake).ledger.last().totals if is_lake(lake) else {}
    spark = session(master, quiet=not context.find_root().params["debug"])

    def begun() -> Any:  # a query of Spark's, which this layer does not know
        names = None if tables is None else [name.strip() for name in tables.split(",")]
        already: Literal["refuse", "skip"] = "refuse" if refuse else "skip"
        trigger = every or "availableNow"
        try:
            return start(
                spark, log, lake, names,
                format=format, trigger=trigger, checkpoint=checkpoint, already=already, options=options,
            )  # fmt: skip
        except (ZenlakeError, OSError):
            raise
        except Exception as error:  # nor its errors
            raise LakeError(_last_line(str(error))) from error

    query = begun()
    with ExitStack() as stack:
        stack.callback(lambda: query.stop())
        if metrics is not None:
            page = MetricsPage(metrics, lambda: figures(query, log, lake), lambda: trouble(query))
            stack.callback(page.close)
        stop = stack.enter_context(until_stopped())
        again = AGAIN
        while not stop.is_set():
            try:
                # In short waits: a signal in the midst of a call into the JVM breaks the connection to it.
                if query.awaitTermination(PAUSE):
                    break
            except Exception as error:
                if GAVE_UP not in str(error) or not again:
                    raise LakeError(_last_line(str(error))) from error
                again -= 1
                query = begun()
    landed = {
        table: counts["rows"] - before.get(table, {"rows": 0})["rows"]
        for table, counts in Lake(lake).ledger.last().totals.items()
    }
    rows = ", ".join(f"{count} of {table}" for table, count in landed.items() if count) or "no new ones"
    typer.echo(f"rows are landed in {lake}: {rows}", err=True)
    return 0


def _last_line(text: str) -> str:
    """Of Spark's long account, the line that says what is wrong."""
    told = [line.strip() for line in text.splitlines() if "zenlake.errors." in line or line.startswith("ValueError: ")]
    return told[-1].partition(": ")[2] if told else text.partition("\n")[0]
