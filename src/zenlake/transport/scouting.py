# SPDX-License-Identifier: Apache-2.0
"""Who is there? SCOUT goes out in rounds, HELLO comes back. Sans-IO: datagrams and `now` in, datagrams out.

A `Scouter` asks until it is stopped: at once, then after 1, 2, 4 and 8 seconds, and every 8. A `Responder` answers
those who ask for its role. Neither checks the version byte: the mismatch shows at INIT (companion scouting.md).
"""

from collections.abc import Callable, Sequence

from zenlake.errors import DecodeError
from zenlake.values import WhatAmI, WhatAmIMatcher
from zenlake.wire.scouting import Hello, Scout, read_scouting

__all__ = ["Responder", "Scouter"]

FIRST_PERIOD = 1.0
LONGEST_PERIOD = 8.0


class Scouter:
    """The one that asks."""

    def __init__(self, what: WhatAmIMatcher, now: float) -> None:
        self.what = what
        self._scout = Scout(what=what.to_wire()).encode()
        self._next = now
        self._period = FIRST_PERIOD

    def data(self, now: float) -> bytes | None:
        """The datagram to send to the group now, if it is time."""
        if now < self._next:
            return None
        self._next = now + self._period
        self._period = min(2 * self._period, LONGEST_PERIOD)
        scout: bytes = self._scout
        return scout

    def receive(self, datagram: bytes) -> Hello | None:
        """A HELLO of a role that was asked for; anything else is nobody's fault and nothing to us."""
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
    """The one that answers. `locators` tells where we can be reached, given whether the asker is on this machine.

    Where it cannot reach us it hears nothing: a HELLO without locators means the address that it comes from.
    """

    def __init__(self, zid: bytes, whatami: WhatAmI, locators: Callable[[bool], Sequence[str]]) -> None:
        self._zid = zid
        self._whatami = whatami
        self._locators = locators

    def answer(self, datagram: bytes, from_here: bool) -> bytes | None:
        """The HELLO for this SCOUT, or None if it is not for us."""
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
