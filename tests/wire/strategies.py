# SPDX-License-Identifier: Apache-2.0
"""Random messages of every kind, from Python values, with every extension and with unknown optional ones."""

from collections import defaultdict

from hypothesis import strategies as st

from zenlake.core.encoding import Encoding
from zenlake.core.identifiers import EntityGlobalId, SourceInfo, Timestamp, ZenohId
from zenlake.wire.declare import (
    Declare,
    DeclareEntity,
    DeclareFinal,
    DeclareKeyExpr,
    Interest,
    UndeclareEntity,
    UndeclareKeyExpr,
)
from zenlake.wire.handshake import Close, Init, Join, Open
from zenlake.wire.network import Oam, Push, Request, Response, ResponseFinal
from zenlake.wire.scouting import Hello, Scout
from zenlake.wire.transport import Fragment, Frame, KeepAlive, TransportOam
from zenlake.wire.writer import WireWriter
from zenlake.wire.zenoh_body import Del, Err, Put, Query, Reply


def up_to(most):
    """Numbers, small ones and those at the edges more often: a VLE grows by a byte at each seventh bit."""
    edges = [n for bits in range(7, 64, 7) for n in ((1 << bits) - 1, 1 << bits) if n <= most]
    return st.sampled_from([0, 1, most, *edges]) | st.integers(0, most)


u8 = up_to(0xFF)
u16 = up_to(0xFFFF)
u32 = up_to(0xFFFFFFFF)
u64 = up_to((1 << 64) - 1)
flag = st.booleans()
data = st.binary(max_size=20)
maybe_data = st.none() | data
text = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
zid = st.binary(min_size=1, max_size=16).filter(any)
zenoh_id = zid.map(ZenohId.from_wire)
timestamp = st.builds(Timestamp.from_wire, u64, zid)
encoding = st.builds(Encoding.from_wire, up_to(0x7FFFFFFF), st.none() | st.binary(max_size=255))
entity = st.builds(EntityGlobalId, zenoh_id, u32)
source = st.builds(SourceInfo, entity, u32)
key = st.tuples(u16, flag, st.none() | text)
sender_key = st.tuples(u16, st.just(False), st.none() | text)  # D_KEYEXPR has no M flag


def chain(known):
    """Optional extensions that a message with these known ones does not know, or None."""
    headers = [enc << 5 | number for enc in range(3) for number in range(16) if enc << 5 | number not in known]
    one = st.tuples(st.sampled_from(headers), u64, data)
    return st.none() | st.lists(one, min_size=1, max_size=3).map(chained)


def chained(extensions):
    out = b""
    for i, (header, number, content) in enumerate(extensions):
        w = WireWriter()
        if header & 0x60 == 0x20:
            w.z64("value", number)
        elif header & 0x60 == 0x40:
            w.z64("length", len(content))
        payload = w.to_bytes() + (content if header & 0x60 == 0x40 else b"")
        out += bytes((header | (0x80 if i + 1 < len(extensions) else 0),)) + payload
    return out


COVERED = defaultdict(set)  # the fields that the strategies below fill, by class


def built(cls, known=None, /, **values):
    """Messages of a class, with extensions and without any. `known`: where its extensions depend on its fields."""
    extensions = {*cls.EXTS.values(), *(("encoding",) if cls is Query else ())}  # a query's encoding is its body's
    bare = {name: value for name, value in values.items() if name not in extensions or name == "shm"}
    values["unknown_exts"] = chain(cls.EXTS if known is None else known)
    COVERED[cls].update(values)
    return (st.fixed_dictionaries(values) | st.fixed_dictionaries(bare)).map(lambda fields: cls(**fields))


plain_node = {"version": u8, "whatami": st.integers(0, 2), "zid": zid}
node = {**plain_node, "sized": st.just(True), "resolution": u8, "batch_size": u16}
common = {"qos": u8, "network_timestamp": st.none() | timestamp}

