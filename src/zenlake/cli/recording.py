# SPDX-License-Identifier: Apache-2.0
"""What the commands that record have in common: where the log lies, where it is copied to, where its figures are shown."""

import re
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from zenlake.errors import InvalidValue
from zenlake.log import Mirror
from zenlake.log.layout import checked_name

__all__ = ["Metrics", "MirrorTo", "lagging", "local", "mirror", "named"]

ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/(?!/)")  # what pathlib leaves of `s3://bucket`


def local(log: Path | None) -> Path | None:
    """A log's folder, as an option's callback: an address is refused, and would be a folder called `s3:`."""
    found = ADDRESS.match(str(log)) if log is not None else None
    if found is not None:
        address = str(log).replace(":/", "://", 1)
        raise typer.BadParameter(
            f"a log is written to a folder of this machine: add --mirror {address} to copy it there"
        )
    return log


def named(name: str) -> str:
    """A writer's name, as an option's callback."""
    try:
        return checked_name(name)
    except InvalidValue as error:
        raise typer.BadParameter(str(error)) from None


def _metrics(address: str | None) -> str | None:
    port = address.rpartition(":")[2] if address is not None else "0"
    if not port.isdecimal() or int(port) > 65535:
        raise typer.BadParameter(f"{address} is not like 127.0.0.1:9100 or :9100")
    return address


MirrorTo = Annotated[
    str | None,
    typer.Option(
        "--mirror",
        metavar="ADDRESS",
        help="Copy each segment there when it is sealed (after 64 MiB or an hour), like s3://bucket/log.",
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option("--metrics", metavar="HOST:PORT", callback=_metrics, help="Serve /metrics and /health there."),
]


def mirror(log: Path, name: str, address: str | None) -> Mirror | None:
    """A copy that will follow this writer, if one is wanted."""
    try:
        return None if address is None else Mirror(log, name, address)
    except pa.ArrowInvalid as error:
        raise typer.BadParameter(f"{address}: {error}", param_hint="--mirror") from None


def lagging(copy: Mirror | None) -> str:
    """Why nothing is copied now; empty if all is well."""
    return "" if copy is None or copy.trouble is None else f"not copied to {copy.there.path}: {copy.trouble}"
