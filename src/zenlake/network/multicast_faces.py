# SPDX-License-Identifier: Apache-2.0
"""Multicast groups, as in 1.10.2: every sample is sent once to all members, and every member is received.

A group has two kinds of faces. `MulticastGroupFace` represents the members as receivers: it receives every sample.
`MulticastMemberFace` represents one member as a sender, with its own key ids. Declarations are not repeated for members that
join later. So declarations have no effect on a group, and queries, tokens and interests do not pass through it.

A router forwards between a group and its other faces. If several connected routers are members, the group is like a peer that is
connected to all of them (`gateways`): each serves its own clients and peers, and one of them serves all other routers.
Routers do not receive from each other through a group, so no message circulates.
"""

from typing import Any

from zenlake.core.enums import WhatAmI
from zenlake.network.face import Face, TxHandle
from zenlake.network.roles import MULTICAST
from zenlake.wire import message_ids

__all__ = ["MulticastGroupFace", "MulticastMemberFace"]


class MulticastGroupFace(Face):
    """All members of a group, as one receiver."""

    receives_all_samples = True

    def __init__(self, tx: TxHandle, own: WhatAmI) -> None:
        super().__init__(tx, b"", own, WhatAmI.PEER)
        if own is WhatAmI.ROUTER:
            self.group = MULTICAST

    def send_final(self, interest_id: int) -> None:
        """Do nothing: no member waits for the end of our declarations."""


class MulticastMemberFace(Face):
    """One member of a group, as a sender."""

    def __init__(self, tx: TxHandle, zid: bytes, own: WhatAmI, whatami: WhatAmI) -> None:
        super().__init__(tx, zid, own, whatami)
        if own is WhatAmI.ROUTER:
            self.group = MULTICAST

    def accepts(self, kind: int, reader: Any) -> bool:
        """Return whether a message is accepted: declarations of keys only. Samples take another path."""
        return kind == message_ids.DECLARE and reader.declare.body_id in (message_ids.D_KEYEXPR, message_ids.U_KEYEXPR)
