# SPDX-License-Identifier: Apache-2.0
"""`zenlake tap`: record published samples into a wire log."""

import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich import filesize
from rich.console import Console
from rich.live import Live
from rich.text import Text

from zenlake.api.config_mapping import node_config
from zenlake.cli.console import status_line
from zenlake.cli.network_options import ConfigFile, Limit, PasswordFile, Set, configuration, limits, until_stopped
from zenlake.cli.recording_options import MetadataOnly, Metrics, MirrorTo, default_name, describe_lag, local, mirror
from zenlake.core.secret_redaction import redact
from zenlake.log.retention import Retention
from zenlake.runtime.metrics import Figure, MetricsPage
from zenlake.tap.tap import CACHED, Stats, Tap

WHEN: dict[str, Literal["block", "sealed"]] = {"block": "block", "sealed": "sealed"}
RETENTION, DISK = "Retention", "Disk and page cache"  # panels of the help
REFRESH = 0.5  # seconds between two updates of the status line


def tap(
    endpoint: Annotated[
        str,
        typer.Argument(metavar="ENDPOINT", help="Endpoint of the router, like tcp/localhost:7447.", show_default=False),
    ],
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY", help="Key expressions to record, like fleet/**.", show_default="**"),
    ] = None,
    log: Annotated[
        Path, typer.Option("--log", metavar="DIR", callback=local, help="Folder of the wire log. Created if missing.")
    ] = Path("lake/log"),
    mirror_to: MirrorTo = None,
    name: Annotated[
        str,
        typer.Option(
            "--name",
            metavar="NAME",
            callback=default_name,
            help="Writer name in the log. Unique per tap; do not change it later.",
        ),
    ] = "tap",
    sync: Annotated[
        str,
        typer.Option(
            "--sync",
            metavar="WHEN",
            help="When to sync to disk: block (after each block), sealed (per segment), or seconds between syncs. "
            "Readers see synced data only.",
        ),
    ] = "block",
    keep_hours: Annotated[
        float | None,
        typer.Option(
            "--keep-hours",
            metavar="HOURS",
            help="Remove segments older than this. Default: keep all.",
            min=0.0,
            rich_help_panel=RETENTION,
        ),
    ] = None,
    keep_gigabytes: Annotated[
        float | None,
        typer.Option(
            "--keep-gigabytes",
            metavar="GB",
            help="Remove the oldest segments above this total size. Default: keep all.",
            min=0.0,
            rich_help_panel=RETENTION,
        ),
    ] = None,
    when_full: Annotated[
        Literal["lose", "block"],
        typer.Option(
            "--when-full",
            help="If the disk is too slow: `lose` drops batches and counts them, `block` applies backpressure to the router.",
        ),
    ] = "lose",
    metadata_only: MetadataOnly = None,
    cached: Annotated[
        int,
        typer.Option(
            "--cached",
            metavar="MIB",
            min=0,
            help="MiB of sealed segments to keep in the page cache for concurrent readers.",
            rich_help_panel=DISK,
        ),
    ] = CACHED >> 20,
    direct: Annotated[
        bool,
        typer.Option(
            "--direct/--no-direct",
            help="Write full blocks with O_DIRECT: less CPU, but concurrent readers read from the disk.",
            rich_help_panel=DISK,
        ),
    ] = True,
    metrics: Metrics = None,
    config: ConfigFile = None,
    set: Set = None,
    limit: Limit = None,
    password_file: PasswordFile = None,
) -> int:
    """Record published samples into a wire log, until Ctrl-C or SIGTERM.

    Connects as a client and subscribes to KEY. A wire log is a folder of durable Arrow files. `sql`, `report` and `land` read it.

    $ zenlake tap tcp/localhost:7447
    $ zenlake tap tcp/localhost:7447 'fleet/**' --log lake/log --keep-hours 24
    $ zenlake tap tls/router.example:7447 -c robots.json5 --metrics localhost:9447
    $ zenlake tap tcp/localhost:7447 --log lake/log --mirror 's3://bucket/log?region=eu-central-1'
    """
    network = node_config(configuration(config, "client", [endpoint], None, set, password_file))
    retention = Retention(
        None if keep_hours is None else keep_hours * 3600,
        None if keep_gigabytes is None else int(keep_gigabytes * 1e9),
    )
    copy = mirror(log, name, mirror_to)
    with ExitStack() as stack:
        stop = stack.enter_context(until_stopped())
        if copy is not None:
            stack.callback(copy.close)  # after the tap, which seals its segment
        running = stack.enter_context(
            Tap(
                log,
                keys or ["**"],
                connect=network.connect,
                name=name,
                sync=_sync(sync),
                retention=None if retention == Retention() else retention,
                when_full=when_full,
                metadata_only=metadata_only or (),
                cached=cached << 20,
                direct=direct,
                transport=network.transport,
                tls=network.tls,
                timeout=network.connect_timeout,
                backoff=network.backoff,
                limits=limits(limit),
            )
        )
        if copy is not None:
            copy.follow(running.recorder.writer)
        if metrics is not None:
            page = MetricsPage(
                metrics,
                lambda: _figures(running.stats(), name),
                lambda: _trouble(running.stats()) or describe_lag(copy),
            )
            stack.callback(page.close)
        copied = "" if copy is None else f", copied to {copy.there.path}"
        typer.echo(
            f"recording {', '.join(keys or ['**'])} of {redact(endpoint)} into {log}{copied} (Ctrl-C to stop)", err=True
        )
        before, then = running.stats(), time.monotonic()
        with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
            while not stop.wait(REFRESH):
                stats, now = running.stats(), time.monotonic()
                if sys.stderr.isatty():
                    live.update(_line(stats, before, now - then, describe_lag(copy)), refresh=True)
                before, then = stats, now
                if stats.failed:  # closing the tap raises the error
                    break
    done = running.stats()
    size = filesize.decimal(done.bytes)
    typer.echo(f"{done.messages} messages in {done.batches} batches, {size}; {log} is sealed", err=True)
    return 0


def _sync(text: str) -> Literal["block", "sealed"] | float:
    try:
        seconds = 0.0 if text in WHEN else float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise typer.BadParameter(
            f"invalid value {text!r}; expected block, sealed or a number of seconds", param_hint="--sync"
        )
    return WHEN.get(text, seconds)


def _line(now: Stats, before: Stats, seconds: float, uncopied: str) -> Text:
    rate = (now.messages - before.messages) / seconds
    words = [
        f"{rate:,.0f} messages/s",
        f"{filesize.decimal(int((now.bytes - before.bytes) / seconds))}/s",
        f"{now.messages:,} total",
        f"{filesize.decimal(now.waiting)} unwritten",
        f"{now.missing} missing",
        f"{now.lost} lost",
    ]
    return status_line(words, [now.trouble, uncopied, "" if now.connected else "not connected"])


def _trouble(stats: Stats) -> str:
    return stats.trouble or ("" if stats.connected else "not connected") or stats.clock_warning


def _figures(stats: Stats, name: str) -> Iterable[Figure]:
    labels = {"tap": name}
    yield "zenlake_tap_connected", "1 if a session with the router is open, else 0.", labels, float(stats.connected)
    yield "zenlake_tap_messages_total", "Network messages received.", labels, stats.messages
    yield "zenlake_tap_batches_total", "Batches recorded.", labels, stats.batches
    yield "zenlake_tap_bytes_total", "Bytes recorded.", labels, stats.bytes
    yield (
        "zenlake_tap_missing_frames_total",
        "Frames that the router sent but that did not arrive.",
        labels,
        stats.missing,
    )
    yield "zenlake_tap_lost_batches_total", "Batches lost because the disk was too slow.", labels, stats.lost
    yield "zenlake_tap_reconnects_total", "Sessions opened after the first.", labels, stats.reconnects
    yield "zenlake_tap_clock_steps_total", "Backward steps of the system clock.", labels, stats.clock_steps
    yield "zenlake_tap_waiting_bytes", "Bytes received but not yet written.", labels, stats.waiting
