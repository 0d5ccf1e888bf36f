# SPDX-License-Identifier: Apache-2.0
"""Logging as zenoh-python's programs ask for it: everything goes to Python's `logging`, under `zenlake`."""

import logging
import os
import re

__all__ = ["init_log_from_env_or", "try_init_log_from_env"]

_LEVELS = {"off": logging.CRITICAL + 1, "error": logging.ERROR, "warn": logging.WARNING, "info": logging.INFO,
           "debug": logging.DEBUG, "trace": logging.DEBUG}  # fmt: skip


def try_init_log_from_env() -> None:
    """Log to stderr what the environment variable RUST_LOG asks for, if it is set: `info`, `zenoh=debug,warn`."""
    asked = os.environ.get("RUST_LOG")
    if asked:
        _begin(asked)


def init_log_from_env_or(level: str) -> None:
    """The same, with this level if the variable is not set."""
    _begin(os.environ.get("RUST_LOG") or level)


def _begin(directives: str) -> None:
    levels = [_LEVELS[word] for word in re.split(r"[,=]", directives.lower()) if word in _LEVELS]
    if levels:
        logger = logging.getLogger("zenlake")
        logger.setLevel(min(levels))
        if not logger.hasHandlers():
            logging.basicConfig()
