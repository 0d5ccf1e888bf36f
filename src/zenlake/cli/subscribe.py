# SPDX-License-Identifier: Apache-2.0
"""`zenlake sub` and `zenlake echo`: print samples, one line each or decoded."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenlake.cli.formatting import describe_encoding, escape, json_line, one_line, payload_text
from zenlake.cli.network_options import Count, Json, NetworkOptions, Seconds, follow, on_network, until_stopped
from zenlake.cli.publish import Key
from zenlake.core.enums import SampleKind

if TYPE_CHECKING:
    from zenlake.api.reply import Sample
    from zenlake.api.session import Session

WAITING = 1024  # size of the queue of samples to print; a full queue applies backpressure to the network


@on_network
def sub(
    network: NetworkOptions,
    key: Key,
    count: Count = None,
    seconds: Seconds = None,
    as_json: Json = False,
) -> int:
    """Print a line for each sample on a key: the key, and the value as text or hexadecimal.

    $ zenlake sub 'fleet/**' -e tcp/localhost:7447
    $ zenlake sub 'fleet/*/pose' --count 10 --json
    """
    with until_stopped() as stop, network.join() as node:
        for sample in follow(_channel(node, key), stop, count, seconds):
            print(json_line(describe_encoding(sample)) if as_json else line(sample))
    return 0


@on_network
def echo(
    network: NetworkOptions,
    key: Key,
    count: Count = None,
    seconds: Seconds = None,
    most: Annotated[
        int, typer.Option("--bytes", metavar="N", help="Maximum number of bytes of a hexdump.", min=1)
    ] = 256,
) -> int:
    """Print each sample on a key, decoded by its encoding: JSON, text, else a hexdump.

    $ zenlake echo 'fleet/*/log' -e tcp/localhost:7447
    """
    with until_stopped() as stop, network.join() as node:
        bold = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("", "")
        for sample in follow(_channel(node, key), stop, count, seconds):
            print(f"{bold[0]}{escape(str(sample.key_expr))}{bold[1]}")
            print(_describe_sample(sample))
            if sample.kind is SampleKind.PUT:
                print(payload_text(bytes(sample.payload), sample.encoding, most))
            print("---")
    return 0


def _channel(node: "Session", key: str) -> Any:
    from zenlake.api.handlers import FifoChannel

    return node.declare_subscriber(key, FifoChannel(WAITING))


def line(sample: "Sample") -> str:
    key = escape(str(sample.key_expr))
    return f"{key} {one_line(bytes(sample.payload))}" if sample.kind is SampleKind.PUT else f"{key} (deleted)"


def _describe_sample(sample: "Sample") -> str:
    words = ["deleted"] if sample.kind is SampleKind.DELETE else [f"{len(sample.payload)} bytes", str(sample.encoding)]
    if sample.timestamp is not None:
        words.append(sample.timestamp.get_time().isoformat(timespec="microseconds"))
    if int(sample.priority) != 5:
        words.append(f"priority {int(sample.priority)}")
    if sample.attachment is not None:
        words.append(f"attachment {one_line(bytes(sample.attachment))}")
    return escape(" · ".join(words))
