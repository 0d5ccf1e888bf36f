# SPDX-License-Identifier: Apache-2.0
"""Loggers of the standard library for the chapters that every program loads, and most never use: `logging` is imported when
something is first told."""

from typing import TYPE_CHECKING

__all__ = ["logger"]

if TYPE_CHECKING:
    from logging import getLogger as logger
else:

    class logger:
        """As `logging.getLogger(name)`."""

        def __init__(self, name):
            self._name = name

        def __getattr__(self, name):
            from logging import getLogger

            return getattr(getLogger(self._name), name)
