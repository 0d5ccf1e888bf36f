# SPDX-License-Identifier: Apache-2.0
"""Import of modules with many dependencies, without garbage collection.

Modules are not garbage. Collections during and after the import took a tenth of the start-up time.
"""

import gc
import sys
from importlib import import_module
from types import ModuleType

__all__ = ["import_module_without_gc"]


def import_module_without_gc(name: str) -> ModuleType:
    if name in sys.modules or not gc.isenabled():
        return import_module(name)
    gc.disable()
    try:
        return import_module(name)
    finally:
        if not gc.get_freeze_count():  # a frozen generation of the program stays frozen
            gc.freeze()
            gc.unfreeze()  # the imported objects go to the old generation without a collection
        gc.enable()
