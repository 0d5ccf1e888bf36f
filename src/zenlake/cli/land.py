# SPDX-License-Identifier: Apache-2.0
"""`zenlake land`: a log becomes tables in a lake, by Spark."""

from typing import Annotated, Literal

import typer

from zenlake.tables.schemas import TABLES


def land(
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
) -> int:
    """Land a log in a lake: every row once, also if this is killed and run again."""
    from zenlake.errors import LakeError
    from zenlake.spark import land as start
    from zenlake.spark import session

    spark = session(master)
    query = start(
        spark,
        log,
        lake,
        None if tables is None else [name.strip() for name in tables.split(",")],
        format=format,
        trigger=every or "availableNow",
        checkpoint=checkpoint,
        already="refuse" if refuse else "skip",
    )
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
    except Exception as error:  # Spark's own class, which this layer does not know
        raise LakeError(_last_line(str(error))) from None
    told = [each["observedMetrics"]["landed"] for each in query.recentProgress if "landed" in each["observedMetrics"]]
    batches, size = sum(each["batches"] for each in told), sum(each["bytes"] for each in told)
    typer.echo(f"{batches} batches of the network ({size} bytes of {log}) are landed in {lake}", err=True)
    return 0


def _last_line(text: str) -> str:
    """Of Spark's long account, the line that says what is wrong."""
    told = [line.strip() for line in text.splitlines() if "zenlake.errors." in line or line.startswith("ValueError: ")]
    return told[-1].partition(": ")[2] if told else text.partition("\n")[0]
