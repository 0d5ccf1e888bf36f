# SPDX-License-Identifier: Apache-2.0
"""Lazy loggers: `logging` is imported with the first message, because most programs log nothing."""

from typing import TYPE_CHECKING

__all__ = ["logger"]

if TYPE_CHECKING:
    from logging import getLogger as logger
else:

    class logger:
        """Return a logger like `logging.getLogger(name)`."""

        def __init__(self, name):
            self._name = name

        def __getattr__(self, name):
            from logging import getLogger

            return getattr(getLogger(self._name), name)
