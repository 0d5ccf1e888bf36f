# SPDX-License-Identifier: Apache-2.0
"""The lock is exclusive, reentrant, and wakes every waiting thread."""

import sys
import threading

import pytest

from zenlake._compat.rlock import FastRLock


@pytest.fixture
def impatient():
    """Switch threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_one_thread_at_a_time(impatient):
    lock, count, most, inside = FastRLock(), 0, 0, 0

    def work():
        nonlocal count, most, inside
        for _ in range(500):
            with lock:
                inside += 1
                with lock:  # again
                    most = max(most, inside)
                    before = count
                    sum(range(20))  # time to be interrupted
                    count = before + 1
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (count, most) == (4000, 1)


def test_a_condition_waits_with_it():
    lock = FastRLock()
    changed, ready, seen = threading.Condition(lock), threading.Event(), []

    def wait():
        with lock, lock:  # acquired twice, and released completely while it waits
            ready.set()
            seen.append(changed.wait(10))

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert ready.wait(10)
    with lock:
        changed.notify_all()
    waiting.join(10)
    assert seen == [True]
    with lock:  # released again
        pass


def test_a_waiting_thread_acquires_the_lock():
    lock, inside = FastRLock(), threading.Event()
    lock.acquire()
    other = threading.Thread(target=lambda: (lock.acquire(), inside.set(), lock.release()))
    other.start()
    assert not inside.wait(0.05)
    lock.release()
    assert inside.wait(10)
    other.join(10)
