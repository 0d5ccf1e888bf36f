# SPDX-License-Identifier: Apache-2.0
"""`zenlake demo`: record a simulated fleet or decode captures into Spark tables, Parquet files and a report.

`make demo` runs this command.
"""

import shutil
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from zenlake import report
from zenlake.cli.console import Printer, step_line
from zenlake.cli.demo.processes import Fleet
from zenlake.cli.demo.reconcile import reconcile
from zenlake.cli.formatting import escape
from zenlake.cli.table_output import rich_table
from zenlake.errors import InvalidValue
from zenlake.tables import DERIVED, definition
from zenlake.tables.duckdb_engine import import_duckdb
from zenlake.tables.lake_reader import table_files
from zenlake.tables.schemas import TABLES

OURS = ".zenlake-demo"  # marks a folder that the demo created and may overwrite
BY_DAY = ("messages", "samples", "rates")

# Queries that select representative rows of each table from the Parquet files.
SUMMARIES = {
    "messages": """select strftime(received, '%H:%M:%S.%f') as received, case direction when 0 then '→' else '←' end as dir,
        type, body, key, size, detail from messages where type not in ('FRAME', 'KEEP_ALIVE')
        order by received_ns, packet, index limit 9""",
    "samples": """select key, kind, payload, payload_size as bytes, encoding, fragments, source_sn as number from samples
        where request_id is null
        qualify row_number() over (partition by encoding, coalesce(fragments, 1) order by received_ns, packet, index) = 1
        order by fragments desc nulls last, key limit 8""",
    "declarations": """select action, declarations.kind, id, key, mode, wants from declarations
        qualify row_number() over (partition by action, declarations.kind order by received_ns, packet, index) = 1
        order by action, declarations.kind limit 10""",
    "events": """select kind, count(*) as events, strftime(min(received), '%H:%M:%S.%f') as first, sum(count)::bigint as count,
        min(detail) filter (where not starts_with(detail, '{')) as detail from events group by kind order by events desc""",
    "errors": "select received, session, field, why from errors limit 5",
    "publications": """select key, publisher, count(*) as publications, sum(payload_size)::bigint as bytes, max(hops) as hops,
        any_value(identified) as identified from publications group by key, publisher order by publications desc, key limit 6""",
    "deliveries": """select publisher, subscriber, count(*) as deliveries, median(age)::bigint as age_p50_us,
        quantile_disc(age, 0.99) as age_p99_us from deliveries group by publisher, subscriber
        order by deliveries desc, publisher, subscriber limit 6""",
    "subscriptions": """select key, subscriber, subscriber_role as role, coalesce(ended_by, 'open') as ended from subscriptions
        order by key, subscriber limit 6""",
    "matrix": """select publisher, subscriber, matched, delivered, round(100 * share, 1) as percent, age_p50, age_p99, bytes
        from matrix order by matched desc nulls last, publisher, subscriber limit 6""",
    "gets": """select key, parameters, replies, errors, outcome, identified from gets
        qualify row_number() over (partition by outcome order by replies desc, key) <= 2 order by outcome, replies desc limit 6""",
    "sessions": """select session, opener_role || ' → ' || coalesce(acceptor_role, 'group') as roles,
        coalesce(reason, 'no CLOSE') as end, epoch_ms(last_received - received) as ms,
        opener_messages as "msgs →", acceptor_messages as "msgs ←", opener_bytes as "bytes →", acceptor_bytes as "bytes ←"
        from sessions order by reason is not null, acceptor_bytes desc limit 6""",
    "queries": """select key, parameters, replies, errors, reply_bytes as bytes, first_reply_ms, final_ms, error, outcome
        from queries qualify row_number() over (partition by outcome order by replies desc, final_ms desc) <= 2
        order by outcome, final_ms desc limit 8""",
    "gaps": """select session, direction as dir, scope, priority as prio, reliable, first_sn, missing, harmless from gaps
        order by harmless, missing desc, received limit 5""",
    "latest": """select key, payload, payload_size as bytes, encoding from latest
        qualify row_number() over (partition by encoding order by key) = 1 order by key limit 6""",
    "rates": """select strftime(received, '%H:%M:%S') as second, key, samples, bytes, age_p50_us, age_p99_us from rates
        where stamped > 0 order by bytes desc, key limit 4""",
    "hops": """select from_node, from_point, to_node, to_point, samples, latency_p50_us, latency_p99_us from hops
        order by samples desc, from_node, to_node limit 6""",
}


