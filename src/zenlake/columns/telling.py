# SPDX-License-Identifier: Apache-2.0
"""What rare messages say, in words: the `detail` of rows that people read. Not for the loop over samples."""

import json
from typing import Any

from zenlake.errors import CloseReason
from zenlake.values import WhatAmI, ZenohId

__all__ = ["agreed", "node", "reason", "told"]


def zid_text(zid: bytes) -> str:
    return str(ZenohId.from_wire(zid))


def node(message: Any) -> str:
    """Who speaks, of an INIT, a JOIN or a HELLO."""
    role = WhatAmI.from_wire(message.whatami)
    return f"{role} {zid_text(message.zid.value)} version {message.version}"


def told(message: Any) -> str:
    """A scouting message in words."""
    if message.NAME == "HELLO":
        return f"{node(message)} at {', '.join(message.locators) or 'no address'}"
    roles = [name for bit, name in ((1, "router"), (2, "peer"), (4, "client")) if message.what & bit]
    return f"looking for {' or '.join(roles) or 'nobody'}"


def reason(code: int) -> str:
    return CloseReason(code).name if code in list(CloseReason) else f"reason {code}"


def agreed(session: Any) -> str:
    """What a session's two ends agreed on, as JSON; an end whose INIT was not recorded has neither id nor role."""
    ends = [
        {
            "zid": None if side.zid is None else zid_text(side.zid),
            "whatami": None if side.zid is None else str(WhatAmI.from_wire(side.whatami)),
            "lease_ms": side.lease_ms,
            "initial_sn": side.initial_sn,
        }
        for side in (session.sides[:1] if session.is_multicast else session.sides)
    ]
    return json.dumps(
        {
            "generation": session.generation,
            "version": session.version,
            "resolution": session.resolution,
            "batch_size": session.batch_size,
            "qos": bool(session.qos),
            "low_latency": bool(session.low_latency),
            "compression": bool(session.compression),
            "patch": session.patch,
            "ends": ends,
        }
    )
