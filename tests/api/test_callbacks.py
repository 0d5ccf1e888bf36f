# SPDX-License-Identifier: Apache-2.0
"""Callbacks on the receiving thread and their permitted operations, and slow callbacks."""

import subprocess
import sys
import threading
import time

import pyarrow as pa
import pytest

import zenlake
from tests.api.nodes import PATIENCE, config, pair, wait_until
from zenlake.errors import DeadlockError
from zenlake.handlers import Callback


def direct(callback, drop=None):
    return Callback(callback, drop, indirect=False)


@pytest.fixture
def session():
    with zenlake.open(config()) as session:
        yield session


@pytest.fixture
def both():
    first, second = pair()
    with first, second:
        yield first, second


def subscribe(first, second, key, callback):
    """Declare a subscriber in the second session and wait until the first knows it."""
    subscriber = second.declare_subscriber(key, callback)
    with first.declare_publisher(key) as publisher:
        wait_until(lambda: publisher.matching_status.matching)
    return subscriber


def test_a_direct_callback_that_puts_to_itself_does_not_recurse(session):
    seen = []

    def count_down(sample):
        seen.append(int(str(sample.payload)))
        if seen[-1] > 0:
            session.put("t", str(seen[-1] - 1))

    session.declare_subscriber("t", direct(count_down))
    session.put("t", "3000")
    assert seen == list(range(3000, -1, -1))


def test_puts_of_a_direct_callback_are_delivered_in_order_after_it_returns(session):
    seen = []

    def callback(sample):
        seen.append(f"{sample.payload} begins")
        if str(sample.payload) == "first":
            session.put("t", "second")
            session.put("t", "third")
        seen.append(f"{sample.payload} ends")

    session.declare_subscriber("t", direct(callback))
    session.put("t", "first")
    assert seen == [f"{which} {what}" for which in ("first", "second", "third") for what in ("begins", "ends")]


def test_two_mutually_publishing_direct_callbacks_do_not_recurse(session):
    seen = []

    def passing_on(key):
        def callback(sample):
            seen.append(number := int(str(sample.payload)))
            if number < 3000:
                session.put(key, str(number + 1))

        return direct(callback)

    session.declare_subscriber("ping", passing_on("pong"))
    session.declare_subscriber("pong", passing_on("ping"))
    session.put("ping", "0")
    assert sorted(seen) == list(range(3001))


def test_a_direct_callback_may_ask_a_direct_queryable_of_its_session(session):
    answers = []
    session.declare_queryable("q", direct(lambda query: query.reply("q", "yes")))
    session.declare_subscriber("t", direct(lambda _: answers.extend(session.get("q"))))
    session.put("t", "x")
    assert [str(reply.ok.payload) for reply in answers] == ["yes"]


def test_a_direct_callback_that_undeclares_itself_is_dropped_when_it_has_returned(session):
    seen = []

    def callback(sample):
        seen.append(str(sample.payload))
        if seen == ["now"]:
            session.put("t", "later")
            subscriber.undeclare()

    subscriber = session.declare_subscriber("t", direct(callback, lambda: seen.append("dropped")))
    session.put("t", "now")
    assert seen == ["now", "later", "dropped"]


def test_a_direct_callback_closes_its_session_without_waiting_for_itself(both):
    first, second = both
    took = []

    def close(sample):
        began = time.monotonic()
        second.close()
        took.append(time.monotonic() - began)

    loop = second._node.runtime.engine._thread
    subscribe(first, second, "t", direct(close))
    first.put("t", "x")
    wait_until(lambda: took)
    assert took[0] < 1.0
    assert second.is_closed()
    wait_until(lambda: first.info.peers_zid() == [])  # it received the CLOSE
    loop.join(PATIENCE)
    assert not loop.is_alive()


@pytest.mark.parametrize(
    "wait",
    [
        lambda session, _: list(session.get("q", timeout=1)),
        lambda session, _: session.get("q", timeout=1).recv(1),
        lambda session, _: session.get_table("q", timeout=1),
        lambda _, other: other.recv(),
    ],
)
def test_a_direct_callback_that_would_block_the_event_loop_raises(both, wait):
    first, second = both
    queryable = first.declare_queryable("q")
    other, outcome = second.declare_subscriber("other"), []

    def callback(sample):
        try:
            outcome.append(wait(second, other))
        except zenlake.ZError as error:
            outcome.append(error)

    subscribe(first, second, "t", direct(callback))
    began = time.monotonic()
    first.put("t", "x")
    wait_until(lambda: outcome)
    assert isinstance(outcome[0], DeadlockError)
    assert "indirect" in str(outcome[0])
    assert time.monotonic() - began < 0.9
    first.put("t", "y")  # and it still works
    wait_until(lambda: len(outcome) == 2)
    queryable.undeclare()


