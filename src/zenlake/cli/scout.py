# SPDX-License-Identifier: Apache-2.0
"""`zenlake scout` and `zenlake info`: list nearby nodes, and the nodes of a session."""

from typing import Annotated, Any

import typer

from zenlake.cli.formatting import escape, json_line
from zenlake.cli.network_options import (
    ConfigFile,
    Count,
    Json,
    NetworkOptions,
    Set,
    configuration,
    expect_one,
    follow,
    on_network,
    until_stopped,
)
from zenlake.core.identifiers import ZenohId
from zenlake.core.releases import known_incompatibilities
from zenlake.errors import InvalidValue


def scout(
    what: Annotated[
        str, typer.Option("--what", metavar="ROLES", help="Roles to look for: router, peer, client, joined by |.")
    ] = "router|peer",
    seconds: Annotated[
        float, typer.Option("--seconds", "-s", metavar="SECONDS", help="Time to scout. 0: until Ctrl-C.", min=0)
    ] = 3.0,
    count: Count = None,
    config: ConfigFile = None,
    set: Set = None,
    as_json: Json = False,
) -> int:
    """Discover nodes by multicast and print the role, id and locators of each.

    The exit code is 1 if no node replied.

    $ zenlake scout
    $ zenlake scout --what router --count 1 --json
    """
    from zenlake.api.scouting import scout as begin
    from zenlake.core.enums import WhatAmIMatcher

    try:
        WhatAmIMatcher(what)
    except InvalidValue as error:
        raise typer.BadParameter(str(error), param_hint="--what") from None

    seen: dict[str, object] = {}
    with until_stopped() as stop, begin(what=what, config=configuration(config, None, None, None, set)) as scouting:
        for hello in follow(scouting, stop, None, seconds or None):
            zid = str(hello.zid)
            if zid in seen:
                continue  # SCOUT messages are repeated, and nodes reply to each
            seen[zid] = hello
            if as_json:
                typer.echo(json_line({"zid": zid, "whatami": str(hello.whatami), "locators": hello.locators}))
            else:
                typer.echo(f"{hello.whatami!s:<6}  {zid}  {escape(' '.join(hello.locators))}")
            if count is not None and len(seen) >= count:
                break
    if not seen and not stop.is_set():
        typer.echo(
            f"no node replied within {seconds:g} s; if multicast is blocked, name a router with -e tcp/HOST:7447",
            err=True,
        )
    return 0 if seen else 1


@on_network
def info(
    network: NetworkOptions,
    as_json: Json = False,
) -> int:
    """Open a session and print its id, the connected nodes and their links.

    The Zenoh release of a node is inferred from its handshake. It is likely, not certain, and absent if the handshake shows none.

    The exit code is 1 if no node is connected.

    $ zenlake info
    $ zenlake info -e tcp/localhost:7447
    """
    with network.open() as node:
        around: list[dict[str, Any]] = [
            {
                "zid": str(transport.zid),
                "whatami": str(transport.whatami),
                "qos": transport.is_qos,
                "src": link.src,
                "dst": link.dst,
                "mtu": link.mtu,
                "streamed": link.is_streamed,
                "release": (release := node._node.release_of(ZenohId.parse(str(transport.zid)).to_wire())),
                "incompatibilities": known_incompatibilities(release),
            }
            for transport, link in zip(node.info.transports(), node.info.links(), strict=True)
        ]
        own = {"zid": str(node.zid()), "whatami": str(node._node.whatami), "locators": list(node._node.locators)}
        error = expect_one(node)
    if as_json:
        typer.echo(json_line({**own, "connected": around}))
    else:
        typer.echo(escape(f"this node  {own['whatami']!s:<6}  {own['zid']}  {' '.join(own['locators'])}".rstrip()))
        for each in around:
            lanes = "one lane per priority" if each["qos"] else "one lane"
            where = escape(f"{each['src']} -> {each['dst']}")
            typer.echo(
                f"with       {each['whatami']!s:<6}  {each['zid']}  {where}  batches of {each['mtu']} bytes, {lanes}"
            )
            if each["release"] is not None:
                differences = ": " + "; ".join(each["incompatibilities"]) if each["incompatibilities"] else ""
                typer.echo(f"           likely Zenoh {each['release']}{differences}")
    if error is not None:
        typer.echo(str(error), err=True)
    return 0 if error is None else 1
