# SPDX-License-Identifier: Apache-2.0
"""`publications`, `deliveries`, `gets` and `once`: samples and queries of applications instead of hops."""

import json
from collections import Counter
from hashlib import sha256

import pyarrow as pa
import pytest

import zenlake
from tests.tables.fixtures import PCAPS, at, derived, row
from zenlake.tables.deduplicate import deduplicate
from zenlake.tables.schemas import TABLES

CLIENTS = {"up": "c0", "down1": "c1", "down2": "c2"}  # sessions to the router "r"
ROLES = {"c0": "client", "c1": "client", "c2": "client", "p": "peer", "r": "router"}


def opened(session, opener, acceptor="r", role=None):
    ends = [{"zid": opener, "whatami": role or ROLES[opener]}, {"zid": acceptor, "whatami": ROLES[acceptor]}]
    return row(0, 0, session=session, kind="opened", detail=json.dumps({"ends": ends}))


EVENTS = [opened(session, zid) for session, zid in CLIENTS.items()]


def rows_of(name, **tables):
    return sorted(derived(name, **tables), key=lambda each: (each["received"], each["session"]))


def hop(us, session, direction, payload, stamp=None, clock="r", key="k", **values):
    stamped = {} if stamp is None else {"timestamp": at(stamp)["received"], "ntp64": stamp, "timestamp_id": clock}
    size = {"payload": payload, "payload_size": len(payload)}
    return row(us, us, direction, session, **{"key": key, "kind": "put", **size, **stamped, **values})


def views(samples, events=EVENTS):
    return [rows_of(name, samples=samples, events=events) for name in ("publications", "deliveries")]


def fleet(payloads, **values):
    """Return the rows of samples that a router received from one client, stamped and sent to two others."""
    for n, payload in enumerate(payloads):
        yield hop(100 * n + 1, "up", 0, payload, **values)
        for session in ("down1", "down2"):
            yield hop(100 * n + 3, session, 1, payload, 100 * n + 2, **values)


@pytest.mark.parametrize("payloads", [[b"a", b"b", b"c"], [b"same"] * 3], ids=["distinct values", "equal values"])
def test_the_hops_of_a_publication_are_one_row_also_where_the_first_has_no_timestamp(payloads):
    publications, deliveries = views([*fleet(payloads)])
    assert [(each["publisher"], each["hops"], each["identified"]) for each in publications] == [("c0", 3, "order")] * 3
    assert sorted(each["timestamp"] for each in publications) == [at(us)["received"] for us in (2, 102, 202)]
    assert Counter((each["publisher"], each["subscriber"], each["hops"], each["age"]) for each in deliveries) == {
        ("c0", "c1", 2, 1): 3, ("c0", "c2", 2, 1): 3,
    }  # fmt: skip


def test_equal_values_of_which_some_were_not_forwarded_are_counted_and_not_joined():
    """The second subscriber came late, so which value it received first cannot be decided."""
    rows = [
        each
        for each in fleet([b"same"] * 3)
        if each["received_ns"] // 1000 % 1_000_000 > 100 or each["session"] == "up"
    ]
    publications, deliveries = views(rows)
    assert [each["identified"] for each in publications] == ["none"] * 3
    assert Counter((each["subscriber"], each["publisher"], each["identified"]) for each in deliveries) == {
        ("c1", "c0", "none"): 2, ("c2", "c0", "none"): 2,
    }  # fmt: skip


def test_equal_values_of_two_publishers_are_counted_and_not_assigned():
    rows = [hop(1, "up", 0, b"x"), hop(2, "down1", 0, b"x"), hop(5, "down2", 1, b"x", 3), hop(6, "down2", 1, b"x", 4)]
    publications, deliveries = views(rows)
    assert {(each["publisher"], each["identified"]) for each in publications} == {("c0", "none"), ("c1", "none")}
    assert [(each["publisher"], each["subscriber"], each["identified"]) for each in deliveries] == [
        (None, "c2", "none")
    ] * 2