def demo(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", help="Captures to decode instead of a live fleet."),
    ] = None,
    lake: Annotated[
        Path, typer.Option("--lake", metavar="DIR", help="Output folder for the log, the tables and the report.")
    ] = Path("lake"),
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="SECONDS", min=2.0, help="Duration of the simulated fleet.")
    ] = 12.0,
) -> int:
    """Turn the traffic of a simulated fleet, or your captures, into Spark tables, Parquet files and a report.

    The fleet has 20 robots, an operator that queries them, a robot that is killed, and a slow subscriber. Half of the robots
    run on Eclipse Zenoh if it is installed. A recording router records all traffic, and Spark lands the log at the same time.

    $ zenlake demo
    $ zenlake demo robots.pcap --lake mine
    """
    console = Printer(highlight=False) if sys.stdout.isatty() else Printer(highlight=False, width=120)
    from zenlake.spark.session import require_spark

    import_duckdb()
    require_spark(java=True)
    prepare(lake)
    if not paths:
        try:
            return live(console, lake, seconds)
        except KeyboardInterrupt:
            console.print(Text(escape(f"stopped; the recording is in {lake / 'log'} until the next run replaces it")))
            raise
    started = time.monotonic()
    given = paths
    console.print(f"[bold]Every Zenoh message, as a table.[/] {len(given)} capture files:")
    for path in given:
        console.print(Text(escape(f"  {path}"), style="dim"))

    with console.status("starting Spark") as status:
        import zenlake.spark
        from zenlake.spark.parquet import write

        spark = zenlake.spark.session()
        console.print(step_line(f"Spark {spark.version}, {spark.sparkContext.master}", format_elapsed(started)))
        tables = zenlake.spark.tables(spark, given)
        landed = {}
        for name in tables:
            began = time.monotonic()
            status.update(f"{'decoding' if name in TABLES else 'deriving'} {name}")
            landed[name] = write(tables[name], lake / name, by_day=name in BY_DAY)
            console.print(step_line(f"{name:<13}{landed[name]:>7} rows → {lake / name}", format_elapsed(began)))
        status.update("reading the files with DuckDB")
        counts = show(console, lake, landed)
    differing = {name: count for name, count in counts.items() if count != landed[name]}
    if differing:
        raise InvalidValue(f"Spark wrote {landed}, but DuckDB reads {differing}; please report this as a bug")
    console.print(
        step_line(
            f"DuckDB reads from {lake}/ the {sum(counts.values())} rows that Spark wrote", format_elapsed(started)
        )
    )
    next_steps(console, NEXT_WITH_CAPTURES, lake)
    return 0


def live(console: Console, lake: Path, seconds: float) -> int:
    """Run the fleet on a recording router, land its log, derive the tables, verify the counts and write the report."""
    started = time.monotonic()
    log, tables = lake / "log", lake / "tables"
    with console.status("starting the router") as status, Fleet(log, seconds) as fleet:
        console.print("[bold]Every Zenoh message, as a table.[/]")
        console.print(step_line(f"a router on {fleet.endpoint} records into {log}", format_elapsed(started)))
        status.update("starting Spark")
        import zenlake.spark

        spark = zenlake.spark.session(quick=True)
        query = zenlake.spark.land(spark, log, tables, trigger="1 second")
        console.print(
            step_line(f"Spark {spark.version} lands the log in {tables} as it grows", format_elapsed(started))
        )
        status.update("starting the fleet")
        fleet.begin()
        half = "half of them on Eclipse Zenoh" if fleet.real else "all on Zenlake (eclipse-zenoh is not installed)"
        console.print(step_line(f"20 robots, {half}, an operator, a slow subscriber", format_elapsed(started)))
        status.update("the fleet runs, Spark lands the log")
        time.sleep(seconds / 2)
        fleet.lose_one()
        console.print(step_line("killed one robot", format_elapsed(started)))
        counters = fleet.finish()
        status.update("landing the rest")
        for attempts in (2, 1, 0):
            try:
                query.processAllAvailable()
                break
            except Exception:  # Spark gives a worker 10 s to start, which a busy machine exceeds
                if not attempts:
                    raise
                query = zenlake.spark.land(spark, log, tables, trigger="1 second")  # landing is idempotent
        query.stop()
        console.print(step_line("the fleet has finished, and the log is landed", format_elapsed(started)))
        status.update("computing the derived tables")
        zenlake.spark.refresh(spark, tables)
        status.update("reading the files with DuckDB")
        counts = show(console, tables, [*TABLES, *DERIVED])
        console.print()
        for line in reconcile(tables, counters):
            console.print(step_line(line), soft_wrap=True)
        status.update("writing the report")
        page = lake / "report.html"
        page.write_text(report.page(tables, progress=lambda text: status.update(Text(escape(text)))), encoding="utf-8")
    console.print()
    console.print(
        step_line(f"{sum(counts.values())} rows in {len(counts)} tables; the report: {page}", format_elapsed(started))
    )
    next_steps(console, NEXT, lake)
    return 0


