# SPDX-License-Identifier: Apache-2.0
"""Callbacks that run where messages are received, and what they may do; callbacks that are too slow."""

import time

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


def told(first, second, key, callback):
    """A subscriber of the second that the first knows of."""
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


def test_what_a_direct_callback_puts_comes_after_it_has_returned_in_order(session):
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


def test_two_direct_callbacks_that_put_to_each_other_do_not_recurse(session):
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
    told(first, second, "t", direct(close))
    first.put("t", "x")
    wait_until(lambda: took)
    assert took[0] < 1.0
    assert second.is_closed()
    wait_until(lambda: first.info.peers_zid() == [])  # it was told
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
def test_a_direct_callback_that_would_wait_for_the_loop_is_told_so_at_once(both, wait):
    first, second = both
    queryable = first.declare_queryable("q")
    other, outcome = second.declare_subscriber("other"), []

    def callback(sample):
        try:
            outcome.append(wait(second, other))
        except zenlake.ZError as error:
            outcome.append(error)

    told(first, second, "t", direct(callback))
    began = time.monotonic()
    first.put("t", "x")
    wait_until(lambda: outcome)
    assert isinstance(outcome[0], DeadlockError)
    assert "indirect" in str(outcome[0])
    assert time.monotonic() - began < 0.9
    first.put("t", "y")  # and it lives on
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

    told(first, second, "t", direct(callback))
    first.put("t", "x")
    wait_until(lambda: len(outcome) == 2)
