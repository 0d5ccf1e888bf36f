# SPDX-License-Identifier: Apache-2.0
"""`zenlake scout` and `zenlake info`: who is near, and whom one is connected to."""

from typing import Annotated

import typer

from zenlake.cli.lines import escaped, json_line
from zenlake.cli.network import (
    ConfigFile,
    Count,
    Json,
    Network,
    Set,
    alone,
    configuration,
    following,
    on_network,
    until_stopped,
)


def scout(
    what: Annotated[str, typer.Option("--what", help="Which roles, as router|peer|client.")] = "router|peer",
    seconds: Annotated[float, typer.Option("--seconds", "-s", help="How long to look; 0 until Ctrl-C.", min=0)] = 3.0,
    count: Count = None,
    config: ConfigFile = None,
    set: Set = None,
    as_json: Json = False,
) -> int:
    """Look for nodes by multicast and tell of each: its role, its id, where it can be reached.

    The exit code is 1 if nobody answered.

    $ zenlake scout
    $ zenlake scout --what router --count 1 --json
    """
    from zenlake.api.scouting import scout as begin

    seen: dict[str, object] = {}
    with until_stopped() as stop, begin(what=what, config=configuration(config, None, None, None, set)) as scouting:
        for hello in following(scouting, stop, None, seconds or None):
            zid = str(hello.zid)
            if zid in seen:
                continue  # nodes answer every question, and questions are asked again
            seen[zid] = hello
            if as_json:
                typer.echo(json_line({"zid": zid, "whatami": str(hello.whatami), "locators": hello.locators}))
            else:
                typer.echo(f"{hello.whatami!s:<6}  {zid}  {escaped(' '.join(hello.locators))}")
            if count is not None and len(seen) >= count:
                break
        interrupted = stop.is_set()
    if not seen and not interrupted:
        typer.echo(
            f"nobody answered in {seconds:g} s: multicast may not pass here, then -e tcp/HOST:7447 finds a router",
            err=True,
        )
    return 0 if seen else 1


@on_network
def info(
    network: Network,
    as_json: Json = False,
) -> int:
    """Connect, and tell one's own id, the routers and peers at the other ends, and the links between.

    The exit code is 1 if nobody was found.

    $ zenlake info
    $ zenlake info -e tcp/localhost:7447
    """
    with network.open() as node:
        around = [
            {
                "zid": str(transport.zid),
                "whatami": str(transport.whatami),
                "qos": transport.is_qos,
                "src": link.src,
                "dst": link.dst,
                "mtu": link.mtu,
                "streamed": link.is_streamed,
            }
            for transport, link in zip(node.info.transports(), node.info.links(), strict=True)
        ]
        own = {"zid": str(node.zid()), "whatami": str(node._node.whatami), "locators": list(node._node.locators)}
        nobody = alone(node)
    if as_json:
        typer.echo(json_line({**own, "connected": around}))
    else:
        typer.echo(escaped(f"this node  {own['whatami']!s:<6}  {own['zid']}  {' '.join(own['locators'])}".rstrip()))
        for each in around:
            lanes = "a lane for each priority" if each["qos"] else "one lane"
            where = escaped(f"{each['src']} -> {each['dst']}")
            typer.echo(
                f"with       {each['whatami']!s:<6}  {each['zid']}  {where}  batches of {each['mtu']} bytes, {lanes}"
            )
    if nobody is not None:
        typer.echo(str(nobody), err=True)
    return 0 if nobody is None else 1
