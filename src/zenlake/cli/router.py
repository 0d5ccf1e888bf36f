# SPDX-License-Identifier: Apache-2.0
"""`zenlake router`: run a Zenoh router that can record all traffic."""

import dataclasses
import resource
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import filesize
from rich.console import Console
from rich.live import Live
from rich.text import Text

from zenlake.api.session_node import open_node
from zenlake.cli.console import status_line
from zenlake.cli.network_options import (
    ConfigFile,
    Connect,
    Limit,
    Listen,
    PasswordFile,
    Set,
    configuration,
    limits,
    until_stopped,
)
from zenlake.cli.recording_options import MetadataOnly, Metrics, MirrorTo, default_name, describe_lag, local, mirror
from zenlake.core.keyexpr import KeyExpr
from zenlake.runtime.connection_manager import MEMORY
from zenlake.runtime.live_node import LiveNode
from zenlake.runtime.metrics import Figure, MetricsPage
from zenlake.runtime.traffic_stats import TrafficStats

if TYPE_CHECKING:
    from zenlake.log.mirror import Mirror
    from zenlake.log.recorder import Recorder
    from zenlake.tap.connection_recorder import ConnectionRecorder

__all__ = ["router"]

REFRESH = 0.5  # seconds between two updates of the status line
BESIDES = 64  # file handles besides sessions: listeners, the log, Python itself


def router(
    listen: Listen = None,
    connect: Connect = None,
    config: ConfigFile = None,
    set: Set = None,
    password_file: PasswordFile = None,
    log: Annotated[
        Path | None,
        typer.Option(
            "--log",
            metavar="DIR",
            callback=local,
            help="Record all traffic into a wire log in this folder. Created if missing.",
        ),
    ] = None,
    mirror_to: MirrorTo = None,
    record: Annotated[
        list[str] | None,
        typer.Option(
            "--record",
            metavar="KEY",
            help="With --log: subscribe to these keys, to record samples that have no other subscriber. Repeatable.",
            show_default="**",
        ),
    ] = None,
    metadata_only: MetadataOnly = None,
    name: Annotated[
        str,
        typer.Option(
            "--name",
            metavar="NAME",
            help="Writer name in the log. Unique per router; do not change it later.",
            show_default=True,
        ),
    ] = "router",
    memory: Annotated[
        int,
        typer.Option(
            "--memory", metavar="MIB", min=1, help="Memory limit of all neighbours together, in MiB.", show_default=True
        ),
    ] = MEMORY >> 20,
    limit: Limit = None,
    metrics: Metrics = None,
) -> int:
    """Run a Zenoh router until Ctrl-C or SIGTERM. Without --listen, it accepts connections from this machine only.

    $ zenlake router
    $ zenlake router -l "tcp/[::]:7447" --log lake/log
    $ zenlake router -l tcp/0.0.0.0:7447 -e tcp/other-router:7447 --metrics localhost:9447
    """
    for given, option in ((record, "--record"), (metadata_only, "--metadata-only"), (mirror_to, "--mirror")):
        if given and log is None:
            raise typer.BadParameter("recording needs --log", param_hint=option)
    bounds = limits(limit)
    chosen = configuration(config, "router", connect, listen, set, password_file)
    copy = None if log is None else mirror(log, default_name(name), mirror_to)
    with ExitStack() as stack:
        stop = stack.enter_context(until_stopped())
        recorder = recording = None
        if log is not None:
            recorder, recording = record_into(stack, log, name, metadata_only or (), copy)
        running = open_node(chosen, recording=recording, max_memory=memory << 20, limits=bounds)
        stack.callback(running.close)
        for key in (record or ["**"]) if recorder is not None else ():
            running.declare_subscriber(KeyExpr(key).utf8, None)
        lack = file_handles(
            running.config.max_sessions + running.config.max_pending * max(1, len(running.locators)) + BESIDES
        )
        if lack:
            typer.secho(lack, err=True, fg="yellow")
        if metrics is not None:
            page = MetricsPage(
                metrics,
                lambda: figures(running, recorder),
                lambda: (
                    ""
                    if recorder is None
                    else str(recorder.trouble or "") or describe_lag(copy) or recorder.clock_warning
                ),
            )
            stack.callback(page.close)
        recorded = "" if log is None else f", recording into {log}"
        recorded += "" if copy is None else f", copied to {copy.there.path}"
        where = ", ".join(running.locators) or "nothing"
        typer.echo(
            f"router {running.zid[::-1].hex().lstrip('0')} listens on {where}{recorded} (Ctrl-C to stop)", err=True
        )
        before, then = total(running), time.monotonic()
        with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
            while not stop.wait(REFRESH):
                if sys.stderr.isatty():
                    now, at = total(running), time.monotonic()
                    trouble = "" if recorder is None else str(recorder.trouble or "") or describe_lag(copy)
                    live.update(line(now, before, at - then, trouble), refresh=True)
                    before, then = now, at
        done = total(running)
    sealed = "" if log is None else f"; {log} is sealed"
    typer.echo(
        f"{done.messages_in} messages received, {done.messages_out} sent, {done.dropped} dropped{sealed}", err=True
    )
    return 0


