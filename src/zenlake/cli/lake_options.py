# SPDX-License-Identifier: Apache-2.0
"""Options that all commands of a lake share."""

from typing import Annotated

import typer

__all__ = ["Catalog", "LakePath", "split_names"]

LakePath = Annotated[
    str,
    typer.Argument(metavar="LAKE", help="Lake: a folder, or an address like s3://bucket/tables.", show_default=False),
]
Catalog = Annotated[
    str | None,
    typer.Option(
        "--catalog",
        metavar="NAME",
        help="Catalog of pyiceberg (~/.pyiceberg.yaml) for an Iceberg lake.",
        show_default="a SQLite file",
    ),
]


def split_names(names: str | None) -> list[str] | None:
    """Return the names of an option `a,b,c`, or None without the option."""
    return None if names is None else [name.strip() for name in names.split(",")]