def test_a_sequence_number_of_the_source_joins_equal_values_that_order_cannot():
    rows = [
        each | {"source_zid": "c0", "source_eid": 1, "source_sn": n}
        for n in range(3) for each in (hop(n + 1, "up", 0, b"x"), hop(n + 11, "down1", 1, b"x", n + 10))
    ]  # fmt: skip
    rows = [each for each in rows if (each["session"], each["source_sn"]) != ("down1", 1)]  # one was not forwarded
    publications, deliveries = views(rows)
    assert Counter((each["identified"], each["hops"]) for each in publications) == {("source", 2): 2, ("source", 1): 1}
    assert len(deliveries) == 2


def test_a_router_is_not_the_publisher_if_the_publisher_was_not_recorded():
    publications, deliveries = views([hop(3, "down1", 1, b"x", 2)])
    assert [(each["publisher"], each["sender_role"]) for each in publications] == [(None, "router")]
    assert [(each["publisher"], each["subscriber"]) for each in deliveries] == [(None, "c1")]


def test_a_peer_that_forwards_a_sample_of_another_clock_is_not_its_publisher():
    events = [opened("s", "p", "c1")]
    publications, _ = views([hop(1, "s", 0, b"x", 1, "p"), hop(2, "s", 0, b"y", 1, "q"), hop(3, "s", 0, b"z")], events)
    assert [each["publisher"] for each in publications] == ["p", None, "p"]


def test_the_hops_of_two_logs_of_one_session_are_one_publication():
    rows = [each | {"log": log} for log in ("one", "two") for each in fleet([b"a", b"b"])]
    publications, deliveries = views(rows, [each | {"log": log} for log in ("one", "two") for each in EVENTS])
    assert [each["hops"] for each in publications] == [6, 6]
    assert len(deliveries) == 4


def test_values_in_shared_memory_are_joined_by_order_with_their_copies():
    """A router passes references on, and copies the values for receivers of another host. A value is one publication."""
    reference = {"payload": None, "payload_size": None, "shm": b"ref"}
    rows = []
    for n in range(3):
        rows += [
            each | reference
            for each in (hop(100 * n + 1, "up", 0, b""), hop(100 * n + 3, "down1", 1, b"", 100 * n + 2))
        ]
        rows += [hop(100 * n + 4, "down2", 1, b"picture %d" % n, 100 * n + 2)]
    publications, deliveries = views(rows)
    assert [(each["publisher"], each["hops"], each["identified"]) for each in publications] == [("c0", 3, "order")] * 3
    assert Counter((each["publisher"], each["subscriber"], each["age"]) for each in deliveries) == {
        ("c0", "c1", 1): 3, ("c0", "c2", 2): 3,
    }  # fmt: skip


def test_a_redacted_value_is_the_value():
    """One recorder kept the hash of the value only, where the publisher's hop has no timestamp."""
    digest = {"payload": None, "payload_size": 1, "payload_sha256": sha256(b"x").hexdigest()}
    publications, _ = views([hop(1, "up", 0, b"x"), hop(2, "up", 0, b"y"), hop(3, "down1", 1, b"x", 3) | digest])
    assert [(each["hops"], each["identified"]) for each in publications] == [(2, "order"), (1, "order")]


@pytest.mark.parametrize("stamps", [(2, 3), (None, None)], ids=["with a timestamp", "without"])
def test_a_publication_that_crosses_three_hops_has_its_way(stamps):
    """A client, a router, a peer that forwards, and another client."""
    events = [opened("up", "c0"), opened("across", "p"), opened("last", "c2", "p")]
    one, two = stamps
    rows = [hop(1, "up", 0, b"x"), hop(3, "across", 1, b"x", one), hop(5, "last", 1, b"x", one)]
    rows += [hop(11, "up", 0, b"y"), hop(13, "across", 1, b"y", two)]
    publications, deliveries = views(rows, events)
    assert [(each["publisher"], each["hops"]) for each in publications] == [("c0", 3), ("c0", 2)]
    assert sorted((each["subscriber"], each["hops"], each["forwarded"], each["published"]) for each in deliveries) == [
        ("c2", 3, False, at(1)["received"]), ("p", 2, False, at(11)["received"]), ("p", 2, True, at(1)["received"]),
    ]  # fmt: skip