init_exts = {
    "qos": flag, "qos_link": u64, "shm": maybe_data, "auth": maybe_data, "multilink": maybe_data, "low_latency": flag,
    "compression": flag, "patch": u8, "region": st.none() | st.text("ab/", max_size=32).map(str.encode),
}  # fmt: skip
init = st.one_of(
    built(Init, ack=st.just(ack), **({"cookie": data} if ack else {}), **sizes, **init_exts)
    for ack in (False, True)
    for sizes in (node, plain_node)
)
open_exts = {
    "qos": flag, "shm": maybe_data, "shm_number": st.just(-1) | u32, "auth": maybe_data, "multilink": maybe_data,
    "multilink_ack": flag, "low_latency": flag, "compression": flag, "remote_bound": st.just(-1) | u8,
}  # fmt: skip
opening = {"seconds": flag, "lease": u64, "initial_sn": u64}
open_ = built(Open, ack=st.just(False), cookie=data, **opening, **open_exts) | built(
    Open, ack=st.just(True), **opening, **open_exts
)
lanes = st.none() | st.lists(st.tuples(u64, u64), min_size=8, max_size=8)
join = st.one_of(
    built(
        Join,
        seconds=flag,
        lease=u64,
        reliable_sn=u64,
        best_effort_sn=u64,
        lanes=lanes,
        shm=maybe_data,
        patch=u8,
        **sizes,
    )
    for sizes in (node, plain_node)
)
close = built(Close, session=flag, reason=u8)
keep_alive = built(KeepAlive)
frame = built(Frame, reliable=flag, sn=u64, priority=st.integers(0, 7))
fragment = built(
    Fragment, reliable=flag, more=flag, sn=u64, priority=st.integers(0, 7), first=flag, drop=flag, payload=data
)
oam_body = st.none() | u64 | data
transport_oam = built(TransportOam, id=u16, priority=st.integers(0, 7), body=oam_body)

slices = st.lists(st.tuples(st.integers(0, 1), data), max_size=3).map(
    lambda some: bytes((len(some),)) + b"".join(bytes((kind, len(part))) + part for kind, part in some)
)
stamped = {"timestamp": st.none() | timestamp, "source": st.none() | source}
put = built(Put, encoding=encoding, attachment=maybe_data, payload=data, **stamped) | built(
    Put, shm=st.just(True), slices=slices, payload=st.none(), **stamped
)
delete = built(Del, attachment=maybe_data, **stamped)
asked = {"consolidation": u8, "parameters": st.none() | text.map(str.encode), "source": st.none() | source}
query = st.one_of(
    built(Query, encoding=encoding, body=data, attachment=maybe_data, **asked),
    built(Query, shm=st.just(True), encoding=encoding, body=slices, attachment=maybe_data, **asked),
    built(Query, attachment=maybe_data),
)
reply = built(Reply, consolidation=u8, body=put | delete)
err = built(Err, encoding=encoding, source=st.none() | source, payload=data) | built(
    Err, shm=st.just(True), encoding=encoding, payload=data
)

stack = {"timestamp_stack": maybe_data}
push = built(Push, key=key, node_id=u16, body=put | delete, **common, **stack)
request = built(
    Request, id=u32, key=key, node_id=u16, target=st.integers(0, 2), budget=u32, timeout=st.none() | u64, body=query,
    **common, **stack,
)  # fmt: skip
response = built(Response, id=u32, key=key, responder=st.none() | entity, body=reply | err, **common, **stack)
response_final = built(ResponseFinal, id=u32, **common)
oam = built(Oam, id=u16, body=oam_body, **common)

declare_keyexpr = built(DeclareKeyExpr, id=st.integers(1, 0xFFFF), key=sender_key)
undeclare_keyexpr = built(UndeclareKeyExpr, id=u16)
declare_entity = built(DeclareEntity, kind=st.just(4), id=u32, key=key, info=u64) | st.one_of(
    built(DeclareEntity, (), kind=st.just(kind), id=u32, key=key) for kind in (2, 6)
)
undeclare_entity = built(UndeclareEntity, kind=st.sampled_from((3, 5, 7)), id=u32, key=st.none() | key)
declare_final = built(DeclareFinal)
declaration = declare_keyexpr | undeclare_keyexpr | declare_entity | undeclare_entity | declare_final
declare = built(Declare, interest_id=st.none() | u32, node_id=u16, body=declaration, **common)
interest = built(Interest, mode=st.just(0), id=u32, node_id=u16, **common) | built(
    Interest, mode=st.integers(1, 3), id=u32, options=u8, key=st.none() | key, node_id=u16, **common
)

scout = built(Scout, version=u8, what=st.integers(0, 7), zid=st.none() | zid)
hello = built(Hello, version=u8, whatami=st.integers(0, 2), zid=zid, locators=st.lists(text, max_size=3))

TRANSPORT = {
    TransportOam: transport_oam, Init: init, Open: open_, Close: close, KeepAlive: keep_alive, Frame: frame,
    Fragment: fragment, Join: join,
}  # fmt: skip
NETWORK = {
    Interest: interest, ResponseFinal: response_final, Response: response, Request: request, Push: push,
    Declare: declare, Oam: oam,
}  # fmt: skip
DATA = {Put: put, Del: delete, Query: query, Reply: reply, Err: err}
DECLARATIONS = {
    DeclareKeyExpr: declare_keyexpr, UndeclareKeyExpr: undeclare_keyexpr, DeclareEntity: declare_entity,
    UndeclareEntity: undeclare_entity, DeclareFinal: declare_final,
}  # fmt: skip
SCOUTING = {Scout: scout, Hello: hello}
EVERY = {**TRANSPORT, **NETWORK, **DATA, **DECLARATIONS, **SCOUTING}
