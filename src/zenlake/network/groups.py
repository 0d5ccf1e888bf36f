# SPDX-License-Identifier: Apache-2.0
"""A multicast group, as 1.10.2 takes it: every sample goes to it, wanted or not, once for all members; every member is heard.

A group has two sides. What we say is for all: one face (`All`) that hears every sample. What is said comes from one: each
member has a face of its own (`Member`), with its own key ids. Who joins later is not told again what was declared before,
so declarations say nothing about a group, and no query, token or interest goes through it.
"""

from typing import Any

from zenlake.network.face import Face, Outlet
from zenlake.values import WhatAmI
from zenlake.wire import ids

__all__ = ["All", "Member"]


class All(Face):
    """Everybody in a group, listening."""

    hears_all = True

    def __init__(self, outlet: Outlet, own: WhatAmI) -> None:
        super().__init__(outlet, b"", own, WhatAmI.PEER)

    def final(self, interest_id: int) -> None:
        """Nobody waits for the end of what we declare."""


class Member(Face):
    """One of a group, speaking."""

    def __init__(self, outlet: Outlet, zid: bytes, own: WhatAmI, whatami: WhatAmI) -> None:
        super().__init__(outlet, zid, own, whatami)

    def takes(self, kind: int, reader: Any) -> bool:
        """Samples, which do not come this way, and what their keys are called."""
        return kind == ids.DECLARE and reader.declare.body_id in (ids.D_KEYEXPR, ids.U_KEYEXPR)
