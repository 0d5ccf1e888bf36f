# SPDX-License-Identifier: Apache-2.0
"""A session in a forked child, at any moment: each call fails with a clear error, sends nothing and does not block."""

import gc
import json
import os
import select
import signal
import threading

import pyarrow as pa
import pytest

import zenlake
from tests.api.nodes import config, pair, wait_until
from zenlake import ext, handlers
from zenlake.api.channel import FORKED as FORKED_CHANNEL
from zenlake.api.scouting import FORKED as FORKED_SCOUT

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

PATIENCE = 20.0
REFUSED = "ClosedError: this session was opened before a fork and belongs to the parent process; open another one in this process"
TABLE = pa.table({"key": ["t/a"], "payload": [b"x"]})


def in_child(calls):
    """Return the result of each call in a forked child, as text, and the result of the end of the child."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(int(PATIENCE))  # ends the child if a call blocks
            os.write(write_end, json.dumps({name: outcome(call) for name, call in calls.items()}).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(write_end)
    try:
        assert select.select([read_end], [], [], 2 * PATIENCE)[0]
        said = b"".join(iter(lambda: os.read(read_end, 65536), b""))
    finally:
        os.close(read_end)
        status = os.waitpid(child, 0)[1]
    assert os.waitstatus_to_exitcode(status) == 0, f"it did not reach its end: {said!r}"
    return json.loads(said)


def outcome(call):
    try:
        return str(call())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def test_entities_raise_in_a_forked_child_and_work_in_the_parent():
    first, second = pair()
    with first as session, second:
        subscriber, ring = session.declare_subscriber("t/a"), session.declare_subscriber("t/a", handlers.RingChannel(3))
        columns = session.declare_subscriber("t/a", handlers.ArrowChannel(10))
        publisher, querier = session.declare_publisher("t/a"), session.declare_querier("q/a")
        queryable, alive = session.declare_queryable("q/a"), session.liveliness()
        token, tokens = alive.declare_token("l/a"), alive.declare_subscriber("l/**")
        numbered = ext.declare_advanced_publisher(session, "x/a", sample_miss_detection=ext.MissDetectionConfig())
        ordered = ext.declare_advanced_subscriber(session, "y/a", history=ext.HistoryConfig())
        replies, query = session.get("q/a"), queryable.recv(PATIENCE)
        cancelling = zenlake.CancellationToken()
        session.get("q/a", print, cancellation_token=cancelling)
        refused = {
            "put": lambda: session.put("t/a", "x"), "try_put": lambda: session.try_put("t/a", "x"),
            "delete": lambda: session.delete("t/a"), "put_table": lambda: session.put_table(TABLE),
            "get": lambda: session.get("q/a"), "get_table": lambda: session.get_table("q/a"),
            "declare": lambda: session.declare_subscriber("t/b"), "new_timestamp": session.new_timestamp,
            "peers": lambda: session.info.peers_zid(), "publisher.put": lambda: publisher.put("x"),
            "publisher.put bytes": lambda: publisher.put(b"x"), "publisher.try_put": lambda: publisher.try_put("x"),
            "publisher.delete": publisher.delete, "matching_status": lambda: publisher.matching_status,
            "querier.get": querier.get, "recv": subscriber.recv, "try_recv": subscriber.try_recv,
            "iterate": lambda: list(subscriber), "ring.recv": ring.recv, "columns.recv": columns.recv,
            "queryable.recv": queryable.recv, "reply": lambda: query.reply("q/a", "x"), "tokens.recv": tokens.recv,
            "reply_err": lambda: query.reply_err("x"), "declare_token": lambda: alive.declare_token("l/b"),
            "numbered.put": lambda: numbered.put("x"), "ordered.recv": ordered.recv,
        }  # fmt: skip
        allowed = {
            "drop": query.drop, "cancel": cancelling.cancel,
            "is_closed": session.is_closed, "subscriber.undeclare": subscriber.undeclare,
            "token.undeclare": token.undeclare, "numbered.undeclare": numbered.undeclare,
            "ordered.undeclare": ordered.undeclare, "close": session.close, "collect": gc.collect,
        }  # fmt: skip
        ended, others = threading.Event(), []
        for _ in range(2):  # threads that work, and may hold any lock, when the process forks

            def work():
                while not ended.is_set():
                    numbered.put("x")
                    session.put("t/b", "x")
                    session.declare_subscriber("t/c").undeclare()

            others.append(threading.Thread(target=work))
            others[-1].start()
        try:
            said = in_child(refused | allowed)
        finally:
            ended.set()
            for other in others:
                other.join()
        assert {name: said[name] for name in refused if said[name] != REFUSED} == {}
        assert said["is_closed"] == "True"
        assert {said[name] for name in allowed.keys() - {"is_closed", "collect"}} == {"None"}
        query.reply("q/a", "still asked")
        query.drop()
        assert str(replies.recv(PATIENCE).ok.payload) == "still asked"
        second.put("t/a", "still works")
        assert str(subscriber.recv(PATIENCE).payload) == "still works"


def test_replies_say_in_the_child_that_there_may_be_more_unless_all_have_come():
    with zenlake.open(config()) as session:
        queryable = session.declare_queryable("q/*")
        whole, part, none = (session.get(f"q/{which}", consolidation=zenlake.ConsolidationMode.NONE) for which in "123")
        asked = {str(query.key_expr): query for query in (queryable.recv(PATIENCE) for _ in range(3))}
        asked["q/1"].reply("q/1", "here")
        asked["q/1"].drop()
        asked["q/2"].reply("q/2", "here")  # and the parent continues
        wait_until(lambda: len(whole) == len(part) == 1)
        said = in_child(
            {
                "whole": lambda: [str(reply.ok.payload) for reply in whole],
                "part": lambda: str(part.recv().ok.payload),
                "rest": lambda: list(part),
                "none": lambda: list(none),
                "recv": none.recv,
                "try_recv": none.try_recv,
            }
        )
        belongs = f"ClosedError: {FORKED_CHANNEL}"
        assert said.pop("whole") == "['here']"
        assert said.pop("part") == "here"
        assert set(said.values()) == {belongs}


def test_a_scout_belongs_to_the_parent():
    with zenlake.scout(
        config=config(scouting__multicast__address="224.0.0.225:17461")
    ) as scout:  # a group without members
        said = in_child(
            {"recv": scout.recv, "try_recv": scout.try_recv, "iterate": lambda: list(scout), "stop": scout.stop}
        )
        assert said.pop("stop") == "None"
        assert set(said.values()) == {f"ClosedError: {FORKED_SCOUT}"}
        assert scout.try_recv() is None


def test_a_child_opens_its_own():
    def own():
        with zenlake.open(config()) as session:
            subscriber = session.declare_subscriber("t/a")
            session.put("t/a", "its own")
            return subscriber.recv(PATIENCE).payload

    with zenlake.open(config()) as session:
        assert in_child({"own": own, "again": own}) == {"own": "its own", "again": "its own"}
        assert not session.is_closed()
