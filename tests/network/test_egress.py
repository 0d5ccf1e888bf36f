# SPDX-License-Identifier: Apache-2.0
"""Access control of everything that leaves a node, whatever role the neighbour claims."""

from typing import Any

import pytest

from tests.network.mesh import CLIENT, PEER, ROUTER, Hand, Mesh
from zenlake.core.enums import WhatAmI
from zenlake.core.identifiers import ZenohId
from zenlake.network.access_control import EGRESS, INGRESS, FaceAccess, Rule
from zenlake.network.face import AGGREGATE, DECLARATION_NAMES, KINDS, RESTRICTED, name_interest
from zenlake.network.node import Node
from zenlake.wire import linkstate
from zenlake.wire.declare import Declare, DeclareEntity, DeclareFinal, Interest, UndeclareEntity
from zenlake.wire.linkstate import LinkState
from zenlake.wire.network import Oam, Push, Request, Response, ResponseFinal
from zenlake.wire.zenoh_body import Del, Err, Put, Query, Reply

SUB, QBL, TOK = 2, 4, 6
MESSAGES = [
    *DECLARATION_NAMES.values(), "put", "delete", "query", "reply", "liveliness_query", "declare_liveliness_subscriber",
]  # fmt: skip
ROLES = [
    (ROUTER, CLIENT), (ROUTER, PEER), (ROUTER, ROUTER), (PEER, CLIENT), (PEER, PEER), (PEER, ROUTER), (CLIENT, ROUTER),
]  # fmt: skip


def guard(*keys: str, default: bool = False, allow: bool = True) -> FaceAccess:
    """Return a guard with one rule on what leaves. Everything may come in."""
    ingress = [Rule(True, INGRESS, message, b"**") for message in MESSAGES]
    return FaceAccess(
        default, ingress + [Rule(allow, EGRESS, message, key.encode()) for message in MESSAGES for key in keys]
    )


def declare(kind: int, id: int, key: str, interest_id: int | None = None) -> Declare:
    return Declare(interest_id=interest_id, body=DeclareEntity(kind=kind, id=id, key=key))


def join(spy: Hand) -> None:
    """Send the link state of a neighbour that claims to be a router."""
    own, ours = ZenohId.from_wire(spy.face.zid), ZenohId.from_wire(spy.node.zid)
    nodes = [LinkState(0, 10, own, ROUTER, (), (7,)), LinkState(7, 1, ours, ROUTER)]
    spy.say(Oam(id=linkstate.OAM_ID, body=linkstate.encode(nodes)))


def name(message: Any) -> str | None:
    """Return the name of a message in access control, or None if it has no key to judge."""
    body = getattr(message, "body", None)
    if isinstance(message, Push):
        return "put" if isinstance(body, Put) else "delete"
    if isinstance(message, Request):
        return "query"
    if isinstance(message, Response):
        return "reply"
    if isinstance(message, Interest):
        return name_interest(message.mode, message.options) if message.mode else None
    if isinstance(body, DeclareEntity | UndeclareEntity):
        return DECLARATION_NAMES[body.kind & ~1]
    assert isinstance(message, Oam | ResponseFinal) or isinstance(body, DeclareFinal), message
    return None


class Audit:
    """Collects the messages that a spy receives, and judges each of them by the guard."""

    def __init__(self, spy: Hand) -> None:
        self.spy = spy
        self.declared_keys: dict[tuple[int, int], bytes] = {}
        self.seen: set[tuple[str, bytes]] = set()

    def check(self) -> None:
        for message in self.spy.take_sent():
            what = name(message)
            if what is not None:
                key = self._key(message)
                assert self.spy.face.guard is not None
                assert self.spy.face.guard.allows(EGRESS, what, key), message
                self.seen.add((what, key or b""))

    def _key(self, message: Any) -> bytes | None:
        holder = message.body if isinstance(message, Declare) else message
        wire = holder.wire_expr if isinstance(holder, UndeclareEntity | Interest) else holder.key
        key = self.spy.face.resolve(wire.scope, wire.sender != 0, wire.suffix.value) or None
        if isinstance(holder, DeclareEntity) and holder.id and key is not None:
            self.declared_keys[holder.kind, holder.id] = key
        if isinstance(holder, UndeclareEntity) and key is None:  # by id: it must have been declared
            return self.declared_keys[holder.kind - 1, holder.id]
        return key