def test_a_direct_callback_may_look_without_waiting(both):
    first, second = both
    other, outcome = second.declare_subscriber("other"), []

    def callback(sample):
        outcome.append(other.try_recv())
        try:
            other.recv(0)
        except TimeoutError as error:
            outcome.append(error)

    subscribe(first, second, "t", direct(callback))
    first.put("t", "x")
    wait_until(lambda: len(outcome) == 2)


# Slow callbacks


class Slow:
    """A callback that blocks at its first item until it is released."""

    def __init__(self):
        self.seen, self.begun, self.go_on = [], threading.Event(), threading.Event()

    def __call__(self, sample):
        self.begun.set()
        assert self.go_on.wait(3 * PATIENCE)
        self.seen.append(str(sample.payload))


DROPPED = "messages dropped: no room in a channel"
DROP, BLOCK = zenlake.CongestionControl.DROP, zenlake.CongestionControl.BLOCK


@pytest.fixture
def slow():
    made = Slow()
    yield made
    made.go_on.set()


def fill(session, slow, callback, count):
    """Fill the queue while the callback handles the first sample."""
    subscriber = session.declare_subscriber("t", callback)
    session.put("t", "0")
    assert slow.begun.wait(PATIENCE)
    for number in range(1, count + 1):
        assert session.try_put("t", str(number))
    return subscriber


@pytest.mark.parametrize("how", [lambda slow: slow, lambda slow: Callback(slow, capacity=256, full="block")])
def test_droppable_local_samples_are_dropped_at_a_full_callback_and_counted(session, slow, how):
    fill(session, slow, how(slow), 256)
    assert session.counters().get(DROPPED, 0) == 0
    publisher = session.declare_publisher("t", congestion_control=DROP)
    assert session.try_put("t", "lost") is False
    assert publisher.try_put("lost") is False
    session.put("t", b"lost")
    publisher.put(b"lost")
    assert session.put_table(pa.table({"key": ["t"], "payload": [b"lost"]})) == 0
    assert session.counters()[DROPPED] == 5
    slow.go_on.set()
    wait_until(lambda: len(slow.seen) == 257)
    assert session.try_put("t", "taken again") is True
    wait_until(lambda: slow.seen[-1] == "taken again")
    assert slow.seen[:-1] == [str(number) for number in range(257)]


def test_a_fast_callback_receives_a_complete_burst(session):
    seen = []
    session.declare_subscriber("t", seen.append)
    for _ in range(20_000):
        session.put("t", b"x", congestion_control=DROP)
    wait_until(lambda: len(seen) == 20_000)
    assert session.counters().get(DROPPED, 0) == 0


def test_blocking_local_samples_wait_for_a_full_callback(session, slow):
    fill(session, slow, Callback(slow, capacity=2), 2)

    def put():
        for number in range(3, 100):
            session.put("t", str(number).encode(), congestion_control=BLOCK)

    putting = threading.Thread(target=put)
    putting.start()
    putting.join(0.1)
    assert putting.is_alive()
    slow.go_on.set()
    putting.join(PATIENCE)
    wait_until(lambda: len(slow.seen) == 100)
    assert slow.seen == [str(number) for number in range(100)]
    assert session.counters().get(DROPPED, 0) == 0


def test_closing_lets_go_a_publisher_that_waits(session, slow):
    subscriber = fill(session, slow, Callback(slow, capacity=1), 1)
    putting = threading.Thread(target=lambda: session.put("t", "x", congestion_control=BLOCK))
    putting.start()
    putting.join(0.05)
    began = time.monotonic()
    subscriber.undeclare()
    putting.join(PATIENCE)
    assert not putting.is_alive()
    assert time.monotonic() - began < 1.0


