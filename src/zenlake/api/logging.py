# SPDX-License-Identifier: Apache-2.0
"""Logging functions of zenoh-python: all output goes to Python's `logging`, under `zenlake`."""

import logging
import os
import re

__all__ = ["init_log_from_env_or", "try_init_log_from_env"]

_LEVELS = {"off": logging.CRITICAL + 1, "error": logging.ERROR, "warn": logging.WARNING, "info": logging.INFO,
           "debug": logging.DEBUG, "trace": logging.DEBUG}  # fmt: skip


def try_init_log_from_env() -> None:
    """Log to stderr with the level of the environment variable RUST_LOG, if it is set: `info`, `zenoh=debug,warn`."""
    asked = os.environ.get("RUST_LOG")
    if asked:
        _begin(asked)


def init_log_from_env_or(level: str) -> None:
    """Log to stderr with the level of RUST_LOG, or with `level` if it is not set.

    Args:
        level: A level such as `info`, or directives such as `zenoh=debug,warn`.
    """
    _begin(os.environ.get("RUST_LOG") or level)


def _begin(directives: str) -> None:
    levels = [_LEVELS[word] for word in re.split(r"[,=]", directives.lower()) if word in _LEVELS]
    if levels:
        logger = logging.getLogger("zenlake")
        logger.setLevel(min(levels))
        if not logger.hasHandlers():
            logging.basicConfig()
