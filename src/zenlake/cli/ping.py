# SPDX-License-Identifier: Apache-2.0
"""`zenlake ping`: measure round trips to `zenlake ping --answer`, or to `z_pong` of Zenoh, which uses the same keys."""

import queue
import struct
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenlake.cli.formatting import json_line
from zenlake.cli.network_options import Json, NetworkOptions, StopRequest, on_network, until_stopped
from zenlake.core.enums import CongestionControl
from zenlake.errors import LinkError

if TYPE_CHECKING:
    from zenlake.api.session import Session

MARK = struct.Struct("<16sQ")  # sender and sequence number: other senders may use the same keys
FIRST = 0.2  # seconds after which the first ping is repeated: the other side may still be joining


@on_network
def ping(
    network: NetworkOptions,
    answer: Annotated[
        bool, typer.Option("--answer", help="Reply to pings until Ctrl-C, instead of sending them.")
    ] = False,
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", help="Number of round trips.", min=1)] = 100,
    interval: Annotated[
        float,
        typer.Option(
            "--interval",
            "-i",
            metavar="SECONDS",
            help="Time between two pings. 0: send the next ping when the reply arrives.",
            min=0,
        ),
    ] = 0.0,
    size: Annotated[int, typer.Option("--size", metavar="BYTES", help="Payload size of a ping.", min=MARK.size)] = 64,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="Time to wait for each reply.", min=0.001)
    ] = 3.0,
    to: Annotated[str, typer.Option("--to", metavar="KEY", help="Key of the pings.")] = "test/ping",
    back: Annotated[str, typer.Option("--back", metavar="KEY", help="Key of the replies.")] = "test/pong",
    as_json: Json = False,
) -> int:
    """Measure round trips to `zenlake ping --answer`: median, 99th percentile, minimum and maximum, in microseconds.

    The exit code is 1 if a reply is missing.

    $ zenlake ping --answer -e tcp/localhost:7447
    $ zenlake ping -e tcp/localhost:7447 --count 1000 --size 1024
    """
    with until_stopped() as stop, network.open() as node:
        if answer:
            _answer(node, to, back)
            typer.echo(f"replying to {to} on {back} (Ctrl-C to stop)", err=True)
            stop.wait()
            return 0
        between = RoundTrips(node, to, back, size)
        asked, trips = between.measure(count, interval, timeout, stop) if between.find(timeout, stop) else (0, [])
    if not trips:
        return 1  # stopped before the first reply
    figures = {
        "sent": asked,
        "back": len(trips),
        **{f"{name}_us": round(1e6 * value, 1) for name, value in _figures(trips).items()},
        "size": size,
    }
    if as_json:
        print(json_line(figures))
    else:
        text = "  ".join(f"{name} {1e6 * value:.0f}" for name, value in _figures(trips).items())
        print(f"{len(trips)} of {asked} replies received, {size} bytes each; microseconds: {text}")
    return 0 if len(trips) == asked else 1


def _answer(node: "Session", to: str, back: str) -> None:
    from zenlake.api.handlers import Callback

    publisher = node.declare_publisher(back, congestion_control=CongestionControl.BLOCK, express=True)
    node.declare_subscriber(to, Callback(lambda sample: publisher.put(sample.payload), indirect=False))


class RoundTrips:
    """Pings on one key with replies on another."""

    def __init__(self, node: "Session", to: str, back: str, size: int) -> None:
        from zenlake.api.handlers import Callback

        self.to, self.back, self.size = to, back, size
        self._own = bytes(node.zid().to_wire()).ljust(16, b"\0")
        self._came: queue.SimpleQueue[tuple[int, float]] = queue.SimpleQueue()
        node.declare_subscriber(back, Callback(self._got, indirect=False))
        self._publisher = node.declare_publisher(to, congestion_control=CongestionControl.BLOCK, express=True)

    def _got(self, sample: Any) -> None:
        now = time.perf_counter()
        payload = bytes(sample.payload)
        if len(payload) >= MARK.size:
            who, number = MARK.unpack_from(payload)
            if who == self._own:
                self._came.put((number, now))

    def send_ping(self, number: int, patience: float) -> float | None:
        """Send one ping and return its round-trip time in seconds, or None after a timeout."""
        began = time.perf_counter()
        self._publisher.put(MARK.pack(self._own, number).ljust(self.size, b"\0"))
        end = began + patience
        while (left := end - time.perf_counter()) > 0:
            try:
                which, at = self._came.get(timeout=left)
            except queue.Empty:
                return None
            if which == number:
                return at - began
        return None

    def find(self, timeout: float, stop: StopRequest) -> bool:
        """Ping until the first reply. Return False if `stop` is set before.

        Raises:
            LinkError: There is no reply within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while self.send_ping(0, min(FIRST, timeout)) is None:
            if stop.is_set():
                return False
            if time.monotonic() > deadline:
                raise LinkError(self.to, f"no reply on {self.back}; start `zenlake ping --answer` on the same network")
        return True

    def measure(self, count: int, interval: float, timeout: float, stop: StopRequest) -> tuple[int, list[float]]:
        """Return the number of pings sent and the round-trip times of those with a reply."""
        took: list[float] = []
        asked = 0
        for number in range(1, count + 1):
            if stop.wait(interval) if interval else stop.is_set():
                break
            asked += 1
            seconds = self.send_ping(number, timeout)
            if seconds is None:
                typer.echo(f"ping {number}: no reply within {timeout:g} s", err=True)
            else:
                took.append(seconds)
        return asked, took


def _figures(trips: list[float]) -> dict[str, float]:
    ordered = sorted(trips)
    last = len(ordered) - 1
    return {
        "min": ordered[0],
        "p50": ordered[last // 2],
        "p99": ordered[round(last * 0.99)],
        "max": ordered[last],
        "mean": sum(ordered) / len(ordered),
    }
