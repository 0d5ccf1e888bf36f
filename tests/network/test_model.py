# SPDX-License-Identifier: Apache-2.0
"""Routing compared with the simplest model: all nodes in one list, all keys compared with all."""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.network.mesh import CLIENT, PEER, ROUTER, Mesh
from zenlake.core.enums import ConsolidationMode
from zenlake.core.keyexpr import canonize, intersects

chunks = st.sampled_from(["a", "b", "*", "**", "a$*", "@v"])
expressions = st.lists(chunks, min_size=1, max_size=3).map(lambda chunks: canonize("/".join(chunks)).encode())
keys = st.lists(st.sampled_from(["a", "b", "ab", "@v"]), min_size=1, max_size=3).map(lambda c: "/".join(c).encode())
networks = st.tuples(st.integers(0, 2), st.lists(st.integers(0, 2), max_size=3), st.booleans())
who = st.integers(0, 30)
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["subscribe", "publisher", "queryable", "token"]), who, expressions),
        st.tuples(st.sampled_from(["put", "put", "get", "who"]), who, keys | expressions),
        st.tuples(st.just("undeclare"), who, st.just(b"")),
    ),
    max_size=14,
)


def build(mesh: Mesh, clients: int, peers: list[int], with_router: bool) -> list[Any]:
    """A router with clients, and peers, each connected with the others and the router, each with clients of its own."""
    middle = []
    if with_router or not peers:
        router = mesh.node(ROUTER)
        for _ in range(clients):
            mesh.link(mesh.node(CLIENT), router)
        middle = [router]
    meshed: list[Any] = []
    for count in peers:
        peer = mesh.node(PEER)
        for other in [*middle, *meshed]:
            mesh.link(peer, other)
        meshed.append(peer)
        for _ in range(count):
            mesh.link(mesh.node(CLIENT), peer)
    return mesh.nodes


@settings(max_examples=150)
@given(networks, steps)
@example(  # a declaration ends while there is no interest in it: a later interest does not receive it
    (0, [0, 0], True),
    [
        ("publisher", 2, b"a"),
        ("subscribe", 0, b"a"),
        ("undeclare", 0, b""),
        ("undeclare", 0, b""),
        ("publisher", 2, b"a"),
    ],
)
def test_each_subscriber_gets_each_matching_sample_once(
    network: tuple[int, list[int], bool], steps: list[tuple[str, int, bytes]]
) -> None:
    mesh = Mesh()
    nodes = build(mesh, *network)
    declared: list[tuple[str, bytes, Any]] = []  # kind, key, entity
    seen: list[tuple[int, bytes]] = []

    def of(kind: str, key: bytes) -> list[Any]:
        return [entity for what, expression, entity in declared if what == kind and intersects(expression, key)]

    for number, (step, which, key) in enumerate(steps):
        application = nodes[which % len(nodes)].application
        seen.clear()
        if step == "subscribe":
            box: list[Any] = []
            entity = application.declare_subscriber(key, lambda key, reader, box=box: seen.append((id(box), key)))
            box.append(entity)
            entity.box = id(box)
            declared.append((step, key, entity))
            entity.keep = box
        elif step == "queryable":

            def answer(query: Any, reader: Any, name: bytes = b"%d" % number) -> None:
                query.reply(query.key, name)
                query.finish()

            entity = application.declare_queryable(key, answer)
            entity.name = b"%d" % number
            declared.append((step, key, entity))
        elif step == "publisher":
            declared.append((step, key, application.declare_publisher(key)))
        elif step == "token":
            declared.append((step, key, application.declare_token(key)))
        elif step == "undeclare" and declared:
            declared.pop(which % len(declared))[2].undeclare()
        elif step == "put":
            application.put(key, b"x")
            mesh.settle()
            assert sorted(box for box, _ in seen) == sorted(entity.box for entity in of("subscribe", key))
            assert {got for _, got in seen} <= {key}
        elif step == "get":
            answers: list[bytes] = []
            ends: list[int] = []
            application.get(
                key, lambda key, reader, to=answers: to.append(reader.response.reply.put.payload.value),
                lambda to=ends: to.append(1), target=1, consolidation=ConsolidationMode.NONE,
            )  # fmt: skip
            mesh.settle()
            assert ends == [1]
            assert sorted(answers) == sorted(entity.name for entity in of("queryable", key))
        elif step == "who":
            alive: list[bytes] = []
            late: list[bool] = []
            application.liveliness_get(key, alive.append, late.append)
            mesh.settle()
            assert late == [False]
            assert set(alive) == {entity.key for entity in of("token", key)}
            assert len(alive) == len(set(alive))
        mesh.settle()
        for kind, key, entity in declared:
            if kind == "publisher":
                assert entity.has_match == bool(of("subscribe", key)), key
    for node in nodes:
        assert not node.application.requests
        assert all(not face.requests and not face.queries for face in node.faces)
