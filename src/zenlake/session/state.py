# SPDX-License-Identifier: Apache-2.0
"""State of one session: two sides, negotiated parameters, and the position of each side.

The state covers both directions: a key id with M=0 refers to the table of the other direction, and a proposal applies
only after the reply. Messages must be passed in order of receipt.
"""

import cython
from cython.cimports.zenlake.session.key_table import KeyMemory, KeyTable
from cython.cimports.zenlake.session.lanes import Lanes

from zenlake.core.releases import REGION, SHM, SHM_BYTES, SHM_NUMBER, SIZED
from zenlake.session.lanes import mask_of

OPENER = cython.declare(cython.int, 0)

FORMAT = 1


class Side:
    """One side: identity, declared key ids, and transmit lanes."""

    def __init__(self):
        self.zid = None
        self.whatami = -1
        self.lease_ms = 0
        self.initial_sn = -1
        self.remote_bound = -1  # where it places the other end: 0 north, 1 south, -1 not stated
        self.traits = 0  # of its handshake: see zenlake.core.releases
        self.keys = KeyTable()
        self.lanes = Lanes()


class SessionState:
    """Both sides. Side 0 opened the session (it sent the InitSyn), side 1 accepted it.

    Sessions that share a `memory` share its limit. A session with `keys_dropped` accepts no key ids until its next handshake.
    """

    def __init__(self, name="", memory=None):
        self.name = name
        self.memory = KeyMemory() if memory is None else memory
        self.opener = None
        self.generation = 0
        self.is_scouting = False
        self.is_multicast = False
        self.forget()

    def forget(self):
        """Reset to the state before the handshake."""
        if self.opener is not None:
            self.memory.used -= self.key_cost()
        self.keys_dropped = False
        self.opener = Side()
        self.acceptor = Side()
        self.sides = [self.opener, self.acceptor]
        self.version = 9
        self.resolution = 0x0A
        self.batch_size = 65535
        self.qos = True
        self.low_latency = False
        self.compression = False
        self.patch = 1
        self.is_open = False
        self.offer = None

    # The handshake, as seen by either side or an observer

    def init(self, direction, init):
        """Handle an INIT. An InitSyn proposes. An InitAck decides: smaller resolution and batch size, common features."""
        if not init.ack:
            self.forget()
            self.generation += 1
        side = self.sides[direction]
        side.zid = init.zid.value
        side.whatami = init.whatami
        side.traits = (
            (SIZED if init.sized else 0) | (SHM if init.shm.size >= 0 else 0) | (REGION if init.region.size >= 0 else 0)
        )
        theirs = {
            "resolution": init.resolution & 0x0F,
            "batch_size": init.batch_size,
            "qos": bool(init.qos or init.qos_link & 7),
            "low_latency": init.low_latency != 0,
            "compression": init.compression != 0,
            "patch": init.patch,
        }
        if not init.ack or self.offer is None:
            self.offer = theirs
        mine = self.offer
        self.version = init.version
        self.resolution = min(mine["resolution"] & 0x03, theirs["resolution"] & 0x03) | min(
            mine["resolution"] & 0x0C, theirs["resolution"] & 0x0C
        )
        self.batch_size = min(mine["batch_size"], theirs["batch_size"])
        self.qos = mine["qos"] and theirs["qos"]
        self.low_latency = mine["low_latency"] and theirs["low_latency"]
        self.compression = mine["compression"] and theirs["compression"]
        self.patch = min(mine["patch"], theirs["patch"])
        self.apply_negotiation()

    def apply_negotiation(self):
        """Apply the negotiated parameters to the lanes."""
        for side in self.sides:
            side.lanes.mask = mask_of(self.resolution)
            side.lanes.patch = self.patch

    def on_open(self, direction, open):
        """Handle an OPEN: the initial numbers of the sender's lanes. Return True if it opened the session."""
        side = self.sides[direction]
        side.lease_ms = open.lease_ms
        side.initial_sn = open.initial_sn & side.lanes.mask  # a number out of range is accepted, as in real nodes
        side.remote_bound = open.remote_bound
        if open.shm_number >= 0:
            side.traits |= SHM_NUMBER
        if open.shm.size >= 0:
            side.traits |= SHM_BYTES
        if open.remote_bound >= 0:
            side.traits |= REGION
        side.lanes.start(side.initial_sn)
        self.is_open = self.is_open or open.ack != 0
        return open.ack != 0

    def on_join(self, join):
        """Handle a JOIN. In a multicast group every sender is a session with one side. Return True for its first JOIN."""
        side = self.sides[OPENER]
        zid = join.zid.value
        first = side.zid != zid or not self.is_open
        if first:
            self.forget()
            self.generation += 1
            side = self.sides[OPENER]
        side.zid = zid
        side.whatami = join.whatami
        side.lease_ms = join.lease_ms
        self.is_multicast = True
        self.is_open = True
        self.resolution = join.resolution & 0x0F
        self.batch_size = join.batch_size
        self.qos = join.lanes is not None
        self.patch = join.patch
        self.apply_negotiation()
        if first:
            lanes = join.lanes or [(join.reliable_sn, join.best_effort_sn)] * 8
            for priority, (reliable, best_effort) in enumerate(lanes):
                side.lanes.start_lane(priority, True, reliable)
                side.lanes.start_lane(priority, False, best_effort)
        return first

    def on_close(self):
        self.is_open = False

    # Key expressions

    def key_table(self, direction, sender):
        """Return the side whose ids a message of this direction uses: the sender (M=1) or the receiver (M=0)."""
        return self.opener.keys if (direction == OPENER) == (sender != 0) else self.acceptor.keys

    def key(self, direction, expr):
        """Return the full key expression of a message as text, or None if its id is not declared."""
        suffix = expr.suffix.value or b""
        if expr.scope == 0:
            return suffix.decode()
        prefix = self.key_table(direction, expr.sender).get(expr.scope)
        return None if prefix is None else (prefix + suffix).decode()

    def declare_key(self, direction, id, expr):
        """Handle a D_KEYEXPR. It has no M flag, which real nodes read as 0 (divergence A13). Return whether the id has this key."""
        key = self.key(direction, expr)
        if key is None:
            return False
        text = key.encode()
        side: Side = self.sides[direction]
        before: cython.Py_ssize_t = side.keys.cost()
        if not side.keys.contains(id):
            if self.keys_dropped or before + len(text) > self.memory.table_limit:
                return False
            if self.memory.used + len(text) > self.memory.limit:
                self.memory.refused += 1
                return False
        is_meant = side.keys.declare(id, text)
        self.memory.used += side.keys.cost() - before
        return is_meant

    def forget_key(self, direction, id):
        side: Side = self.sides[direction]
        before: cython.Py_ssize_t = side.keys.cost()
        side.keys.forget(id)
        self.memory.used += side.keys.cost() - before

    def set_key(self, direction, id, key):
        """Set the key of an id (bytes), or remove the id (None), without regard to its previous key and to the limits."""
        self.forget_key(direction, id)
        side: Side = self.sides[direction]
        before: cython.Py_ssize_t = side.keys.cost()
        if key is not None:
            side.keys.declare(id, key)
        self.memory.used += side.keys.cost() - before

    def key_cost(self):
        """Return the bytes that the key ids of both sides use."""
        return self.opener.keys.cost() + self.acceptor.keys.cost()

    def drop_keys(self):
        """Forget all key ids, and accept no more of them until the next handshake."""
        self.memory.used -= self.key_cost()
        for side in self.sides:
            side.keys = KeyTable()
        self.keys_dropped = True

    def charge_to(self, memory):
        """Charge the key ids to another memory, which other sessions may share."""
        self.memory.used -= self.key_cost()
        self.memory = memory
        self.memory.used += self.key_cost()

    # Save and restore

    def terms(self):
        """Return identities and negotiated parameters, without keys and lanes."""
        return {
            "format": FORMAT,
            "name": self.name,
            "generation": self.generation,
            "version": self.version,
            "resolution": self.resolution,
            "batch_size": self.batch_size,
            "qos": bool(self.qos),
            "low_latency": bool(self.low_latency),
            "compression": bool(self.compression),
            "patch": self.patch,
            "is_open": bool(self.is_open),
            "is_multicast": bool(self.is_multicast),
            "is_scouting": bool(self.is_scouting),
            "offer": self.offer,
            "sides": [
                {
                    "zid": side.zid,
                    "whatami": side.whatami,
                    "lease_ms": side.lease_ms,
                    "initial_sn": side.initial_sn,
                    "traits": side.traits,
                }
                for side in self.sides
            ],
        }

    def save(self):
        """Return the whole state as numbers, text and bytes."""
        saved = {**self.terms(), "keys_dropped": bool(self.keys_dropped)}
        for side, of in zip(self.sides, saved["sides"], strict=True):
            of["keys"] = side.keys.save()
            of["lanes"] = side.lanes.save()
        return saved

    @classmethod
    def restore(cls, saved, memory=None):
        """Restore a saved session."""
        if saved["format"] != FORMAT:
            raise ValueError(f"saved session has format {saved['format']}; expected {FORMAT}")
        session = cls(saved["name"], memory)
        for name in (
            "generation", "version", "resolution", "batch_size", "qos", "low_latency", "compression", "patch",
            "is_open", "is_multicast", "is_scouting", "offer",
        ):  # fmt: skip
            setattr(session, name, saved[name])
        session.apply_negotiation()
        session.keys_dropped = saved.get("keys_dropped", False)
        for direction, (side, of) in enumerate(zip(session.sides, saved["sides"], strict=True)):
            side.zid = of["zid"]
            side.whatami = of["whatami"]
            side.lease_ms = of["lease_ms"]
            side.initial_sn = of["initial_sn"]
            side.traits = of.get("traits", 0)
            for id, key in of["keys"].items():
                session.set_key(direction, int(id), key)
            side.lanes.restore(of["lanes"])
        return session
