# SPDX-License-Identifier: Apache-2.0
"""Descriptions of rare messages: rows of `declarations`, and the column `detail`. Not used per sample."""

import json
from typing import Any

from zenlake.core.enums import WhatAmI
from zenlake.core.identifiers import ZenohId
from zenlake.core.releases import likely_release
from zenlake.errors import CloseReason
from zenlake.wire import message_ids

__all__ = [
    "describe_terms",
    "describe_declaration",
    "describe_fragment",
    "describe_interest",
    "entity_name",
    "node",
    "close_reason_name",
    "describe_message",
]

ENTITIES = {2: "subscriber", 4: "queryable", 6: "token"}
MODES = {1: "current", 2: "future", 3: "both"}
WANTS = ((0x01, "K"), (0x02, "S"), (0x04, "Q"), (0x08, "T"), (0x80, "A"))


def zid_text(zid: bytes) -> str:
    return str(ZenohId.from_wire(zid))


def node(message: Any) -> str:
    """Return the node of an INIT, JOIN or HELLO."""
    role = WhatAmI.from_wire(message.whatami)
    return f"{role} {zid_text(message.zid.value)} version {message.version}"


def describe_message(message: Any) -> str:
    """Describe a scouting message."""
    if message.NAME == "HELLO":
        return f"{node(message)} at {', '.join(message.locators) or 'no address'}"
    roles = [name for bit, name in ((1, "router"), (2, "peer"), (4, "client")) if message.what & bit]
    return f"looking for {' or '.join(roles) or 'no role'}"


def describe_fragment(fragment: Any) -> str | None:
    """Return the position of a fragment in its message, or None for those between the first and the last one."""
    parts = [
        name
        for name, is_so in (("first", fragment.first), ("last", not fragment.more), ("dropped", fragment.drop))
        if is_so
    ]
    return ", ".join(parts) or None


def close_reason_name(code: int) -> str:
    return CloseReason(code).name if code in list(CloseReason) else f"reason {code}"


def describe_terms(session: Any) -> str:
    """Return the negotiated parameters as JSON. A side whose INIT was not recorded has no id and role."""
    ends = [
        {
            "zid": None if side.zid is None else zid_text(side.zid),
            "whatami": None if side.zid is None else str(WhatAmI.from_wire(side.whatami)),
            "lease_ms": side.lease_ms,
            "initial_sn": side.initial_sn,
            **({} if (release := likely_release(side.traits, number == 0)) is None else {"release": release}),
        }
        for number, side in enumerate(session.sides[:1] if session.is_multicast else session.sides)
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


def describe_declaration(session: Any, direction: int, declare: Any) -> dict[str, Any]:
    """Return a DECLARE as a row of `declarations`."""
    body = declare.body
    row = {"action": "final", "kind": None, "interest_id": declare.interest_id}
    if declare.body_id == message_ids.D_KEYEXPR:
        row |= {"action": "declare", "kind": "key", "id": body.id, **key_column(session, direction, body.key)}
    elif declare.body_id == message_ids.U_KEYEXPR:
        row |= {"action": "undeclare", "kind": "key", "id": body.id}
    elif declare.body_id != message_ids.D_FINAL:
        row |= {"kind": ENTITIES[declare.body_id & 6], "id": body.id}
        if declare.body_id & 1:
            row["action"] = "undeclare"
            if body.has_key and (body.wire_expr.scope or body.wire_expr.suffix.size > 0):
                row |= key_column(session, direction, body.wire_expr)
        else:
            row |= {"action": "declare", **key_column(session, direction, body.key)}
            if declare.body_id == message_ids.D_QUERYABLE:
                row |= {"complete": body.info & 1, "distance": body.info >> 8 & 0xFFFF}
    return row


def entity_name(row: dict[str, Any]) -> str:
    """Return the specification's name of the body of a DECLARE."""
    if not row["kind"]:
        return "D_FINAL"
    entity = "KEYEXPR" if row["kind"] == "key" else row["kind"].upper()
    return ("D_" if row["action"] == "declare" else "U_") + entity


def describe_interest(session: Any, direction: int, interest: Any) -> dict[str, Any]:
    """Return an INTEREST as a row of `declarations`."""
    if not interest.mode:
        return {"action": "end", "id": interest.id}
    wants = "".join(letter for bit, letter in WANTS if interest.options & bit)
    row = {"action": "interest", "id": interest.id, "mode": MODES[interest.mode], "wants": wants}
    if interest.key is not None:
        row |= key_column(session, direction, interest.wire_expr)
    return row


def key_column(session: Any, direction: int, expr: Any) -> dict[str, str]:
    """Return the key column and its value."""
    key = session.key(direction, expr)
    return {"unresolved_key": f"{expr.scope}:{expr.suffix.text or ''}"} if key is None else {"key": key}
