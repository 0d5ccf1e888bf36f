# SPDX-License-Identifier: Apache-2.0
"""`Config`: a Zenoh configuration with the keys of eclipse-zenoh.

A configuration is a tree of sections and values, described in `core.config_schema`. It is read from JSON5 and validated.
Unknown keys and invalid values are rejected immediately, with the nearest existing key.
"""

import copy
import os
from collections.abc import Iterator
from typing import Any, Self

from zenlake.core import json5
from zenlake.core.config_schema import KEYS, ROLES, Key
from zenlake.core.enums import WhatAmI
from zenlake.core.secret_redaction import is_secret, redact_value
from zenlake.errors import ConfigError

__all__ = ["Config"]


class Config:
    """Configuration of a session: `Config.from_json5("{mode: 'client'}")`, `config.insert_json5("mode", '"client"')`."""

    __slots__ = ("_set",)

    DEFAULT_CONFIG_PATH_ENV = "ZENOH_CONFIG"

    def __init__(self) -> None:
        self._set: dict[str, Any] = {}  # path -> configured value

    @classmethod
    def from_env(cls) -> Self:
        """Read the file that the environment variable ZENOH_CONFIG names.

        Returns:
            The configuration.

        Raises:
            ConfigError: The variable is not set, or the file is invalid.
        """
        path = os.environ.get(cls.DEFAULT_CONFIG_PATH_ENV)
        if path is None:
            raise ConfigError(f"the environment variable {cls.DEFAULT_CONFIG_PATH_ENV} is not set")
        return cls.from_file(path)

    @classmethod
    def from_file(cls, path: "str | os.PathLike[str]") -> Self:
        """Read a file: YAML if its name ends in `.yaml` or `.yml`, otherwise JSON5 or JSON.

        Args:
            path: The path of the file.

        Returns:
            The configuration.

        Raises:
            ConfigError: The file cannot be read, or is invalid.
        """
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            why = (
                getattr(error, "strerror", None) or error
            )  # the text of the system's error, without its number and the path
            raise ConfigError(f"cannot read the configuration {path}: {why}") from None
        is_yaml = os.fspath(path).endswith((".yaml", ".yml"))
        try:
            self = cls()
            self._merge("", KEYS, _from_yaml(text) if is_yaml else json5.loads(text))
            return self
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    @classmethod
    def from_json5(cls, json: str) -> Self:
        """Parse a whole configuration.

        Args:
            json: The text, in JSON5.

        Returns:
            The configuration.

        Raises:
            ConfigError: The text is not JSON5, or has an unknown key or invalid value.

        Example:
            ```python
            config = zenlake.Config.from_json5("{mode: 'client', connect: {endpoints: ['tcp/localhost:7447']}}")
            ```
        """
        self = cls()
        self._merge("", KEYS, json5.loads(json))
        return self

    def get_json(self, /, key: str) -> str:
        """Return the value or section at a path as JSON.

        Args:
            key: The path, such as `connect/endpoints`.

        Raises:
            ConfigError: The key does not exist.
        """
        path = key.strip("/")
        return json5.dumps(self._value(path, _find(path)), separators=(",", ":"))

    def insert_json5(self, /, key: str, value: str) -> None:
        """Set the value or section at a path.

        Args:
            key: The path, such as `connect/endpoints`.
            value: The value, in JSON5. A section is replaced as a whole.

        Raises:
            ConfigError: The key does not exist, or the value is invalid.
        """
        path = key.strip("/")
        node = _find(path)
        try:
            found = json5.loads(value, quote=not is_secret(path))
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
        if node is None:  # inside a plugin's configuration, whose keys are unknown
            plugins = self.get("plugins")
            *parents, last = path.split("/")[1:]
            inner = plugins
            for part in parents:
                inner = inner.setdefault(part, {})
            inner[last] = found
            path, node, found = "plugins", KEYS["plugins"], plugins
        elif isinstance(node, dict):
            _check(path, node, found)
            for each in [each for each in self._set if f"{each}/".startswith(f"{path}/")]:
                del self._set[each]
        self._merge(path, node, found)

    def get(self, path: str) -> Any:
        """Return the value at a path as a Python object, or its default.

        Args:
            path: Path of the key, such as `connect/endpoints`.

        Raises:
            ConfigError: There is no such key.
        """
        return copy.deepcopy(self._value(path, _find(path)))

    def is_set(self, path: str) -> bool:
        """Return whether the configuration has a value for a key, even if it equals the default.

        Args:
            path: The key, with `/` between its parts.

        Returns:
            False if `get` returns the default.
        """
        return path in self._set

    def changed(self) -> Iterator[tuple[str, Any]]:
        """Return an iterator over paths and values that differ from the default."""
        return ((path, value) for path, value in self._set.items() if value != _find(path).default)

    def of_role(self, path: str, role: WhatAmI | None = None) -> Any:
        """Return the value at a path for a mode, if each mode can have its own value.

        Args:
            path: Path of the key.
            role: The mode. Default: the mode of this configuration.
        """
        value = self.get(path)
        if isinstance(value, dict) and value and all(key in ROLES for key in value):
            return value.get(str(role or self.role))
        return value

    @property
    def role(self) -> WhatAmI:
        """Mode of the node: `mode` of the configuration, else peer."""
        return WhatAmI(self.get("mode") or "peer")

    def _merge(self, path: str, node: Any, value: Any) -> None:
        _check(path, node, value)
        self._set.update(_leaves(path, node, value))

    def _value(self, path: str, node: Any) -> Any:
        if isinstance(node, dict):
            return {
                name: self._value(f"{path}/{name}" if path else name, child)
                for name, child in node.items()
                if not (isinstance(child, Key) and child.secret)
            }
        if node is None:  # inside a plugin
            parts = path.split("/")
            value = self._value("plugins", KEYS["plugins"])
            for part in parts[1:]:
                if not isinstance(value, dict) or part not in value:
                    raise ConfigError(f"`{path}` is not set")
                value = value[part]
            return value
        return self._set.get(path, node.default)

    def __str__(self) -> str:
        """Return the configuration as JSON, without secrets. `get_json` returns the value of one key as it is."""
        return json5.dumps(redact_value(self._value("", KEYS)), separators=(",", ":"), sort_keys=True)

    def __repr__(self) -> str:
        """Return the configured values, without secrets."""
        shown = {path: redact_value(value, path) for path, value in self._set.items()}
        return f"Config({json5.dumps(shown)})"

    def __eq__(self, other: object) -> bool:
        return self._set == other._set if isinstance(other, Config) else NotImplemented

    def __getstate__(self) -> dict[str, Any]:
        return self._set

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._set = state

    def __copy__(self) -> Self:
        twin = type(self)()
        twin._set = copy.deepcopy(self._set)
        return twin

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()


