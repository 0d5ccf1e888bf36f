# SPDX-License-Identifier: Apache-2.0
"""`zenlake router`: a Zenoh router, which can record all that passes."""

import dataclasses
import resource
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich import filesize
from rich.console import Console
from rich.live import Live

from zenlake.api.opening import open_node
from zenlake.cli.network import ConfigFile, Connect, Limit, Listen, Set, configuration, limits, until_stopped
from zenlake.cli.recording import Metrics, MirrorTo, lagging, local, mirror, named
from zenlake.keyexpr import KeyExpr
from zenlake.log.record import Recorder
from zenlake.log.write import Writer
from zenlake.runtime.metrics import Figure, MetricsPage
from zenlake.runtime.node import LiveNode
from zenlake.runtime.runtime import MEMORY
from zenlake.runtime.traffic import Traffic
from zenlake.tap.recording import Recording

__all__ = ["router"]

REFRESH = 0.5  # seconds between two looks at the figures
BESIDES = 64  # file handles for everything that is no session: listeners, the log, Python's own


def router(
    listen: Listen = None,
    connect: Connect = None,
    config: ConfigFile = None,
    set: Set = None,
    log: Annotated[
        Path | None,
        typer.Option("--log", metavar="DIR", callback=local, help="Record everything that passes into this wire log."),
    ] = None,
    mirror_to: MirrorTo = None,
    record: Annotated[
        list[str] | None,
        typer.Option(
            "--record",
            metavar="KEY",
            help="Ask for samples on these keys, so that they come even if nobody else wants them.",
            show_default="**",
        ),
    ] = None,
    metadata_only: Annotated[
        list[str] | None,
        typer.Option(
            "--metadata-only", metavar="KEY", help="Of values on these keys keep the size and the hash, not the bytes."
        ),
    ] = None,
    name: Annotated[
        str,
        typer.Option(
            "--name", callback=named, help="This router's name in the log, its own for ever.", show_default=True
        ),
    ] = "router",
    memory: Annotated[
        int,
        typer.Option(
            "--memory", metavar="MIB", min=1, help="MiB that all neighbours together may use.", show_default=True
        ),
    ] = MEMORY >> 20,
    limit: Limit = None,
    metrics: Metrics = None,
) -> int:
    """Run a Zenoh router, until Ctrl-C or SIGTERM. Unless told where, it listens on this machine only.

    $ zenlake router
    $ zenlake router -l "tcp/[::]:7447" --log lake/log
    $ zenlake router -l tcp/0.0.0.0:7447 -e tcp/other-router:7447 --metrics localhost:9447
    """
    for given, option in ((record, "--record"), (metadata_only, "--metadata-only"), (mirror_to, "--mirror")):
        if given and log is None:
            raise typer.BadParameter("nothing is recorded without --log", param_hint=option)
    bounds = limits(limit)
    chosen = configuration(config, "router", connect, listen, set)
    copy = None if log is None else mirror(log, name, mirror_to)
    with ExitStack() as stack:
        stop = stack.enter_context(until_stopped())
        recorder = None
        if copy is not None:
            stack.callback(copy.close)  # behind the recorder, which seals what it has
        if log is not None:
            recorder = stack.enter_context(Recorder(Writer(log, name, metadata_only=metadata_only or ())))
        if copy is not None and recorder is not None:
            copy.follow(recorder.writer)
        recording = None if recorder is None else Recording(recorder)
        running = open_node(chosen, recording=recording, max_memory=memory << 20, limits=bounds)
        stack.callback(running.close)
        for key in (record or ["**"]) if recorder is not None else ():
            running.declare_subscriber(KeyExpr(key).utf8, None)
        lack = file_handles(running.config.max_sessions + running.config.max_pending + BESIDES)
        if lack:
            typer.secho(lack, err=True, fg="yellow")
        if metrics is not None:
            page = MetricsPage(
                metrics,
                lambda: figures(running, recorder),
                lambda: "" if recorder is None else str(recorder.trouble or "") or lagging(copy),
            )
            stack.callback(page.close)
        recorded = "" if log is None else f", recording into {log}"
        recorded += "" if copy is None else f", copied to {copy.there.path}"
        where = ", ".join(running.locators) or "nothing"
        typer.echo(
            f"router {running.zid[::-1].hex().lstrip('0')} listens on {where}{recorded} (Ctrl-C ends it)", err=True
        )
        before, then = total(running), time.monotonic()
        with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
            while not stop.wait(REFRESH):
                if sys.stderr.isatty():
                    now, at = total(running), time.monotonic()
                    trouble = "" if recorder is None else str(recorder.trouble or "") or lagging(copy)
                    live.update(line(now, before, at - then, trouble), refresh=True)
                    before, then = now, at
        done = total(running)
    sealed = "" if log is None else f"; {log} is sealed"
    typer.echo(
        f"{done.messages_in} messages came and {done.messages_out} went, {done.dropped} dropped{sealed}", err=True
    )
    return 0


