# SPDX-License-Identifier: Apache-2.0
"""Options that all recording commands share: the folder of the log, its mirror and its metrics."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zenlake.errors import InvalidValue

if TYPE_CHECKING:
    from zenlake.log import Mirror

__all__ = ["MetadataOnly", "Metrics", "MirrorTo", "describe_lag", "local", "mirror", "default_name"]

ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/(?!/)")  # `s3://bucket` as a pathlib.Path


def local(log: Path | None) -> Path | None:
    """Validate the folder of a log, as the callback of an option. An address would become a folder named `s3:`."""
    found = ADDRESS.match(str(log)) if log is not None else None
    if found is not None:
        address = str(log).replace(":/", "://", 1)
        raise typer.BadParameter(f"a log must be a local folder; use --mirror {address} to copy it there")
    return log


def default_name(name: str) -> str:
    """Validate a writer name, as the callback of an option."""
    from zenlake.log.layout import check_name

    try:
        return check_name(name)
    except InvalidValue as error:
        raise typer.BadParameter(str(error)) from None


def _metrics(address: str | None) -> str | None:
    port = address.rpartition(":")[2] if address is not None else "0"
    if not port.isdecimal() or int(port) > 65535:
        raise typer.BadParameter(f"invalid address {address}; expected HOST:PORT, like 127.0.0.1:9100 or :9100")
    return address


MirrorTo = Annotated[
    str | None,
    typer.Option(
        "--mirror",
        metavar="ADDRESS",
        help="Copy each sealed segment (after 64 MiB or one hour) to this address, like s3://bucket/log.",
    ),
]
MetadataOnly = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata-only",
        metavar="KEY",
        help="Redact payloads on these keys: store size and SHA-256 instead of the bytes. Repeatable.",
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="HOST:PORT",
        callback=_metrics,
        help="Serve /metrics (Prometheus) and /health over HTTP at this address. :PORT listens on loopback.",
    ),
]


def mirror(log: Path, name: str, address: str | None) -> "Mirror | None":
    """Return the mirror of this writer, or None without an address."""
    from zenlake.log import Mirror

    try:
        return None if address is None else Mirror(log, name, address)
    except ValueError as error:
        raise typer.BadParameter(f"{address}: {error}", param_hint="--mirror") from None


def describe_lag(copy: "Mirror | None") -> str:
    """Return why the mirror is not copying, or an empty text."""
    return "" if copy is None or copy.trouble is None else f"not copied to {copy.there.path}: {copy.trouble}"
