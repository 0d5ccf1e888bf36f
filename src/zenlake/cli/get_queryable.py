# SPDX-License-Identifier: Apache-2.0
"""`zenlake get` and `zenlake queryable`: send queries, and reply to them."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenlake.cli.formatting import describe_encoding, escape, json_line, one_line
from zenlake.cli.network_options import Count, Json, NetworkOptions, Seconds, Timeout, follow, on_network, until_stopped
from zenlake.cli.publish import Attachment, EncodingName, File, Key, Value, as_member, check_key, read_value
from zenlake.cli.subscribe import line
from zenlake.core.enums import ConsolidationMode, QueryTarget

if TYPE_CHECKING:
    from zenlake.api.query import Query
    from zenlake.api.reply import ReplyError


@on_network
def get(
    network: NetworkOptions,
    selector: Annotated[
        str,
        typer.Argument(
            metavar="SELECTOR",
            help="Key expression with optional parameters, like fleet/*/status?verbose=1.",
            callback=check_key,
            show_default=False,
        ),
    ],
    value: Value = None,
    target: Annotated[
        Any,
        typer.Option(
            "--target",
            metavar="NAME",
            parser=partial(as_member, QueryTarget),
            help="Queryables that receive the query: best-matching, all or all-complete.",
        ),
    ] = "best-matching",
    consolidation: Annotated[
        Any,
        typer.Option(
            "--consolidation",
            metavar="NAME",
            parser=partial(as_member, ConsolidationMode),
            help="Deduplication of replies with the same key: auto, none, monotonic or latest.",
        ),
    ] = "auto",
    timeout: Timeout = 10.0,
    count: Count = None,
    encoding: EncodingName = None,
    attachment: Attachment = None,
    as_json: Json = False,
) -> int:
    """Send a query and print a line for each reply. The exit code is 1 without a reply, or with error replies only.

    $ zenlake get 'fleet/*/status' -e tcp/localhost:7447
    $ zenlake get 'fleet/r1/status?verbose=1' --target all --timeout 2
    """
    payload, kind = (None, None) if value is None else read_value(value, None, encoding)
    answers = 0
    with until_stopped() as stop, network.open() as node:
        replies = node.get(
            selector,
            payload=payload,
            encoding=kind,
            attachment=attachment,
            target=target,
            consolidation=consolidation,
            timeout=timeout,
        )
        has_error = False
        for reply in follow(replies, stop, count):
            if reply.ok is None:
                has_error = True
                _error(reply.err, as_json)
                continue
            answers += 1
            print(json_line(describe_encoding(reply.ok)) if as_json else line(reply.ok))
        if not answers and not has_error and not stop.is_set():
            typer.echo(f"no replies to {escape(selector)}; `zenlake info` lists the connected nodes", err=True)
    return 0 if answers else 1


def _error(error: "ReplyError", as_json: bool) -> None:
    if as_json:
        print(json_line({"error": bytes(error.payload), "encoding": str(error.encoding)}))
    else:
        typer.echo(f"error reply: {one_line(bytes(error.payload))}", err=True)


@on_network
def queryable(
    network: NetworkOptions,
    key: Key,
    value: Value = None,
    file: File = None,
    complete: Annotated[
        bool, typer.Option("--complete", help="Declare the queryable complete: it has the values of all matching keys.")
    ] = False,
    count: Count = None,
    seconds: Seconds = None,
    encoding: EncodingName = None,
    attachment: Attachment = None,
    as_json: Json = False,
) -> int:
    """Reply to every query on a key with a value, and print a line for each query, until Ctrl-C.

    $ zenlake queryable fleet/r1/status ready -e tcp/localhost:7447
    """
    payload, kind = read_value(value, file, encoding)
    with until_stopped() as stop, network.join() as node:
        asked = node.declare_queryable(key, complete=complete)
        for query in follow(asked, stop, count, seconds):
            with query:
                on = key if "*" in str(query.key_expr) else query.key_expr
                query.reply(on, payload, encoding=kind, attachment=attachment)
                print(json_line(_open_query(query)) if as_json else _parse_question(query))
    return 0


def _open_query(query: "Query") -> dict[str, object]:
    found: dict[str, object] = {"key": str(query.key_expr), "parameters": str(query.parameters)}
    if query.payload is not None:
        found |= {"payload": bytes(query.payload), "encoding": str(query.encoding)}
    if query.attachment is not None:
        found["attachment"] = bytes(query.attachment)
    return found


def _parse_question(query: "Query") -> str:
    return escape(str(query.selector)) + ("" if query.payload is None else f" {one_line(bytes(query.payload))}")
