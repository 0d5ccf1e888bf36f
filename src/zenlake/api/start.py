# SPDX-License-Identifier: Apache-2.0
"""`open`: asks who is there, and loads what a session is made of while the answers are on their way."""

from typing import TYPE_CHECKING

from zenlake.config import Config
from zenlake.loading import loaded

if TYPE_CHECKING:
    from zenlake.api.session import Session
    from zenlake.api.stamps import TimestampCallback

__all__ = ["open"]


def open(
    config: Config | None = None, *, timestamp_callback: "TimestampCallback | None" = None
) -> "Session":  # fmt: skip
    """Open a session, as the configuration says: by default as a peer that finds others by multicast."""
    config = checked(config)
    discovery = None
    if config.get("scouting/multicast/enabled") is not False:
        discovery = loaded("zenlake.api.discovery").Discovery(config)
    try:
        return loaded("zenlake.api.session").Session(config, timestamp_callback, discovery=discovery)
    except BaseException:
        if discovery is not None:
            discovery.close()
        raise


def checked(config: Config | None) -> Config:
    if config is not None and not isinstance(config, Config):
        raise TypeError(f"open takes a zenlake.Config, not {type(config).__name__}")
    return config if config is not None else Config()
