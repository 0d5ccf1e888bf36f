# SPDX-License-Identifier: Apache-2.0
"""The public interface of sessions: two sessions of Zenlake, connected over loopback."""

import gc
import logging
import pickle
import queue
import subprocess
import sys
import threading

import pytest

import zenlake
from tests.api.nodes import PATIENCE, config, listening, pair, wait_until


@pytest.fixture
def both():
    first, second = pair()
    with first, second:
        yield first, second


def connected_subscriber(first, second, key, *handler):
    """Declare a subscriber in the first session and wait until the second knows it."""
    probe = second.declare_publisher(key.replace("**", "x"))
    subscriber = first.declare_subscriber(key, *handler)
    wait_until(lambda: probe.matching_status.matching)
    return subscriber


def test_a_sample_arrives_with_all_fields(both):
    first, second = both
    subscriber = connected_subscriber(first, second, "t/**")
    stamp = second.new_timestamp()
    second.put(
        "t/a", b"\0\1", encoding="image/png;x", attachment="note", timestamp=stamp, express=True,
        priority=zenlake.Priority.REAL_TIME, congestion_control=zenlake.CongestionControl.BLOCK,
        source_info=zenlake.SourceInfo(second.id, 7),
    )  # fmt: skip
    sample = subscriber.recv(PATIENCE)
    assert (sample.key_expr, sample.payload, sample.kind) == ("t/a", b"\0\1", zenlake.SampleKind.PUT)
    assert (sample.encoding, sample.attachment, sample.timestamp) == ("image/png;x", b"note", stamp)
    assert (sample.priority, sample.express) == (zenlake.Priority.REAL_TIME, True)
    assert sample.congestion_control is zenlake.CongestionControl.BLOCK
    assert (sample.source_info.source_sn, sample.source_info.source_id) == (7, second.id)
    second.delete("t/a")
    assert subscriber.recv(PATIENCE).kind is zenlake.SampleKind.DELETE


def test_a_channel_keeps_the_order_while_it_grows_and_shrinks():
    channel, expected, taken, number = zenlake.Handler(1000), [], [], 0
    for more, fewer in ((5, 3), (40, 10), (3, 30), (200, 205), (33, 33)):
        for _ in range(more):
            channel._push(number)
            expected.append(number)
            number += 1
        taken += [channel.recv() for _ in range(fewer)]
        assert len(channel) == len(expected) - len(taken)
    assert taken == expected
    channel._push(1)
    channel._close(True)
    assert len(channel) == 0


def test_receivers_report_an_empty_channel(both):
    subscriber = both[0].declare_subscriber("t/**")
    assert subscriber.try_recv() is None
    with pytest.raises(TimeoutError):
        subscriber.recv(timeout=0.01)
    handler = subscriber.handler
    subscriber.undeclare()
    with pytest.raises(zenlake.ZError, match="Undeclared subscriber"):
        subscriber.recv()
    with pytest.raises(zenlake.ZError, match="empty and closed"):
        handler.try_recv()
    assert list(handler) == []


def test_received_samples_can_be_read_after_the_session_closed():
    with zenlake.open(config()) as session:
        subscriber = session.declare_subscriber("t/**")
        session.put("t/a", "kept")
    assert [str(sample.payload) for sample in subscriber] == ["kept"]
    with pytest.raises(zenlake.ZError, match="session closed"):
        session.put("t/a", "late")
    assert session.is_closed()


def test_a_ring_keeps_the_newest_and_counts(both):
    session = both[0]
    ring = session.declare_subscriber("t/**", zenlake.handlers.RingChannel(2))
    for number in range(5):
        session.put("t/a", str(number))
    assert [str(ring.try_recv().payload), str(ring.try_recv().payload)] == ["3", "4"]
    assert ring.handler.dropped == 3


def test_a_full_fifo_blocks_the_sender_and_loses_no_sample(both):
    first, second = both
    subscriber = connected_subscriber(first, second, "t/**", zenlake.handlers.FifoChannel(10))
    count = 3000
    payload = bytes(1000)

    def send():
        for _ in range(count):
            second.put("t/a", payload, congestion_control=zenlake.CongestionControl.BLOCK)

    sender = threading.Thread(target=send)
    sender.start()
    for _ in range(count):
        subscriber.recv(PATIENCE)
    sender.join(PATIENCE)
    assert not sender.is_alive()


