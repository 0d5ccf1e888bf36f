# SPDX-License-Identifier: Apache-2.0
"""Link states, the body of OAM 1: addresses of peers, and the graph of routers.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    %     count     %   then for each node:
    +---------------+
    %    options    %   1 zid, 2 whatami, 4 locators, 8 weights, 0x10 gateway (a mark without a field)
    +---------------+
    %     psid      %   the sender's own number for that node; the sender itself is 0
    +---------------+
    %      sn       %   of this entry: a higher one replaces it
    +---------------+
    ~      zid      ~   if options & 1: <u8;z8>
    +---------------+
    |    whatami    |   if options & 2: 1 router, 2 peer, 4 client: not the code that INIT uses (divergence B13)
    +---------------+
    ~   locators    ~   if options & 4: a VLE count, then <utf8;z8> each
    +---------------+
    ~     links     ~   a VLE count, then the psid of each neighbour
    +---------------+
    ~    weights    ~   if options & 8: z16 for each link, no count
    +---------------+

All known options are listed. A newer option may have no field, as the gateway bit. An unknown bit is therefore stored. If it
has a field, decoding fails at a later byte.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from zenlake.core.enums import WhatAmI
from zenlake.core.identifiers import ZenohId
from zenlake.errors import DecodeError, EncodeError
from zenlake.wire.cursor import Blob, Cursor
from zenlake.wire.writer import WireWriter

__all__ = ["OAM_ID", "LinkState", "decode", "encode", "read"]

OAM_ID = 1

ZID = 0x01
WHATAMI = 0x02
LOCATORS = 0x04
WEIGHTS = 0x08
GATEWAY = 0x10
KNOWN = 0x1F


@dataclass(frozen=True, slots=True)
class LinkState:
    """One node, as seen by the sender. None: not sent, because the receiver has the value already, by `psid`."""

    psid: int
    sn: int
    zid: ZenohId | None = None
    whatami: WhatAmI | None = None
    locators: tuple[str, ...] | None = None
    links: tuple[int, ...] = ()
    weights: tuple[int, ...] | None = None
    gateway: bool = False
    unknown_options: int = 0

    @property
    def marks(self) -> tuple[bool, int]:
        """Return the options without a field: (gateway, unknown_options). A node forwards them unchanged."""
        return self.gateway, self.unknown_options


def read(c: Cursor) -> tuple[LinkState, ...]:
    """Decode the entries from a cursor that ends with them. An impossible count fails at that end before memory is allocated."""
    one = c.span()
    nodes = []
    for _ in range(c.z64("count")):
        nodes.append(_read_node(c, one))
    if c.at != c.end:
        raise DecodeError("LINKSTATE.end", c.at, f"{c.end - c.at} bytes left over")
    return tuple(nodes)


def _read_node(c: Cursor, one: Blob) -> LinkState:
    options = c.z64("options")
    psid = c.z64("psid")
    sn = c.z64("sn")
    zid = whatami = locators = weights = None
    if options & ZID:
        c.zid("zid", one, c.z8("zid_len"))
        zid = ZenohId.from_wire(one.value)
    if options & WHATAMI:
        whatami = _read_role(c)
    if options & LOCATORS:
        locators = tuple(_read_text(c, one) for _ in range(c.z64("locators")))
    links = tuple(c.z64("links") for _ in range(c.z64("links")))
    if options & WEIGHTS:
        weights = tuple(c.z16("weights") for _ in links)
    return LinkState(psid, sn, zid, whatami, locators, links, weights, options & GATEWAY != 0, options & ~KNOWN)


def _read_role(c: Cursor) -> WhatAmI:
    code = c.u8("whatami")
    if code not in (1, 2, 4):
        raise DecodeError("LINKSTATE.whatami", c.at - 1, f"{code} is not 1 (router), 2 (peer) or 4 (client)")
    return WhatAmI(code)


def _read_text(c: Cursor, one: Blob) -> str:
    c.text("locators", one, 0xFF)
    return str(one.text)


def decode(body: bytes) -> tuple[LinkState, ...]:
    """Decode the body of an OAM with id 1."""
    return read(Cursor(body, 0, None, "LINKSTATE"))


def encode(nodes: Iterable[LinkState]) -> bytes:
    """Encode the body of an OAM with id 1."""
    nodes = tuple(nodes)
    w = WireWriter(256, "LINKSTATE")
    w.z64("count", len(nodes))
    for node in nodes:
        _write_node(w, node)
    return w.to_bytes()


def _write_node(w: WireWriter, node: LinkState) -> None:
    if node.weights is not None and len(node.weights) != len(node.links):
        raise EncodeError("LINKSTATE.weights", f"{len(node.weights)} weights for {len(node.links)} links")
    options = node.unknown_options & ~KNOWN
    options |= ZID if node.zid is not None else 0
    options |= WHATAMI if node.whatami is not None else 0
    options |= LOCATORS if node.locators is not None else 0
    options |= WEIGHTS if node.weights is not None else 0
    options |= GATEWAY if node.gateway else 0
    w.z64("options", options)
    w.z64("psid", node.psid)
    w.z64("sn", node.sn)
    if node.zid is not None:
        w.blob("zid", Blob(node.zid.to_wire()))
    if node.whatami is not None:
        w.u8("whatami", node.whatami)
    if node.locators is not None:
        w.z64("locators", len(node.locators))
        for locator in node.locators:
            w.short_blob("locators", Blob(locator.encode()), 0xFF)
    w.z64("links", len(node.links))
    for psid in node.links:
        w.z64("links", psid)
    for weight in node.weights or ():
        w.z16("weights", weight)
