# SPDX-License-Identifier: Apache-2.0
"""`queries`: every request with its replies and its outcome."""

import pytest

import zenlake
from tests.tables.fixtures import NOON, PCAPS, derived, row
from zenlake.tables import definition


def request(us, packet, id, direction=0, **values):
    return row(us, packet, direction, type="REQUEST", body="QUERY", id=id, key="a/*", **values)


def reply(us, packet, id, direction=1, **values):
    return row(us, packet, direction, type="RESPONSE", body="REPLY", id=id, key="a/b", payload_size=3, **values)


def err(us, packet, id, direction=1, key="a/b", **values):
    return row(us, packet, direction, type="RESPONSE", body="ERR", id=id, key=key, **values)


def final(us, packet, id, direction=1, **values):
    return row(us, packet, direction, type="RESPONSE_FINAL", id=id, **values)


def account(messages, events):
    """Return the same table, computed message by message with a list of open requests."""
    closed = {(event["session"], event["generation"]) for event in events if event["kind"] == "closed"}
    done, asked = [], {}
    for m in messages:
        if m["type"] == "REQUEST":
            face = (m["session"], m["generation"], m["direction"], m["id"])
            asked[face] = {"request": m, "replies": [], "errors": [], "final": None}
            done.append(asked[face])
        elif m["type"] in ("RESPONSE", "RESPONSE_FINAL"):
            query = asked.get((m["session"], m["generation"], 1 - m["direction"], m["id"]))
            if query is None:
                continue
            if m["type"] == "RESPONSE_FINAL":
                query["final"] = query["final"] or m
            else:
                query["replies" if m["body"] == "REPLY" else "errors"].append(m)
    return [describe(query, closed) for query in done]


def describe(query, closed):
    request, replies, errors, final = (query[part] for part in ("request", "replies", "errors", "final"))
    if final is None:
        outcome = "lost" if (request["session"], request["generation"]) in closed else "open"
    elif errors:
        outcome = "timeout" if any(e["detail"] == "Timeout" and e["key"] is None for e in errors) else "error"
    else:
        outcome = "answered" if replies else "empty"
    return {
        **{name: request[name] for name in definition("queries").comments if name in request},
        "request_id": request["id"],
        "parameters": request["detail"],
        "replies": len(replies),
        "errors": len(errors),
        "reply_bytes": sum(each["payload_size"] or 0 for each in replies),
        "first_reply": replies[0]["received"] if replies else None,
        "last_reply": replies[-1]["received"] if replies else None,
        "first_reply_ms": (replies[0]["received_ns"] - request["received_ns"]) / 1e6 if replies else None,
        "final": final and final["received"],
        "final_ms": final and (final["received_ns"] - request["received_ns"]) / 1e6,
        "from_session": None,
        "from_request_id": None,
        "error": min((e["detail"] for e in errors if e["detail"] is not None), default=None),
        "outcome": outcome,
    }


def sorted_rows(rows):
    return sorted(rows, key=lambda row: (row["received"], row["session"], row["request_id"]))


@pytest.mark.parametrize("path", PCAPS, ids=lambda path: path.stem)
def test_every_recorded_request_has_its_answers(path):
    messages = zenlake.read(path, "messages").to_pylist()
    expected = account(messages, zenlake.read(path, "events").to_pylist())
    assert len(expected) == sum(m["type"] == "REQUEST" for m in messages)
    assert sorted_rows(zenlake.read(path, "queries").to_pylist()) == sorted_rows(expected)


def test_the_recorded_queries_that_failed_say_why():
    [path] = [path for path in PCAPS if path.stem == "clean_full_sessions"]
    failed = [row for row in zenlake.read(path, "queries").to_pylist() if row["outcome"] != "answered"]
    assert [(row["key"], row["parameters"], row["errors"], row["error"], row["outcome"]) for row in failed] == [
        ("calc/*", "err", 1, "nope", "error")
    ] * 2  # once from the client to the router, once from the router to the queryable


@pytest.mark.parametrize(
    ("answers", "closed", "outcome"),
    [
        ([reply(2, 2, 7), final(3, 3, 7)], None, "answered"),
        ([final(3, 3, 7)], None, "empty"),
        ([reply(2, 2, 7), err(2, 3, 7, detail="no"), final(3, 4, 7)], None, "error"),
        ([err(2, 3, 7, key=None, detail="Timeout"), final(3, 4, 7)], None, "timeout"),
        ([err(2, 3, 7, key="a/b", detail="Timeout"), final(3, 4, 7)], None, "error"),  # the text of a queryable
        ([reply(2, 2, 7)], None, "open"),
        ([reply(2, 2, 7)], "closed", "lost"),
        ([reply(2, 2, 7)], "disconnected", "lost"),  # without a CLOSE: its process was killed
    ],
)
def test_outcomes(answers, closed, outcome):
    events = [row(9, 9, kind=closed)] if closed else []
    [query] = derived("queries", messages=[request(1, 1, 7), *answers], events=events)
    assert query["outcome"] == outcome


def test_an_id_that_is_used_again_is_another_query():
    messages = [
        request(1, 1, 7), reply(2, 2, 7), final(3, 3, 7),
        request(4, 4, 7), final(5, 5, 7),
    ]  # fmt: skip
    first, second = sorted_rows(derived("queries", messages=messages))
    assert (first["replies"], first["outcome"], first["final_ms"]) == (1, "answered", 0.002)
    assert (second["replies"], second["outcome"], second["final_ms"]) == (0, "empty", 0.001)


def test_both_sides_and_both_generations_have_ids_of_their_own():
    messages = [
        request(1, 1, 7), request(2, 2, 7, direction=1),
        final(3, 3, 7, direction=0),  # answers the acceptor's
        request(4, 4, 7, generation=2), reply(5, 5, 7, generation=2),
    ]  # fmt: skip
    queries = derived("queries", messages=messages)
    found = {(query["direction"], query["generation"]): query["outcome"] for query in queries}
    assert found == {(0, 1): "open", (1, 1): "empty", (0, 2): "open"}


def test_answers_without_a_request_make_no_row_and_ignored_duplicates_do_not_count():
    assert derived("queries", messages=[reply(1, 1, 7), final(2, 2, 7)]) == []
    messages = [request(1, 1, 7), reply(2, 2, 7, accepted=True), reply(3, 3, 7, accepted=False), final(4, 4, 7)]
    [query] = derived("queries", messages=messages)
    assert (query["replies"], query["received"].replace(microsecond=0)) == (1, NOON)


def test_the_same_ids_in_two_logs_are_two_queries():
    """Two logs in one lake may have equal names of sessions: 188 answered queries must not become 188 answered and 188 open."""
    messages, events = [], []
    for us, log in ((0, "one"), (5, "two")):
        messages += [each | {"log": log} for each in (request(us, 1, 7), reply(us + 10, 2, 7), final(us + 11, 3, 7))]
    events.append(row(20, 9, kind="closed", log="two"))
    found = derived("queries", messages=messages, events=events)
    assert sorted((each["log"], each["outcome"], each["replies"]) for each in found) == [
        ("one", "answered", 1), ("two", "answered", 1),
    ]  # fmt: skip
    open_queries = [each | {"log": log} for log in ("one", "two") for each in (request(0, 1, 7),)]
    found = derived("queries", messages=open_queries, events=events)
    assert {each["log"]: each["outcome"] for each in found} == {"one": "open", "two": "lost"}
