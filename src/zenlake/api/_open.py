# SPDX-License-Identifier: Apache-2.0
"""`zenlake.open`. It scouts first, and imports the modules of a session while replies arrive."""

from importlib import import_module
from typing import TYPE_CHECKING

from zenlake.config import Config

if TYPE_CHECKING:
    from zenlake.api.session import Session
    from zenlake.api.timestamp_stack import TimestampCallback

__all__ = ["open"]


def open(
    config: Config | None = None, *, timestamp_callback: "TimestampCallback | None" = None
) -> "Session":  # fmt: skip
    """Open a session.

    Args:
        config: Configuration. Default: a peer that finds others by multicast scouting and listens on loopback.
        timestamp_callback: Called to create the timestamps of a timestamp stack.

    Returns:
        The session. Close it, or use it in a `with` statement.

    Raises:
        ConfigError: The configuration is invalid.
        LinkError: An endpoint cannot be opened, or a client cannot connect.

    Example:
        ```python
        config = zenlake.Config.from_json5("{mode: 'client', connect: {endpoints: ['tcp/127.0.0.1:7447']}}")
        with zenlake.open(config) as session:
            session.put("robots/7/goal", "home")
        ```
    """
    config = check_config(config)
    discovery = None
    if config.get("scouting/multicast/enabled") is not False:
        discovery = import_module("zenlake.api.scouting_service").ScoutingService(config)
    try:
        return import_module("zenlake.api.session").Session(config, timestamp_callback, discovery=discovery)
    except BaseException:
        if discovery is not None:
            discovery.close()
        raise


def check_config(config: Config | None) -> Config:
    if config is not None and not isinstance(config, Config):
        raise TypeError(f"invalid config of type {type(config).__name__}; expected zenlake.Config")
    return config if config is not None else Config()