def prepare(lake: Path) -> None:
    """Create the folder of the demo, or clear the one of an earlier run.

    Raises:
        InvalidValue: The folder contains files that the demo did not create.
    """
    if lake.exists() and not (lake / OURS).exists() and any(lake.iterdir()):
        raise InvalidValue(f"{lake} is not empty and was not created by the demo; choose another folder with --lake")
    lake.mkdir(parents=True, exist_ok=True)
    (lake / OURS).touch()
    for made in ("log", "tables", *TABLES, *DERIVED):
        shutil.rmtree(lake / made, ignore_errors=True)


def show(console: Console, lake: Path, names: Iterable[str]) -> dict[str, int]:
    """Print representative rows of each table, read by DuckDB, and return the row counts."""
    counts: dict[str, int] = {}
    with import_duckdb().connect() as engine:
        engine.execute("set TimeZone = 'UTC'")
        for name in names:
            files = table_files(lake, name)
            if not files:
                counts[name] = 0
                continue
            listed = f"[{', '.join(map(quote, files))}]"
            engine.execute(f"create view {name} as from read_parquet({listed}, hive_partitioning = true)")
            counts[name] = engine.execute(f"select count(*) from {name}").fetchall()[0][0]
            describe_step(console, name, counts[name])
            if counts[name]:
                console.print(rich_table(engine.sql(SUMMARIES[name]).to_arrow_table(), widest=32))
            else:
                console.print("  empty: every byte was decoded" if name == "errors" else "  empty", style="dim")
    return counts


def describe_step(console: Console, name: str, count: int) -> None:
    row = definition(name).row if name in DERIVED else TABLES[name].metadata[b"comment"].decode()
    console.print(f"\n[bold cyan]{name}[/] [dim]{count} rows; a row is:[/] {row}")


def quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def format_elapsed(began: float) -> str:
    return f"{time.monotonic() - began:.1f} s"


NEXT = (
    ("record your own router", "zenlake tap tcp/YOUR-ROUTER:7447 '**' --log mine/log"),
    ("land it continuously", "zenlake land mine/log mine/tables --every '10 seconds'"),
    ("report on it", "zenlake report mine/log --open"),
    ("query, without a JVM", 'zenlake sql "select key, count(*) from publications group by key" mine/log'),
    ("in your Spark job", 'spark.readStream.format("zenoh").load("mine/log")'),
    ("query the new tables", 'zenlake sql "from gets" LAKE/tables'),
    ("replay the recording", "zenlake replay LAKE/log -e tcp/127.0.0.1:7447"),
)
NEXT_WITH_CAPTURES = (
    ("record", "tcpdump -i any -w mine.pcap 'port 7447 or ip[6:2] & 0x1fff != 0'"),
    ("run the demo on it", "zenlake demo mine.pcap --lake mine"),
    ("query, without a JVM", 'zenlake sql "select key, count(*) from publications group by key" mine.pcap'),
    ("any table, any format", "zenlake decode mine.pcap --table queries -o queries.parquet"),
    ("in your Spark job", 'spark.read.format("zenoh_capture").option("table", "messages").load("mine.pcap")'),
    ("derived tables in Spark", 'zenlake.spark.tables(spark, "mine.pcap")["queries"]'),
    ("query the new files", 'zenlake sql "from gets" LAKE'),
)


def next_steps(console: Console, steps: Iterable[tuple[str, str]], lake: Path) -> None:
    console.print("\n[bold]Next, with your own data[/]")
    if shutil.which("zenlake") is None:
        activate = Path(sys.prefix, "bin", "activate")
        within = activate.is_relative_to(Path.cwd())
        steps = (
            ("first, once per shell", f"source {activate.relative_to(Path.cwd()) if within else activate}"),
            *steps,
        )
    for what, how in steps:
        how = escape(how.replace("LAKE", str(lake)))
        console.print(Text.assemble((f"  {what:<23}", "dim"), f" {how}"), soft_wrap=True)