def test_a_callback_may_put_undeclare_and_close(both):
    first, second = both
    echoes = first.declare_subscriber("echo/**")
    done = threading.Event()

    def callback(sample):
        first.put("echo/1", sample.payload)
        subscriber.undeclare()
        first.close()
        done.set()

    subscriber = connected_subscriber(first, second, "t/**", callback)
    second.put("t/a", "x")
    assert done.wait(PATIENCE)
    assert str(echoes.handler.recv(PATIENCE).payload) == "x"


def test_a_callback_that_raises_is_logged_and_the_next_is_called(both, caplog):
    session = both[0]
    seen, dropped = [], threading.Event()

    def callback(sample):
        seen.append(str(sample.payload))
        raise KeyError(seen[-1])

    subscriber = session.declare_subscriber("t/**", zenlake.handlers.Callback(callback, dropped.set))
    with caplog.at_level(logging.ERROR, "zenlake.handlers"):
        session.put("t/a", "1")
        session.put("t/a", "2")
        wait_until(lambda: len(seen) == 2)
        subscriber.undeclare()
        assert dropped.wait(PATIENCE)
    assert [str(record.exc_info[1]) for record in caplog.records] == ["'1'", "'2'"]


def test_a_query_gets_replies_errors_and_an_end(both):
    first, second = both
    asked = []

    def answer(query):
        asked.append((str(query.selector), str(query.payload), query.encoding, query.attachment))
        query.reply("q/1", "one", encoding="text/plain", attachment="a")
        query.reply_del("q/2")
        query.reply_err("bad")

    querier = second.declare_querier("q/**")
    first.declare_queryable("q/*", answer)
    wait_until(lambda: querier.matching_status.matching)
    replies = list(second.get("q/*?x=1", payload="body", encoding="text/json", attachment="z"))
    assert asked == [("q/*?x=1", "body", zenlake.Encoding.TEXT_JSON, b"z")]
    oks = {str(reply.ok.key_expr): reply.ok for reply in replies if reply.ok}
    assert (oks["q/1"].payload, oks["q/1"].encoding, oks["q/1"].attachment) == ("one", "text/plain", "a")
    assert oks["q/2"].kind is zenlake.SampleKind.DELETE
    assert [reply.err.payload for reply in replies if reply.err] == [b"bad"]
    assert {reply.replier_id.zid for reply in replies} == {first.zid()}
    assert len(list(second.get("q/*", budget=1))) == 1
    assert len(list(querier.get(parameters={"x": "2"}))) == 3


def test_a_query_ends_when_it_is_dropped_or_forgotten(both):
    session = both[0]
    queryable = session.declare_queryable("q/1")
    replies = session.get("q/1", timeout=60)
    with queryable.recv(PATIENCE) as query:
        query.reply("q/1", "1")
        with pytest.raises(ValueError, match="does not match"):
            query.reply("other", "2")
    assert [str(reply.ok.payload) for reply in replies] == ["1"]
    with pytest.raises(zenlake.ZError, match="Dropped query"):
        _ = query.key_expr
    replies = session.get("q/1", timeout=60)
    query = queryable.recv(PATIENCE)
    del query
    gc.collect()
    with pytest.raises(zenlake.ZError, match="closed"):
        replies.recv(PATIENCE)


def test_a_query_without_a_reply_times_out(both):
    session = both[0]
    queryable = session.declare_queryable("q/1")
    replies = list(session.get("q/1", timeout=0.05))
    assert [str(reply.err.payload) for reply in replies] == ["Timeout"]
    assert queryable.try_recv() is not None


def test_cancelling_ends_a_query_and_a_used_token_is_refused(both):
    session = both[0]
    held = session.declare_queryable("q/1")
    token = zenlake.CancellationToken()
    replies = session.get("q/1", timeout=60, cancellation_token=token)
    query = held.recv(PATIENCE)
    token.cancel()
    with pytest.raises(zenlake.ZError, match="closed"):
        replies.try_recv()
    query.drop()
    with pytest.raises(zenlake.ZError, match="cancelled"):
        session.get("q/1", cancellation_token=token)


