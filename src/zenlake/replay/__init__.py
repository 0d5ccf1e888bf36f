# SPDX-License-Identifier: Apache-2.0
"""Replay: publish the samples of a recording again, at the times at which they came.

    Replay("lake/log", speed=2).run(session)

`rows` reads a recording in the order of time, `publish` hands each row to the network when it is due.
"""

from zenlake.replay.publish import Outcome, Replay

__all__ = ["Outcome", "Replay"]
