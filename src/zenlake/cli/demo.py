# SPDX-License-Identifier: Apache-2.0
"""`zenlake demo`: from a capture to tables on Spark, to Parquet, to another engine; what `make demo` runs."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from zenlake.cli.show import rich_table
from zenlake.errors import InvalidValue
from zenlake.examples import captures
from zenlake.tables import DERIVED, definition
from zenlake.tables.derive import import_duckdb
from zenlake.tables.schemas import TABLES

OURS = ".zenlake-demo"  # marks a folder that the demo made and may write again
BY_DAY = ("messages", "samples", "rates")

# The most telling rows of each table, asked of the Parquet files.
TELLING = {
    "messages": """select strftime(received, '%H:%M:%S.%f') as received, case direction when 0 then '→' else '←' end as dir,
        type, body, key, size, detail from messages where type not in ('FRAME', 'KEEP_ALIVE')
        order by received_ns, packet, index limit 12""",
    "samples": """select key, kind, payload, payload_size as bytes, encoding, fragments from samples
        where request_id is null order by fragments is null, attachment is null, received_ns, key limit 8""",
    "declarations": """select action, declarations.kind, id, key, mode, wants from declarations
        order by action = 'interest', received_ns, packet, index limit 8""",
    "events": """select strftime(received, '%H:%M:%S.%f') as received, session, kind, sn, count,
        case when starts_with(detail, '{') then detail[:30] else detail end as detail from events
        order by received_ns, packet limit 10""",
    "errors": "select received, session, field, why from errors limit 5",
    "sessions": """select session, opener_role || ' → ' || coalesce(acceptor_role, 'group') as roles, reason,
        epoch_ms(last_received - received) as ms, opener_messages as "msgs →", acceptor_messages as "msgs ←",
        opener_bytes as "bytes →", acceptor_bytes as "bytes ←" from sessions order by received""",
    "queries": """select key, parameters, target, replies, errors, reply_bytes as bytes, first_reply_ms, final_ms, error, outcome
        from queries order by outcome = 'answered', final_ms desc limit 8""",
    "gaps": """select session, direction as dir, scope, priority as prio, reliable, first_sn, missing, harmless from gaps
        order by harmless, received limit 6""",
    "latest": "select key, payload, payload_size as bytes, encoding, timestamp from latest order by timestamp desc, key limit 6",
    "rates": """select strftime(received, '%H:%M:%S') as second, key, samples, bytes, age_p50_us, age_p99_us from rates
        where stamped > 0 order by bytes desc, key limit 6""",
}


def demo(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH]...", help="Your own capture instead of the ones that ship with Zenlake."),
    ] = None,
    lake: Annotated[Path, typer.Option("--lake", help="Where the Parquet files go.")] = Path("lake"),
) -> int:
    """Turn a capture of Zenoh traffic into Spark tables and Parquet, and show them."""
    console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=120)
    started = time.monotonic()
    given = paths or captures()
    prepare(lake)
    import_duckdb()
    console.print(f"[bold]Every Zenoh message, as a table.[/] {len(given)} capture files:")
    for path in given:
        console.print(f"  {path}", style="dim")

    with console.status("starting Spark") as status:
        import zenlake.spark
        from zenlake.spark.parquet import write

        spark = zenlake.spark.session(quick=paths is None or not paths)
        console.print(f"[green]✓[/] Spark {spark.version}, {spark.sparkContext.master}  {since(started)}")
        tables = zenlake.spark.tables(spark, given)
        landed = {}
        for name in tables:
            began = time.monotonic()
            status.update(f"{'decoding' if name in TABLES else 'deriving'} {name}")
            landed[name] = write(tables[name], lake / name, by_day=name in BY_DAY)
            console.print(f"[green]✓[/] {name:<13}{landed[name]:>7} rows → {lake / name}  {since(began)}")
        status.update("reading the files with DuckDB")
        counts = show(console, lake, landed)
    differing = {name: count for name, count in counts.items() if count != landed[name]}
    if differing:
        raise InvalidValue(
            f"Spark wrote {landed}, but DuckDB reads {differing}: this should not happen, please tell us"
        )
    console.print(
        f"[green]✓[/] DuckDB reads from {lake}/ the {sum(counts.values())} rows that Spark wrote  {since(started)}"
    )
    next_steps(console, lake)
    return 0


def prepare(lake: Path) -> None:
    """A folder for the demo: a new one, an empty one, or the one of an earlier run."""
    if lake.exists() and not (lake / OURS).exists() and any(lake.iterdir()):
        raise InvalidValue(f"{lake} is not empty and was not made by the demo; choose another with --lake")
    lake.mkdir(parents=True, exist_ok=True)
    (lake / OURS).touch()


def show(console: Console, lake: Path, landed: Mapping[str, int]) -> dict[str, int]:
    """The most telling rows of each table as another engine reads them, and how many it finds."""
    counts: dict[str, int] = {}
    with import_duckdb().connect() as engine:
        engine.execute("set TimeZone = 'UTC'")
        for name in landed:
            files = f"{lake / name}/**/*.parquet"
            if not any((lake / name).rglob("*.parquet")):  # a table by day that has no day
                counts[name] = 0
                continue
            engine.execute(f"create view {name} as from read_parquet({quoted(files)}, hive_partitioning = true)")
            counts[name] = engine.execute(f"select count(*) from {name}").fetchall()[0][0]
            about(console, name, counts[name])
            if counts[name]:
                console.print(rich_table(engine.sql(TELLING[name]).to_arrow_table(), widest=32))
            else:
                console.print("  none: every byte was understood" if name == "errors" else "  none", style="dim")
    return counts


def about(console: Console, name: str, count: int) -> None:
    row = definition(name).row if name in DERIVED else TABLES[name].metadata[b"comment"].decode()
    console.print(f"\n[bold cyan]{name}[/] [dim]{count} rows; a row is:[/] {row}")


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def since(began: float) -> str:
    return f"[dim]{time.monotonic() - began:.1f} s[/]"


def next_steps(console: Console, lake: Path) -> None:
    steps: list[tuple[str, str]] = [
        ("record", "tcpdump -i any -w mine.pcap port 7447"),
        ("the same with yours", "zenlake demo mine.pcap --lake mine"),
        ("ask, without a JVM", 'zenlake sql "select key, count(*) from samples group by key" mine.pcap'),
        ("any table, any format", "zenlake decode mine.pcap --table queries -o queries.parquet"),
        ("in your Spark job", 'spark.read.format("zenoh_capture").option("table", "messages").load("mine.pcap")'),
        ("derived tables there", 'zenlake.spark.tables(spark, "mine.pcap")["queries"]'),
        ("the files just written", f"duckdb -c \"from '{lake}/queries/*.parquet'\""),
    ]
    console.print("\n[bold]Next, with your own capture[/]")
    for what, how in steps:
        console.print(f"  [dim]{what:<23}[/] {how}", soft_wrap=True)
