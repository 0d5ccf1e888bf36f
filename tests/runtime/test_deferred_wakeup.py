# SPDX-License-Identifier: Apache-2.0
"""A waiting thread is woken after the current work of the event loop, but before any work that may take long."""

import signal
import threading
import time

import pytest
from bench import raw

from tests.api.nodes import listening
from zenlake.handlers import Callback
from zenlake.runtime.deferred_wakeup import Wakeup
from zenlake.wire.network import Push
from zenlake.wire.transport import Frame
from zenlake.wire.zenoh_body import Put

PATIENCE = 5.0


def test_a_wakeup_wakes_its_waiter_once():
    wakeup, heard = Wakeup(), []
    waiting = threading.Thread(target=lambda: heard.extend([wakeup.wait(PATIENCE), wakeup.wait(0.01)]))
    waiting.start()
    wakeup.wake()
    waiting.join(PATIENCE)
    assert heard == [True, False]


def test_a_signal_is_handled_while_a_bell_is_waited_for():
    seen, before = [], signal.signal(signal.SIGALRM, lambda number, frame: seen.append(time.monotonic()))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        began = time.monotonic()
        assert not Wakeup().wait(0.3)
        over = time.monotonic()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(seen) == 1
    assert began + 0.3 <= over  # it continues to wait
    assert seen[0] < over

    def fail(number, frame):
        raise InterruptedError

    signal.signal(signal.SIGALRM, fail)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(InterruptedError):
            Wakeup().wait(PATIENCE)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_callback_in_the_loop_may_wait_for_a_thread_that_waits_for_the_sample_before():
    """Both samples arrive in one read. The reader of the first is woken before the callback of the second is called."""
    session, where = listening()
    with session, raw.opened(int(where.rpartition(":")[2])) as link:
        taken, done, waited = threading.Event(), threading.Event(), []
        first = session.declare_subscriber("order/1")

        def second(sample):
            waited.append(taken.wait(PATIENCE))
            done.set()

        session.declare_subscriber("order/2", Callback(second, indirect=False))

        def take():
            first.recv(3 * PATIENCE)
            taken.set()

        taking = threading.Thread(target=take)
        taking.start()
        time.sleep(0.05)  # until it waits
        both = [Push(key=key, body=Put(payload=b"x")).encode() for key in ("order/1", "order/2")]
        raw.send(link, Frame(sn=0).encode() + b"".join(both))
        assert done.wait(2 * PATIENCE)
        taking.join(PATIENCE)
        assert waited == [True]