def test_tokens_live_and_die_with_their_session():
    first, where = listening()
    with first:
        second = zenlake.open(config(connect=where))
        changes = first.liveliness().declare_subscriber("alive/**", history=True)
        token = second.liveliness().declare_token("alive/1")
        assert changes.recv(PATIENCE).kind is zenlake.SampleKind.PUT
        assert [str(reply.ok.key_expr) for reply in first.liveliness().get("alive/*")] == ["alive/1"]
        second.close()
        gone = changes.recv(PATIENCE)
        assert (gone.kind, gone.key_expr) == (zenlake.SampleKind.DELETE, "alive/1")
        assert repr(token)


@pytest.mark.parametrize("through", ["peers", "a client", "a router"])
def test_a_liveliness_subscriber_without_history_gets_every_end_and_only_new_tokens(through):
    """As in 1.10.2, the end of an earlier token is reported too, whatever other entities of the session requested."""
    first, where = listening(**({"mode": "router"} if through == "a router" else {}))
    mode = "peer" if through == "peers" else "client"
    with first, zenlake.open(config(mode, where)) as second, zenlake.open(config(mode, where)) as third:
        owner = third if through == "a router" else first
        old = owner.liveliness().declare_token("alive/old")
        wait_until(lambda: [reply for reply in second.liveliness().get("alive/old") if reply.ok])
        news = second.liveliness().declare_subscriber("alive/**")
        everything = second.liveliness().declare_subscriber("alive/*", history=True)
        assert everything.recv(PATIENCE).kind is zenlake.SampleKind.PUT
        new = owner.liveliness().declare_token("alive/new")
        for subscriber in (everything, news):
            sample = subscriber.recv(PATIENCE)
            assert (sample.kind, sample.key_expr) == (zenlake.SampleKind.PUT, "alive/new")
        for token, key in ((old, "alive/old"), (new, "alive/new")):
            token.undeclare()
            for subscriber in (everything, news):
                sample = subscriber.recv(PATIENCE)
                assert (sample.kind, sample.key_expr) == (zenlake.SampleKind.DELETE, key)


def test_a_querier_of_complete_queryables_matches_only_those(both):
    first, second = both
    choice = zenlake.QueryTarget.ALL_COMPLETE
    querier = second.declare_querier("q/*", target=choice)
    listener, anybody = querier.declare_matching_listener(), second.declare_querier("q/*")
    first.declare_queryable("q/*", lambda query: None)  # not complete
    first.declare_queryable("q/1", lambda query: None, complete=True)  # of a part
    wait_until(lambda: anybody.matching_status.matching)
    assert not querier.matching_status.matching
    assert list(querier.get()) == []
    whole = first.declare_queryable("q/**", complete=True)
    assert listener.recv(PATIENCE).matching
    whole.undeclare()
    assert not listener.recv(PATIENCE).matching
    assert anybody.matching_status.matching


def test_connections_are_reported():
    first, where = listening()
    with first:
        events = first.info.declare_transport_events_listener()
        second = zenlake.open(config(connect=where))
        event = events.recv(PATIENCE)
        assert (event.kind, event.transport.zid) == (zenlake.SampleKind.PUT, second.zid())
        assert first.info.peers_zid() == [second.zid()]
        assert [link.zid for link in first.info.links()] == [second.zid()]
        second.close()
        assert events.recv(PATIENCE).kind is zenlake.SampleKind.DELETE


def test_a_matching_listener_receives_both_changes(both):
    first, second = both
    publisher = second.declare_publisher("m/1")
    listener = publisher.declare_matching_listener()
    subscriber = first.declare_subscriber("m/*")
    assert listener.recv(PATIENCE).matching
    subscriber.undeclare()
    assert not listener.recv(PATIENCE).matching


def test_unreferenced_entities_are_undeclared_unless_they_have_a_callback(both):
    first, second = both
    probe = second.declare_publisher("g/1")
    subscriber = first.declare_subscriber("g/*")
    wait_until(lambda: probe.matching_status.matching)
    del subscriber
    gc.collect()
    wait_until(lambda: not probe.matching_status.matching)
    seen = []
    first.declare_subscriber("g/*", seen.append)
    gc.collect()
    wait_until(lambda: probe.matching_status.matching)
    probe.put("x")
    wait_until(lambda: seen)


def test_values_can_be_pickled_and_entities_cannot():
    with zenlake.open(config()) as session:
        subscriber = session.declare_subscriber("t/a")
        session.put("t/a", "x", attachment=b"y", timestamp=session.new_timestamp())
        sample = subscriber.recv(PATIENCE)
        twin = pickle.loads(pickle.dumps(sample))
        assert (twin.key_expr, twin.payload, twin.timestamp) == (sample.key_expr, sample.payload, sample.timestamp)
        for living in (session, subscriber):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                pickle.dumps(living)


