# SPDX-License-Identifier: Apache-2.0
"""Loading a module that brings many others.

They are no garbage: looking for some among them, while they are loaded and once more thereafter, is a tenth of a start.
"""

import gc
import sys
from importlib import import_module
from types import ModuleType

__all__ = ["loaded"]


def loaded(name: str) -> ModuleType:
    if name in sys.modules or not gc.isenabled():
        return import_module(name)
    gc.disable()
    try:
        return import_module(name)
    finally:
        if not gc.get_freeze_count():  # else somebody keeps objects from being looked at: they stay so
            gc.freeze()
            gc.unfreeze()  # what was loaded is old from now on, without having been looked at as young
        gc.enable()