def busy(mesh: Mesh, node: Node, spy: Hand, staff: Hand, audit: Audit) -> None:
    """Let the application, a neighbour and the spy do everything that makes a node send."""
    application = node.application
    for area in ("secret", "pub"):
        things = [
            application.declare_subscriber(f"{area}/app/s".encode(), None),
            application.declare_token(f"{area}/app/t".encode()),
            application.declare_queryable(f"{area}/app/q".encode(), answer),
        ]
        staff.say(*(declare(kind, kind, f"{area}/staff/{kind}") for kind in KINDS))
        audit.check()
        asked = [None, f"{area}/**", "**", f"{area}/staff/2", f"{area[0]}$*/**"]
        for number, key in enumerate(asked):
            for mode in (1, 2, 3):
                for kinds in (0x02, 0x04, 0x08, 0x0E, 0x02 | AGGREGATE, 0x04 | AGGREGATE, 0x06 | AGGREGATE):
                    options = kinds | (0 if key is None else RESTRICTED)
                    spy.say(Interest(mode=mode, id=1000 * number + 200 * mode + kinds, options=options, key=key))
        audit.check()
        application.declare_liveliness_subscriber(f"{area}/**".encode(), lambda key, alive: None, history=True)
        application.liveliness_get(f"{area}/**".encode(), lambda key: None, lambda late: None)
        for message in staff.take_sent():  # of a neighbour above us: answer what we ask
            if isinstance(message, Interest) and message.mode:
                for kind in KINDS:
                    id = 0 if message.mode == 1 else 70 + kind
                    staff.say(declare(kind, id, f"{area}/current/{kind}", message.id))
                staff.say(Declare(interest_id=message.id, body=DeclareFinal()))
        audit.check()
        spy.say(declare(SUB, 90, "**"), declare(QBL, 91, "**"))
        staff.say(Push(key=f"{area}/x", body=Put(payload=b"v")), Push(key=f"{area}/x", body=Del()))
        application.put(f"{area}/y".encode(), b"v")
        application.get(f"{area}/**".encode(), lambda key, reader: None, lambda: None)
        staff.say(Request(id=50, key=f"{area}/staff/4", body=Query()))
        audit.check()
        staff.take_sent()
        spy.say(Request(id=60 if area == "pub" else 61, key="**", target=1, body=Query()))
        for message in staff.take_sent():
            if isinstance(message, Request):
                staff.say(Response(id=message.id, key=f"{area}/staff/4", body=Reply(body=Put(payload=b"v"))))
                staff.say(Response(id=message.id, key=f"{area}/staff/4", body=Err(payload=b"v")))
                staff.say(Response(id=message.id, key=(0, True, None), body=Err(payload=b"v")))
        audit.check()
        for kind in KINDS:
            staff.say(Declare(body=UndeclareEntity(kind=kind + 1, id=kind)))
        for thing in things:
            thing.undeclare()
        audit.check()
        mesh.pass_time(11)
        audit.check()


def answer(query: Any, reader: Any) -> None:
    query.accepts_any = True
    for area in (b"secret", b"pub"):
        query.reply(area + b"/app/q", b"v")
    query.finish()


@pytest.mark.parametrize(("own", "claimed"), ROLES)
@pytest.mark.parametrize("above", [CLIENT, ROUTER])
@pytest.mark.parametrize(
    "rules", [guard("pub/**"), guard("secret/**", default=True, allow=False)], ids=["allow list", "deny list"]
)
def test_a_message_on_a_denied_key_never_leaves(
    own: WhatAmI, claimed: WhatAmI, above: WhatAmI, rules: FaceAccess
) -> None:
    mesh = Mesh()
    node = mesh.node(own)
    staff = mesh.hand(node, ROUTER if own is CLIENT else above)
    spy = mesh.hand(node, claimed, guard=rules)
    audit = Audit(spy)
    if own is ROUTER and above is ROUTER:
        join(staff)
    if own is claimed is ROUTER:
        join(spy)
    busy(mesh, node, spy, staff, audit)
    assert any(key.startswith(b"pub/") for _, key in audit.seen), "what is allowed still leaves"


def test_a_neighbour_that_claims_to_be_a_router_receives_only_allowed_declarations() -> None:
    """Finding 5: declarations along the trees of routers passed no access control. 1.10.2 sends the second half only."""
    mesh = Mesh()
    node = mesh.node(ROUTER)
    staff = mesh.hand(node)
    staff.say(declare(SUB, 1, "secret/plan/**"), declare(QBL, 2, "secret/ask/**"), declare(TOK, 3, "secret/alive"))
    staff.say(declare(SUB, 4, "pub/**"))
    spy = mesh.hand(node, ROUTER, guard=guard("pub/**"))
    join(spy)
    assert [m.body for m in spy.take_sent() if isinstance(m, Declare)] == [DeclareEntity(kind=SUB, id=0, key="pub/**")]
    staff.say(declare(TOK, 5, "secret/late"), Declare(body=UndeclareEntity(kind=3, id=1)))
    assert spy.take_sent() == []
    staff.say(Declare(body=UndeclareEntity(kind=3, id=4)))
    assert [m.body for m in spy.take_sent()] == [UndeclareEntity(kind=3, id=0, key="pub/**")]


def test_a_router_behind_a_denied_one_gets_no_more_than_it() -> None:
    """A declaration of a far router, passed on along its tree, is judged on each link."""
    mesh = Mesh()
    far, node = mesh.node(ROUTER), mesh.node(ROUTER)
    mesh.link(far, node)
    spy = mesh.hand(node, ROUTER, guard=guard("pub/**"))
    join(spy)
    spy.take_sent()
    far.application.declare_token(b"secret/t")
    far.application.declare_token(b"pub/t")
    mesh.settle()
    assert [m.body.key.suffix.value for m in spy.take_sent() if isinstance(m, Declare)] == [b"pub/t"]