def test_callbacks_never_wait_for_themselves_or_each_other(session):
    seen, count = {"a": [], "b": []}, 200

    def passing_on(key, to):
        def callback(sample):
            seen[key].append(str(sample.payload))
            if str(sample.payload) == "begin":
                for number in range(count):
                    for each in (key, to):
                        session.put(each, f"{key}{number}", congestion_control=BLOCK)

        return Callback(callback, capacity=1)

    session.declare_subscriber("a", passing_on("a", "b"))
    session.declare_subscriber("b", passing_on("b", "a"))
    began = time.monotonic()
    session.put("a", "begin")
    session.put("b", "begin", congestion_control=BLOCK)
    wait_until(lambda: len(seen["a"]) == len(seen["b"]) == 1 + 2 * count)
    assert time.monotonic() - began < PATIENCE
    assert session.counters().get(DROPPED, 0) == 0


@pytest.mark.parametrize(("full", "kept", "outcome"), [("drop_oldest", "678", True), ("drop_newest", "123", False)])
@pytest.mark.parametrize("congestion", [DROP, BLOCK])
def test_a_callback_that_drops_does_not_block_the_publisher(session, slow, full, kept, outcome, congestion):
    fill(session, slow, Callback(slow, capacity=3, full=full), 3)
    began = time.monotonic()
    outcomes = [session.try_put("t", str(number), congestion_control=congestion) for number in range(4, 9)]
    assert time.monotonic() - began < 1.0
    assert outcomes == [outcome] * 5
    assert session.counters()[DROPPED] == 5
    slow.go_on.set()
    wait_until(lambda: len(slow.seen) == 4)
    assert "".join(slow.seen) == "0" + kept


@pytest.mark.parametrize(("full", "kept"), [("drop_oldest", "678"), ("drop_newest", "123")])
def test_a_callback_that_drops_also_drops_samples_from_the_network(both, slow, full, kept):
    first, second = both
    subscribe(first, second, "t", Callback(slow, capacity=3, full=full))
    first.put("t", "0")
    assert slow.begun.wait(PATIENCE)
    for number in range(1, 9):
        first.put("t", str(number))
    wait_until(lambda: second.counters().get(DROPPED) == 5)
    slow.go_on.set()
    wait_until(lambda: len(slow.seen) == 4)
    assert "".join(slow.seen) == "0" + kept


def test_local_samples_wait_in_a_channel(session):
    subscriber = session.declare_subscriber("t", zenlake.handlers.FifoChannel(3))
    for number in range(10):
        assert session.try_put("t", str(number), congestion_control=BLOCK)
    assert [str(subscriber.recv(0).payload) for _ in range(10)] == [str(number) for number in range(10)]


def test_invalid_callback_settings_are_refused():
    for wrong in ({"full": "wait"}, {"capacity": 0}, {"capacity": -1}, {"indirect": False, "capacity": 3},
                  {"indirect": False, "full": "drop_oldest"}):  # fmt: skip
        with pytest.raises(zenlake.ZError):
            Callback(print, **wrong)
    assert repr(Callback(print, capacity=3, full="drop_oldest")).endswith(
        "indirect=True, capacity=3, full='drop_oldest')"
    )


ENDING = """
import sys, time, zenlake
from tests.api.nodes import config

def slow(sample):
    time.sleep(0.1)
    print(sample.payload.to_string())

session = zenlake.open(config())
subscriber = session.declare_subscriber("t", zenlake.handlers.Callback(slow, lambda: print("dropped")))
for number in range(3):
    session.put("t", str(number))
{end}
print("the end")
"""


@pytest.mark.parametrize("end", ["session.close()", "subscriber.undeclare()", "pass"])
def test_a_program_ends_after_its_callbacks_processed_all_received_samples(end):
    """The same as 1.10.2, except that there an unclosed session keeps the process alive."""
    ended = subprocess.run(
        [sys.executable, "-c", ENDING.format(end=end)], capture_output=True, text=True, timeout=30, check=True
    )
    assert ended.stdout.split("\n") == ["the end", "0", "1", "2", "dropped", ""]


STUCK = """
import threading, zenlake
from zenlake.api import handlers
from tests.api.nodes import config

handlers.PATIENCE = 0.2
session = zenlake.open(config())
subscriber = session.declare_subscriber("t", lambda sample: threading.Event().wait())
for number in range(3):
    session.put("t", str(number))
"""


def test_a_callback_that_never_returns_does_not_keep_the_process_alive():
    ended = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=30, check=True)
    assert "a callback did not return within 0.2 s; exiting without it, 2 items are lost" in ended.stderr
