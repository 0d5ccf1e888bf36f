# SPDX-License-Identifier: Apache-2.0
"""`sessions`: the two ends of each session, and the traffic of each side."""

import json

import pytest

import zenlake
from tests.tables.fixtures import PCAPS, derived, row


def account(path):
    """Return the same table, computed message by message."""
    found = {}
    for m in zenlake.read(path, "messages").to_pylist():
        if m["type"] in ("SCOUT", "HELLO"):
            continue
        session = found.setdefault(
            (m["session"], m["generation"]),
            {
                "received": m["received"], "opener_messages": 0, "acceptor_messages": 0, "opener_bytes": 0, "acceptor_bytes": 0,
                "opened": None, "closed": None, "closed_by": None, "opener_zid": None, "compression": None,
            },
        )  # fmt: skip
        side = ("opener", "acceptor")[m["direction"]]
        session["last_received"] = m["received"]
        if m["type"] not in ("FRAME", "FRAGMENT"):
            session[f"{side}_messages"] += 1
        if m["fragments"] is None:
            session[f"{side}_bytes"] += m["size"]
        if m["type"] == "CLOSE" and session["closed"] is None:
            session |= {"closed": m["received"], "closed_by": side}
    for e in zenlake.read(path, "events").to_pylist():
        if e["kind"] in ("opened", "joined"):
            agreed = json.loads(e["detail"])
            found[e["session"], e["generation"]] |= {
                "opened": e["received"], "opener_zid": agreed["ends"][0]["zid"], "compression": agreed["compression"],
            }  # fmt: skip
    return found


@pytest.mark.parametrize("path", PCAPS, ids=lambda path: path.stem)
def test_every_recorded_session(path):
    expected = account(path)
    found = zenlake.read(path, "sessions").to_pylist()
    assert len(found) == len(expected) > 0
    for session in found:
        key = session["session"], session["generation"]
        assert {name: session[name] for name in expected[key]} == expected[key]


def test_bytes_are_all_that_was_sent():
    """Every byte of a batch is in a message or in the header of a frame. The sum equals the count of the capture reader."""
    path = next(path for path in PCAPS if path.stem == "clean_full_sessions")
    from zenlake import capture

    batches = capture.open(path).batches()
    sent = sum(len(batch) for rows in batches for batch in rows.column("batch").to_pylist())
    assert sum(s["opener_bytes"] + s["acceptor_bytes"] for s in zenlake.read(path, "sessions").to_pylist()) == sent


def test_a_session_opened_again_is_two_rows():
    opened = json.dumps({"ends": [{"zid": "1", "lease_ms": 10000}, {"zid": "2"}], "batch_size": 65535, "qos": True})
    sessions = derived(
        "sessions",
        messages=[
            row(1, 1, type="INIT", size=20), row(2, 2, 1, type="CLOSE", size=2),
            row(3, 3, generation=2, type="INIT", size=20), row(4, 4, generation=2, type="PUSH", size=30),
        ],
        events=[
            row(1, 1, kind="opened", detail=opened), row(2, 2, 1, kind="closed", detail="EXPIRED", count=5),
            row(3, 3, generation=2, kind="opened", detail=opened),
        ],
    )  # fmt: skip
    first, second = sorted(sessions, key=lambda session: session["generation"])
    assert (first["closed_by"], first["reason"], first["opener_bytes"], first["acceptor_messages"]) == (
        "acceptor", "EXPIRED", 20, 1,
    )  # fmt: skip
    assert (second["closed_by"], second["opener_zid"], second["opener_lease_ms"], second["qos"]) == (
        None,
        "1",
        10000,
        True,
    )


def test_the_first_close_counts():
    closes = [row(us, us, direction, kind="closed", detail=why) for us, direction, why in [(5, 0, "b"), (4, 1, "a")]]
    [session] = derived("sessions", messages=[row(1, 1, type="PUSH", size=9)], events=closes)
    assert (session["closed_by"], session["reason"], session["opened"], session["encrypted"]) == (
        "acceptor",
        "a",
        None,
        False,
    )


def test_an_encrypted_session_is_a_row_and_scouting_is_not():
    note = {"session": "tls/a->b", "direction": 0, "kind": "capture encrypted", "packet": 3, "count": 9}
    [session] = derived(
        "sessions", messages=[row(1, 1, session="scouting/x->y", type="SCOUT", size=3)], events=[note, note]
    )
    assert (session["session"], session["protocol"], session["encrypted"]) == ("tls/a->b", "tls", True)
    assert (session["generation"], session["received"], session["opener_bytes"]) == (0, None, 0)


def test_a_number_that_no_column_holds_is_null():
    """A lease of up to 2^64 seconds is valid on the wire. In milliseconds it exceeds int64."""
    agreed = {
        "version": 9,
        "batch_size": 2**40,
        "ends": [{"zid": "a", "lease_ms": 2**64 - 1}, {"zid": "b", "lease_ms": 1000}],
    }
    messages = [row(0, 1, type="INIT", size=9), row(1, 2, type="OPEN", size=9)]
    events = [row(1, 2, kind="opened", detail=json.dumps(agreed))]
    [session] = derived("sessions", messages=messages, events=events)
    assert (session["opener_lease_ms"], session["acceptor_lease_ms"]) == (None, 1000)
    assert (session["version"], session["batch_size"], session["opener_zid"]) == (9, None, "a")
