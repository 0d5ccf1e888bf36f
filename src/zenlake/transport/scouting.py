# SPDX-License-Identifier: Apache-2.0
"""Scouting: SCOUT is sent in rounds, HELLO is received. Sans-IO: datagrams and `now` in, datagrams out.

A `Scouter` sends SCOUT until it is stopped: immediately, then after 1, 2, 4 and 8 seconds, then every 8 seconds. A `Responder`
replies to SCOUTs for its role. Neither checks the version byte: a mismatch is detected at INIT (companion scouting.md).
"""

from collections.abc import Callable, Sequence

from zenlake.core.enums import WhatAmI, WhatAmIMatcher
from zenlake.errors import DecodeError
from zenlake.wire.scouting import Hello, Scout, read_scouting

__all__ = ["Responder", "Scouter"]

FIRST_PERIOD = 1.0
MAX_PERIOD = 8.0


class Scouter:
    """Sender of SCOUT."""

    def __init__(self, what: WhatAmIMatcher, now: float) -> None:
        self.what = what
        self._scout = Scout(what=what.to_wire()).encode()
        self._next = now
        self._period = FIRST_PERIOD

    def data(self, now: float) -> bytes | None:
        """Return the datagram to send to the group, or None if it is not yet due."""
        if now < self._next:
            return None
        self._next = now + self._period
        self._period = min(2 * self._period, MAX_PERIOD)
        scout: bytes = self._scout
        return scout

    def receive(self, datagram: bytes) -> Hello | None:
        """Decode a HELLO of a requested role. Other datagrams are ignored."""
        try:
            hello = read_scouting(datagram)
        except DecodeError:
            return None
        if not isinstance(hello, Hello) or WhatAmI.from_wire(hello.whatami) not in self.what:
            return None
        return hello

    def next_timeout(self) -> float:
        return self._next


class Responder:
    """Sender of HELLO. `locators` returns our addresses, depending on whether the asking node is on this machine.

    A node that cannot reach us gets no HELLO: a HELLO without locators would mean its source address.
    """

    def __init__(self, zid: bytes, whatami: WhatAmI, locators: Callable[[bool], Sequence[str]]) -> None:
        self._zid = zid
        self._whatami = whatami
        self._locators = locators

    def reply(self, datagram: bytes, from_here: bool) -> bytes | None:
        """Return the HELLO for this SCOUT, or None if it does not match our role."""
        try:
            scout = read_scouting(datagram)
        except DecodeError:
            return None
        if not isinstance(scout, Scout) or self._whatami not in WhatAmIMatcher.from_wire(scout.what):
            return None
        locators = [str(one) for one in self._locators(from_here)]
        if not locators:
            return None
        encoded: bytes = Hello(whatami=self._whatami.to_wire(), zid=self._zid, locators=locators).encode()
        return encoded