def record_into(
    stack: ExitStack, log: Path, name: str, metadata_only: Sequence[str], copy: "Mirror | None"
) -> "tuple[Recorder, ConnectionRecorder]":
    """Open the log. Only a router that records loads the modules of the log, which need pyarrow."""
    from zenlake.log.recorder import Recorder
    from zenlake.log.writer import Writer
    from zenlake.tap.connection_recorder import ConnectionRecorder

    if copy is not None:
        stack.callback(copy.close)  # after the recorder, which seals its segment
    recorder = stack.enter_context(Recorder(Writer(log, name, metadata_only=metadata_only)))
    if copy is not None:
        copy.follow(recorder.writer)
    return recorder, ConnectionRecorder(recorder)


def file_handles(needed: int) -> str:
    """Raise the limit of file handles to `needed`. Return a warning if the hard limit is lower, else an empty text."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return ""
    may = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (may, hard))
    if may == needed:
        return ""
    return (
        f"{needed} file handles are needed for the maximum number of sessions, but the limit of this process is {may}; "
        f"raise the limit (ulimit -Hn {needed}), or set transport/unicast/max_sessions"
    )


def total(running: LiveNode) -> TrafficStats:
    return sum(running.traffic().values(), TrafficStats())


def line(now: TrafficStats, before: TrafficStats, seconds: float, trouble: str) -> Text:
    """Return the status line: sessions and rates since the last update."""
    words = [
        f"{now.sessions} session{'' if now.sessions == 1 else 's'}",
        f"in {(now.messages_in - before.messages_in) / seconds:,.0f} messages/s",
        f"{filesize.decimal(int((now.bytes_in - before.bytes_in) / seconds))}/s",
        f"out {(now.messages_out - before.messages_out) / seconds:,.0f} messages/s",
        f"{filesize.decimal(int((now.bytes_out - before.bytes_out) / seconds))}/s",
        f"{now.dropped:,} dropped",
    ]
    return status_line(words, [trouble])


def figures(running: LiveNode, recorder: "Recorder | None") -> Iterable[Figure]:
    for role, traffic in running.traffic().items():
        what = dataclasses.asdict(traffic)
        labels = {"role": str(role)}
        yield "zenlake_router_sessions", "Open sessions.", labels, what["sessions"]
        for flow in ("in", "out"):
            both = labels | {"flow": flow}
            yield "zenlake_router_messages_total", "Network messages.", both, what[f"messages_{flow}"]
            yield "zenlake_router_bytes_total", "Bytes of batches.", both, what[f"bytes_{flow}"]
        yield "zenlake_router_dropped_total", "Messages dropped because a queue was full.", labels, what["dropped"]
    for cause, count in running.counters().items():
        yield (
            "zenlake_router_refused_total",
            "Messages and requests that were dropped, denied or refused, by cause.",
            {"cause": cause},
            count,
        )
    refused, budget = running.runtime.refused, running.runtime.budget
    yield (
        "zenlake_router_turned_away_total",
        "Links refused because of too many handshakes or the memory limit.",
        {},
        refused,
    )
    yield "zenlake_router_held_bytes", "Bytes queued in all connections together.", {}, budget.held
    yield "zenlake_router_no_memory_total", "Messages refused because of the memory limit.", {}, budget.refused
    if recorder is not None:
        yield "zenlake_router_recorded_bytes_total", "Bytes recorded.", {}, recorder.bytes
        yield "zenlake_router_lost_batches_total", "Batches lost because the disk was too slow.", {}, recorder.lost
        yield "zenlake_router_waiting_bytes", "Bytes recorded but not yet written.", {}, recorder.waiting_bytes