def file_handles(needed: int) -> str:
    """Have as many as needed, if we may; else say what is missing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return ""
    may = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (may, hard))
    if may == needed:
        return ""
    return (
        f"{needed} file handles are needed for all the sessions that may be open, and this process may have {may}: "
        f"raise the limit (ulimit -Hn {needed}), or set transport/unicast/max_sessions"
    )


def total(running: LiveNode) -> Traffic:
    return sum(running.traffic().values(), Traffic())


def line(now: Traffic, before: Traffic, seconds: float, trouble: str) -> str:
    """What happens at the moment."""
    told = [
        f"{now.sessions} session{'' if now.sessions == 1 else 's'}",
        f"in {(now.messages_in - before.messages_in) / seconds:,.0f} messages/s",
        f"{filesize.decimal(int((now.bytes_in - before.bytes_in) / seconds))}/s",
        f"out {(now.messages_out - before.messages_out) / seconds:,.0f} messages/s",
        f"{filesize.decimal(int((now.bytes_out - before.bytes_out) / seconds))}/s",
        f"{now.dropped:,} dropped",
    ]
    if trouble:
        told.insert(0, f"[bold red]{trouble}[/]")
    return " · ".join(told)


def figures(running: LiveNode, recorder: Recorder | None) -> Iterable[Figure]:
    for role, traffic in running.traffic().items():
        what = dataclasses.asdict(traffic)
        labels = {"role": str(role)}
        yield "zenlake_router_sessions", "Sessions that are open.", labels, what["sessions"]
        for flow in ("in", "out"):
            both = labels | {"flow": flow}
            yield "zenlake_router_messages_total", "Network messages.", both, what[f"messages_{flow}"]
            yield "zenlake_router_bytes_total", "Bytes of batches.", both, what[f"bytes_{flow}"]
        yield "zenlake_router_dropped_total", "Messages for which a queue had no room.", labels, what["dropped"]
    for cause, count in running.counters().items():
        yield "zenlake_router_refused_total", "What was dropped, denied or refused.", {"cause": cause}, count
    refused, budget = running.runtime.refused, running.runtime.budget
    yield "zenlake_router_turned_away_total", "Links refused: too many handshakes, or no memory.", {}, refused
    yield "zenlake_router_held_bytes", "Bytes that wait in all connections together.", {}, budget.held
    yield "zenlake_router_no_memory_total", "Messages refused because too much was waiting.", {}, budget.refused
    if recorder is not None:
        yield "zenlake_router_recorded_bytes_total", "Bytes recorded.", {}, recorder.bytes
        yield "zenlake_router_lost_batches_total", "Batches that found no room before a slow disk.", {}, recorder.lost
        yield "zenlake_router_waiting_bytes", "Bytes recorded and not yet written.", {}, recorder.waiting
