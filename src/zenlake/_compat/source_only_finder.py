# SPDX-License-Identifier: Apache-2.0
"""Import hook for ZENLAKE_PURE=1: import the `.py` of a module although a compiled module exists.

Python prefers extension modules. This finder comes first and finds only sources. The tests use it to run every compiled module in
both modes. It also helps with debuggers.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

from zenlake._compat import cython_shadow


class SourceOnly:
    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if path is None or not name.startswith("zenlake."):
            return None
        for folder in path:
            source = Path(folder) / (name.rpartition(".")[2] + ".py")
            if source.is_file():
                return spec_from_file_location(name, source)
        return PathFinder.find_spec(name, path, target)


sys.meta_path.insert(0, SourceOnly)
cython_shadow.install()  # the sources need it if Cython is not installed
