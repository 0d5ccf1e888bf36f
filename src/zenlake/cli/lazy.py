# SPDX-License-Identifier: Apache-2.0
"""A group of commands that are loaded when they are asked for: `zenlake put` must not pay for Arrow, DuckDB and Spark."""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

__all__ = ["Unread", "group"]


class Unread(Exception):
    """Nobody reads the standard output any more."""


class Loaded(MutableMapping[str, Any]):
    """The commands of a group by name. `where` says in which module each lies, under its own name, and in which panel of
    the help it is shown."""

    def __init__(self, where: Mapping[str, tuple[str, str]]) -> None:
        self._where = where
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            module, panel = self._where[name]
            found = getattr(import_module(module), name)
            if not isinstance(found, typer.Typer):
                single = typer.Typer(add_completion=False)
                single.command(name=name)(found)
                found = single
            command: Any = get_command(found)
            command.rich_help_panel = panel
            self._loaded[name] = command
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._where)

    def __len__(self) -> int:
        return len(self._where)


def group(where: Mapping[str, tuple[str, str]]) -> type[TyperGroup]:
    """What `typer.Typer(cls=...)` takes: a group of these commands, in this order."""

    class Group(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**{**attributes, "commands": Loaded(where)})

        def list_commands(self, ctx: Any) -> list[str]:
            return list(where)

        def invoke(self, ctx: Any) -> Any:
            try:
                return super().invoke(ctx)
            except BrokenPipeError:  # typer would make a failure of it
                raise Unread from None

    return Group