PROGRAM = """
import zenlake
from tests.api.nodes import config
session = zenlake.open(config())
subscriber = session.declare_subscriber("t/**", print)
queryable = session.declare_queryable("q/**")
session.get("q/1", print)
"""


INTERRUPTED = """
import signal
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.2)
session.declare_subscriber("z").recv()
"""


def test_a_program_without_close_ends():
    done = subprocess.run([sys.executable, "-c", PROGRAM], timeout=20, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_interrupts_recv():
    done = subprocess.run([sys.executable, "-c", PROGRAM + INTERRUPTED], timeout=20, capture_output=True, text=True)
    assert "KeyboardInterrupt" in done.stderr


def test_try_put_returns_false_for_a_dropped_sample(both):
    sending, reading = both
    subscriber = reading.declare_subscriber(
        "full", zenlake.handlers.FifoChannel(1)
    )  # never read: the sender's queue fills up
    publisher = sending.declare_publisher("full")
    assert publisher.declare_matching_listener().recv(10)
    assert not all(publisher.try_put(bytes(60_000)) for _ in range(2000))
    assert publisher.put(b"still") is None
    assert subscriber.recv(10).payload == bytes(60_000)


def test_try_put_and_counters(both):
    assert both[0].try_put("no/subscriber", "x") is True
    assert both[0].counters() == {} or all(isinstance(count, int) for count in both[0].counters().values())


def test_wrong_arguments_are_named(both):
    session = both[0]
    with pytest.raises(TypeError, match="z_serialize"):
        session.put("a", 3)
    with pytest.raises(ValueError, match="empty"):
        session.put("", "x")
    with pytest.raises(ValueError, match="handler"):
        session.declare_subscriber("a", 3)
    with pytest.raises(TypeError, match=r"zenlake\.Config"):
        zenlake.open({"mode": "peer"})


def test_a_budget_of_replies_travels_and_the_router_keeps_to_it():
    router, where = listening(mode="router")
    with router, zenlake.open(config("client", where)) as one, zenlake.open(config("client", where)) as two:

        def answers(query):
            for number in range(3):
                query.reply(f"b/{number}", "x")

        for session in (one, two):
            session.declare_queryable("b/*", answers, complete=False)
        querier = router.declare_querier("b/*")
        wait_until(lambda: querier.matching_status.matching)
        with zenlake.open(config("client", where)) as asker:
            replies = asker.get("b/*", budget=2, consolidation=zenlake.ConsolidationMode.NONE)
            assert len(list(replies)) == 2
            late = "replies to unknown queries"  # counted by both nodes after the budget is used
            wait_until(lambda: [session.counters().get(late) for session in (one, two)] == [1, 1])
            wait_until(lambda: router.counters().get(late, 0) >= 2)
            assert asker.counters().get(late, 0) <= 1  # the end that the router sent


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_callback_that_ends_its_thread_does_not_hold_up_the_others(both):
    first, second = both
    ended = queue.Queue()

    def leave(sample):
        ended.put(threading.current_thread())
        raise SystemExit

    connected_subscriber(first, second, "t/a", leave)
    others = connected_subscriber(first, second, "t/b", zenlake.handlers.FifoChannel(10_000))
    second.put("t/a", b"0", congestion_control=zenlake.CongestionControl.BLOCK)
    ended.get(timeout=PATIENCE).join(PATIENCE)
    for number in range(1000):  # more than its channel would hold
        second.put("t/a", b"%d" % number, congestion_control=zenlake.CongestionControl.BLOCK)
    second.put("t/b", b"last", congestion_control=zenlake.CongestionControl.BLOCK)
    assert others.recv(PATIENCE).payload == b"last"


def test_an_unreferenced_session_leaves_no_resource():
    before = {*threading.enumerate()}
    session, _ = listening()
    session.declare_subscriber("t/**", lambda sample: None)
    session.declare_queryable("t/q", lambda query: None)
    publisher = session.declare_publisher("t/a")
    publisher.declare_matching_listener(lambda status: None)
    its = {*threading.enumerate()} - before
    assert len(its) >= 4  # the loop, and one for each callback
    del session, publisher

    def gone():
        gc.collect()
        return not any(thread.is_alive() for thread in its)

    wait_until(gone)
