# SPDX-License-Identifier: Apache-2.0
"""State of one session, both directions. Passive: it reads no clock, opens no socket and sends nothing.

A live transport, a capture, the wire log and the columns keep the same `SessionState`: negotiated parameters, sequence
numbers of each lane, partial messages, and the two tables of key ids.
"""

from zenlake.session.key_table import KeyMemory, KeyTable
from zenlake.session.lanes import Lanes
from zenlake.session.state import SessionState

__all__ = ["KeyMemory", "KeyTable", "Lanes", "SessionState"]
