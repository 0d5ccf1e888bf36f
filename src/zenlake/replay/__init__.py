# SPDX-License-Identifier: Apache-2.0
"""Replay: publish the samples of a recording again, with their original timing.

    Replay("lake/log", speed=2).run(session)

`source` reads a recording in order of time. `player` publishes each row when it is due.
"""

from zenlake.replay.player import Outcome, Replay

__all__ = ["Outcome", "Replay"]