def _from_yaml(text: str) -> Any:
    try:
        import yaml  # imported on use, because few configurations are YAML
    except ModuleNotFoundError:
        raise ConfigError("reading YAML needs the package PyYAML: pip install pyyaml, or use JSON5") from None
    try:
        return json5.loads(json5.dumps(yaml.safe_load(text), default=str))  # values without a JSON equivalent, as text
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)  # the error itself quotes the text, which may contain a secret
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else "the text cannot be parsed"
        raise ConfigError(f"invalid YAML: {where}") from None


def _find(path: str) -> Any:
    """Return the section or key at a path, or None inside a plugin's configuration."""
    node: Any = KEYS
    done: list[str] = []
    if not path:
        raise ConfigError("the path is empty; expected a key such as `mode` or `connect/endpoints`")
    for part in path.split("/"):
        if done and done[0] == "plugins":
            return None
        if isinstance(node, Key):
            raise ConfigError(f"`{'/'.join(done)}` is a value, so it has no key `{part}`; set the whole value")
        if part not in node:
            raise _unknown("/".join([*done, part]))
        node = node[part]
        done.append(part)
    return node


def _unknown(path: str) -> ConfigError:
    """Return an error with the nearest key: of the same section if one is similar, else of the whole tree."""
    from difflib import get_close_matches

    section, _, name = path.rpartition("/")
    paths = list(_paths("", KEYS))
    siblings = [each for each in paths if each.rpartition("/")[0] == section]
    near = get_close_matches(path, siblings, 1) or [each for each in paths if each.rpartition("/")[2] == name]
    near = near or get_close_matches(path, paths, 1, 0.5)
    hint = f"did you mean `{near[0]}`?" if near else f"expected one of {', '.join(siblings or KEYS)}"
    return ConfigError(f"unknown configuration key `{path}`: {hint}")


def _paths(path: str, node: Any) -> Iterator[str]:
    if path:
        yield path
    if isinstance(node, dict):
        for name, child in node.items():
            yield from _paths(f"{path}/{name}" if path else name, child)


def _check(path: str, node: Any, value: Any) -> None:
    if node is None:
        return
    if isinstance(node, Key):
        why = node.kind.check(value)
        if why is not None:
            shown = json5.dumps(redact_value(value, path))
            why = "is not valid" if is_secret(path) and not why.startswith("is ") else why
            raise ConfigError(f"{path}: {shown} {why}" if why.startswith("is ") else f"{path}: {why}")
        return
    if not isinstance(value, dict):
        raise ConfigError(
            f"{path or 'the configuration'} is a section; expected an object {{...}}, not a value of type {type(value).__name__}"
        )
    for name, each in value.items():
        below = f"{path}/{name}" if path else name
        if name not in node:
            raise _unknown(below)
        _check(below, node[name], each)


def _leaves(path: str, node: Any, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict):
        for name, each in value.items():
            yield from _leaves(f"{path}/{name}" if path else name, node[name], each)
    else:
        yield path, value
