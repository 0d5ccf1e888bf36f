# SPDX-License-Identifier: Apache-2.0
"""`zenlake replay`: publish the samples of a recording again, with their original timing."""

import sys
import time
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.live import Live

from zenlake.cli.formatting import escape, json_line
from zenlake.cli.network_options import Json, NetworkOptions, expect_one, on_network, until_stopped
from zenlake.sample_captures import or_sample

if TYPE_CHECKING:
    from zenlake.api.session import Session
    from zenlake.config import Config
    from zenlake.replay import Outcome

REFRESH = 0.25  # seconds between two updates of the progress


class By(StrEnum):
    received = "received"
    timestamp = "timestamp"


class SentBy(StrEnum):
    opener = "opener"
    acceptor = "acceptor"
    all = "all"


def _moment(text: str) -> datetime | timedelta:
    """Parse an ISO 8601 time (UTC by default), or seconds from the start of the recording."""
    try:
        return timedelta(seconds=float(text))
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"invalid time {text!r}; expected a time like 2026-05-01T12:00:00, or a number of seconds"
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"invalid rename {text!r}; expected OLD=NEW, like robots/r1=sim/r1")
    return old, new


@on_network
def replay(
    network: NetworkOptions,
    paths: Annotated[list[str], typer.Argument(metavar="PATH", help="Captures, logs or lakes.", show_default=False)],
    speed: Annotated[
        float,
        typer.Option(
            "--speed", metavar="FACTOR", help="Speed relative to the recording. 0: as fast as possible.", min=0
        ),
    ] = 1.0,
    since: Annotated[
        Any,
        typer.Option(
            "--from",
            metavar="T",
            parser=_moment,
            help="Replay samples received at or after T: a time, or seconds from the start.",
        ),
    ] = None,
    until: Annotated[
        Any,
        typer.Option(
            "--to", metavar="T", parser=_moment, help="Replay samples received before T, in the form of --from."
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEYEXPR", help="Replay only keys that intersect this key expression."),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(
            "--rename",
            metavar="OLD=NEW",
            help="Replace the key prefix OLD by NEW. An empty OLD matches all keys. Repeatable.",
        ),
    ] = None,
    loop: Annotated[bool, typer.Option("--loop", help="Repeat the replay until Ctrl-C.")] = False,
    by: Annotated[
        By,
        typer.Option(
            "--by",
            help="Clock of the schedule: `received` is the clock of the recorder, `timestamp` that of the sender if present.",
        ),
    ] = By.received,
    sent_by: Annotated[
        SentBy | None,
        typer.Option(
            "--sent-by",
            help="Replay samples of the nodes that opened the recorded sessions, that accepted them, or of all.",
            show_default="opener, or acceptor if openers sent no samples",
        ),
    ] = None,
    keep_timestamps: Annotated[
        bool,
        typer.Option("--keep-timestamps", help="Send the recorded timestamps instead of new ones."),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Publish to the nodes that scouting finds, without a prompt.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Publish the samples of a capture, log or lake again, with their original timing.

    Keys, values, encodings, attachments, priorities, puts and deletes are as recorded. The summary at the end reports the delay
    of samples against the schedule. Replies to queries are not replayed.

    Without an endpoint to connect to, the samples go to every node that scouting finds. The command then lists these nodes and
    asks before it publishes. A script needs `-e` or `--yes`.

    $ zenlake replay robots.pcap -e tcp/localhost:7447
    $ zenlake replay lake/log -e tcp/localhost:7447 --from 10 --to 20 --speed 2
    $ zenlake replay robots.pcap -l tcp/127.0.0.1:7447 --rename fleet=sim --loop --yes
    """
    from zenlake.replay import Replay

    pairs = [_pair(each) for each in rename or ()]
    console = Console(stderr=True, highlight=False)
    chosen = Replay(
        or_sample(paths),
        keys=key,
        since=since,
        until=until,
        by=by.value,
        sent_by=None if sent_by is None else sent_by.value,
        speed=speed or float("inf"),
        rename=pairs,
        keep_timestamps=keep_timestamps,
    )
    extent = chosen.extent
    begins = datetime.fromtimestamp(extent.first / 1e9, UTC)
    console.print(f"{extent.samples} samples of {extent.seconds:.1f} s, from {begins:%Y-%m-%d %H:%M:%S} UTC")
    config = network.configure()
    with network.open(config) as node:
        error = expect_one(node)
        if error is not None and not network.listen:
            raise error
        if not yes and _finds_nodes(config):
            _confirm(node, extent.samples)
        with until_stopped() as stop, Live(console=console, auto_refresh=False, transient=True) as live:
            shown = 0.0

            def progress(outcome: "Outcome", seconds: float) -> None:
                nonlocal shown
                if sys.stderr.isatty() and time.monotonic() - shown > REFRESH:
                    shown = time.monotonic()
                    late = f"{1e3 * outcome.late(0.5):.2f} ms late (median)"
                    live.update(
                        f"{seconds:.1f} of {extent.seconds:.1f} s · {outcome.sent:,} samples · {late}", refresh=True
                    )

            while True:
                outcome = chosen.run(node, stop, progress)
                _print_result(outcome, speed, as_json)
                if stop.is_set() or not loop:
                    return 0


def _finds_nodes(config: "Config") -> bool:
    """Return whether the destination depends on scouting: no endpoint is named, and scouting is enabled."""
    return not config.of_role("connect/endpoints") and config.get("scouting/multicast/enabled") is not False


def _confirm(node: "Session", samples: int) -> None:
    """Ask on a terminal whether to publish to the nodes that were found. Without a terminal, refuse."""
    found = [
        escape(f"{transport.whatami} {transport.zid} at {link.dst}")
        for transport, link in zip(node.info.transports(), node.info.links(), strict=True)
    ]
    where = f"{', '.join(found) or 'no node yet'}, and to every node found later"
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            f"no -e ENDPOINT is given; {samples} samples would go to {where}; name the endpoint, or use --yes"
        )
    if not typer.confirm(f"Publish {samples} samples to {where}?", err=True):
        raise typer.Exit(1)


def _print_result(outcome: "Outcome", speed: float, as_json: bool) -> None:
    late = {"p50": outcome.late(0.5), "p99": outcome.late(0.99), "max": outcome.latest} if speed else {}
    if as_json:
        fields: dict[str, float] = {"sent": outcome.sent, "dropped": outcome.dropped, "skipped": outcome.skipped}
        fields |= {"seconds": round(outcome.seconds, 3)}
        print(
            json_line(fields | {f"late_{name}_ms": round(1e3 * value, 3) for name, value in late.items()}), flush=True
        )
        return
    words = [f"{outcome.sent} samples in {outcome.seconds:.2f} s"]
    if outcome.dropped:
        words.append(f"{outcome.dropped} dropped by a full queue")
    if outcome.skipped:
        words.append(f"{outcome.skipped} skipped (unknown key, or missing value)")
    if late:
        words.append("late by " + ", ".join(f"{name} {1e3 * value:.2f} ms" for name, value in late.items()))
    print("; ".join(words), flush=True)