def test_replies_are_not_publications():
    assert views([hop(1, "up", 0, b"x", request_id=7)]) == [[], []]


def test_once_keeps_the_first_hop_of_each_publication():
    samples = pa.Table.from_pylist([*fleet([b"a", b"a", b"b"])], schema=TABLES["samples"])
    events = pa.Table.from_pylist(EVENTS, schema=TABLES["events"])
    found = deduplicate(samples, events, ["session", "payload"]).to_pylist()
    assert found == [{"session": "up", "payload": payload} for payload in (b"a", b"a", b"b")]


def request(us, session, direction, id, **values):
    return row(us, us, direction, session, type="REQUEST", body="QUERY", id=id, key="k", **values)


def answer(us, session, direction, id, body="REPLY"):
    said = {"detail": "no"} if body == "ERR" else {"payload_size": 1}
    yield row(us, us, direction, session, type="RESPONSE", body=body, id=id, key="k", **said)
    yield row(us + 1, us + 1, direction, session, type="RESPONSE_FINAL", id=id)


def test_a_get_is_one_row_with_the_hops_that_can_be_joined():
    messages = [request(1, "up", 0, 7), request(2, "down1", 1, 3), *answer(3, "down1", 0, 3), *answer(5, "up", 1, 7)]
    messages += [request(11, "up", 0, 8), request(12, "down1", 1, 4), *answer(13, "down1", 0, 4, "ERR")]
    messages += answer(15, "up", 1, 8, "ERR")
    gets = rows_of("gets", messages=messages, events=EVENTS)
    assert [(each["querier"], each["hops"], each["outcome"], each["identified"], each["latency_ms"]) for each in gets] == [
        ("c0", 2, "answered", "order", 0.005), ("c0", 2, "error", "order", 0.005),
    ]  # fmt: skip
    assert [(each["replies"], each["errors"]) for each in gets] == [(1, 0), (0, 1)]


def test_the_events_of_a_recording_router_join_hops_that_order_cannot():
    messages = [request(us, session, 0, 7) for us, session in ((1, "up"), (2, "down2"))]
    messages += [request(3, "down1", 1, 3), request(4, "down1", 1, 4)]
    gets = rows_of("gets", messages=messages, events=EVENTS)
    assert [(each["querier"], each["hops"], each["identified"]) for each in gets] == [
        ("c0", 1, "none"),
        ("c2", 1, "none"),
    ]
    forwarded = [
        row(us, us, 0, session, kind="forwarded", sn=7, detail=json.dumps(
            {"from_session": session, "from_id": 7, "to_session": "down1", "to_direction": 1, "to_id": id}))
        for us, session, id in ((3, "up", 3), (4, "down2", 4))
    ]  # fmt: skip
    gets = rows_of("gets", messages=messages, events=[*EVENTS, *forwarded])
    assert [(each["querier"], each["hops"], each["identified"]) for each in gets] == [
        ("c0", 2, "source"),
        ("c2", 2, "source"),
    ]


def test_a_request_that_no_recorded_query_explains_has_no_querier():
    [get] = rows_of("gets", messages=[request(2, "down1", 1, 3)], events=EVENTS)
    assert (get["querier"], get["sender_role"], get["outcome"]) == (None, "router", "open")


@pytest.mark.parametrize(
    "path", [path for path in PCAPS if path.stem in ("clean_full_sessions", "two_clients_queries")]
)
def test_the_publications_of_a_recording_are_the_samples_that_clients_sent(path):
    sessions = {(each["session"], each["generation"]): each for each in zenlake.read(path, "sessions").to_pylist()}
    sent = Counter()
    for sample in zenlake.read(path).to_pylist():
        of = sessions[sample["session"], sample["generation"]]
        side = ("opener", "acceptor")[sample["direction"]]
        if sample["request_id"] is None and of[f"{side}_role"] == "client":
            sent[of[f"{side}_zid"], sample["key"]] += 1
    publications = zenlake.read(path, "publications").to_pylist()
    assert Counter((each["publisher"], each["key"]) for each in publications) == sent
    assert {each["identified"] for each in publications} <= {"order", "timestamp"}
    assert zenlake.read(path, once=True).num_rows == len(publications) > 0
