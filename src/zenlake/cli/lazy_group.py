# SPDX-License-Identifier: Apache-2.0
"""A group of commands with lazy imports: `zenlake put` does not import Arrow, DuckDB or Spark.

`zenlake --help` and shell completion import no command. They parse the help of a command from its source. The help of a
command is its docstring.
"""

import ast
from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

__all__ = ["EXAMPLE", "OutputClosed", "group"]

EXAMPLE = "$ zenlake "  # prefix of example lines in a docstring


class OutputClosed(Exception):
    """The reader of the standard output has closed the pipe."""


class LazyCommands(MutableMapping[str, Any]):
    """The commands of a group by name, imported on first access.

    `where` maps each command to its module and its help panel. The function has the name of the command.
    """

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
            command: Any = _format_help(get_command(found))
            command.rich_help_panel = panel
            self._loaded[name] = command
        return self._loaded[name]

    def sketch(self, name: str) -> Any:
        """Return a command with name and help only, for lists. It cannot be run."""
        module, panel = self._where[name]
        spec = find_spec(module)
        if name in self._loaded or spec is None or not (spec.origin or "").endswith(".py"):
            return self[name]
        assert spec.origin is not None
        return TyperCommand(name, help=_read_help(Path(spec.origin), name), rich_help_panel=panel)

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._where)

    def __len__(self) -> int:
        return len(self._where)


def group(where: Mapping[str, tuple[str, str]]) -> type[TyperGroup]:
    """Return a group class of these commands, in this order, for `typer.Typer(cls=...)`."""

    class LazyGroup(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            self.loaded = LazyCommands(where)
            self.listing = False
            super().__init__(**{**attributes, "commands": self.loaded})

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if self.listing and cmd_name in where:
                return self.loaded.sketch(cmd_name)
            return super().get_command(ctx, cmd_name)

        def format_help(self, ctx: Any, formatter: Any) -> None:
            self.listing = True
            super().format_help(ctx, formatter)
            self.listing = False

        def shell_complete(self, ctx: Any, incomplete: str) -> Any:
            self.listing = True
            found = super().shell_complete(ctx, incomplete)
            self.listing = False
            return found

        def get_params(self, ctx: Any) -> list[Any]:
            return without_types(super().get_params(ctx))

        def list_commands(self, ctx: Any) -> list[str]:
            return list(where)

        def invoke(self, ctx: Any) -> Any:
            try:
                return super().invoke(ctx)
            except BrokenPipeError:  # typer would exit with an error
                raise OutputClosed from None

    return LazyGroup


def _format_help(command: Any) -> Any:
    """Return the command with paragraphs joined to the width of the terminal and examples moved to the end."""
    for each in getattr(command, "commands", {}).values():
        _format_help(each)
    paragraphs = (command.help or "").strip().split("\n\n")
    examples = [text for text in paragraphs if text.lstrip().startswith(EXAMPLE)]
    command.help = "\n\n".join(" ".join(text.split()) for text in paragraphs if text not in examples)
    command.epilog = "\n".join(line.strip() for text in examples for line in text.splitlines()) or None
    given = command.get_params
    command.get_params = lambda ctx: without_types(given(ctx))
    return command


def without_types(parameters: list[Any]) -> list[Any]:
    """Remove the Python types that typer shows for arguments and flags."""
    for each in parameters:
        if each.param_type_name == "argument":
            each.display_type_rich = lambda ctx: None
        elif each.is_flag:
            each.metavar = ""
    return parameters


def _read_help(source: Path, name: str) -> str:
    """Return the docstring of the function, or the `help` of the group, with this name."""
    for node in ast.parse(source.read_bytes()).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return ast.get_docstring(node) or ""
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name and isinstance(node.value, ast.Call):
            return "".join(ast.literal_eval(each.value) for each in node.value.keywords if each.arg == "help")
    return ""