def test_an_answer_to_a_current_interest_is_judged_where_it_leaves() -> None:
    """A reply to a CURRENT interest is passed to the asker and stored nowhere."""
    mesh = Mesh()
    node = mesh.node(PEER)
    router, spy = mesh.hand(node, ROUTER), mesh.hand(node, CLIENT, guard=guard("pub/**"))
    router.take_sent()
    spy.say(Interest(mode=1, id=5, options=0x08 | RESTRICTED, key="**"))
    [asked] = [m for m in router.take_sent() if isinstance(m, Interest)]
    router.say(declare(TOK, 0, "secret/t", asked.id), declare(TOK, 0, "pub/t", asked.id))
    router.say(Declare(interest_id=asked.id, body=DeclareFinal()))
    first, last = spy.take_sent()
    assert first.body == DeclareEntity(kind=TOK, id=0, key="pub/t")
    assert isinstance(last.body, DeclareFinal)


def test_an_aggregate_is_judged_by_its_own_key() -> None:
    """As 1.10.2: an allow list lets an aggregate of an allowed key pass, though the subscriber's key is wider."""
    mesh = Mesh()
    node = mesh.node(ROUTER)
    staff, robot = mesh.hand(node), mesh.hand(node, guard=guard("pub/**"))
    staff.say(declare(SUB, 1, "**"))
    robot.say(Interest(mode=3, id=1, options=0x02 | AGGREGATE | RESTRICTED, key="pub/x"))
    assert [m.body for m in robot.take_sent()] == [DeclareEntity(kind=SUB, id=1, key="pub/x"), DeclareFinal()]
    robot.say(Interest(mode=3, id=2, options=0x02 | AGGREGATE | RESTRICTED, key="**"))
    assert [m.body for m in robot.take_sent()] == [DeclareFinal()]


def test_a_deny_list_hides_a_key_inside_an_aggregate_too() -> None:
    """Stricter than 1.10.2, where aggregates of `s$*/**`, `se$*/**` and so on spell a hidden key out."""
    mesh = Mesh()
    node = mesh.node(ROUTER)
    staff = mesh.hand(node)
    robot = mesh.hand(node, guard=guard("secret/**", default=True, allow=False))
    staff.say(declare(SUB, 1, "secret/x"))
    robot.say(Interest(mode=3, id=1, options=0x02 | AGGREGATE | RESTRICTED, key="se$*/**"))
    assert [m.body for m in robot.take_sent()] == [DeclareFinal()]


def test_an_interest_in_tokens_is_judged_where_it_leaves() -> None:
    mesh = Mesh()
    node = mesh.node(PEER)
    router = mesh.hand(node, ROUTER, guard=guard("pub/**"))
    router.take_sent()
    found: list[bytes] = []
    ended: list[bool] = []
    node.application.liveliness_get(b"secret/**", found.append, ended.append)
    mesh.settle()
    assert (found, ended) == ([], [False]), "not asked, so there is no reply to wait for"
    node.application.liveliness_get(b"pub/**", found.append, ended.append)
    assert [m.key for m in router.take_sent()] == [(0, True, "pub/**")]


@pytest.mark.parametrize("judged", ["the asker", "the queryable"])
@pytest.mark.parametrize(
    "body", [Err(payload=b"e"), Reply(body=Put(payload=b"v"))], ids=["an error", "a reply"]
)  # fmt: skip
def test_a_reply_without_a_key_passes_no_access_control(judged: str, body: Err | Reply) -> None:
    """Finding 20. 1.10.2 stops these in both directions, whatever the rules are."""
    mesh = Mesh()
    node = mesh.node(ROUTER)
    rules = FaceAccess(True, [Rule(False, flow, "reply", b"other/**") for flow in (INGRESS, EGRESS)])
    asker = mesh.hand(node, guard=rules if judged == "the asker" else None)
    queryable = mesh.hand(node, guard=rules if judged == "the queryable" else None)
    queryable.say(declare(QBL, 1, "k"))
    asker.say(Request(id=3, key="k", body=Query()))
    [request] = [m for m in queryable.take_sent() if isinstance(m, Request)]
    queryable.say(Response(id=request.id, key=(0, True, None), body=body), ResponseFinal(id=request.id))
    assert [type(m) for m in asker.take_sent()] == [ResponseFinal]
    assert node.counters["denied: reply"] == 1


def test_the_error_of_a_timeout_has_no_key_and_is_denied() -> None:
    mesh = Mesh()
    node = mesh.node(ROUTER)
    asker, queryable = mesh.hand(node, guard=guard("**")), mesh.hand(node)
    queryable.say(declare(QBL, 1, "k"))
    asker.say(Request(id=3, key="k", body=Query()))
    mesh.pass_time(11)
    assert [type(m) for m in asker.take_sent()] == [ResponseFinal]
