# SPDX-License-Identifier: Apache-2.0
"""Provide the module `zenoh` and its submodules by Zenlake.

The modules are the same objects under two names, so classes are equal and can be pickled. `zenoh.zenoh` is the compiled module
of zenoh-python, which some programs import.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import zenlake

PREFIX = "zenoh."


class AliasFinder(MetaPathFinder, Loader):
    """Import `zenoh.NAME` as `zenlake.NAME`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname.startswith(PREFIX) else None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__.removeprefix(PREFIX)
        sys.modules[module.__name__] = zenlake if name == "zenoh" else import_module(f"zenlake.{name}")


sys.meta_path.insert(0, AliasFinder())
sys.modules["zenoh"] = zenlake
