# SPDX-License-Identifier: Apache-2.0
"""What both ends of one session remember. Passive: it reads no clock, opens no socket and sends nothing.

A live transport, a capture, the wire log and the columns all keep the same `Session`: the negotiated parameters, the
sequence numbers of each lane, half-received messages, and the two tables of key ids.
"""

from zenlake.session.keys import KeyMemory, KeyTable
from zenlake.session.lanes import Lanes
from zenlake.session.session import Session

__all__ = ["KeyMemory", "KeyTable", "Lanes", "Session"]
