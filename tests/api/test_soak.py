# SPDX-License-Identifier: Apache-2.0
"""Mixed traffic for a long time, with sessions that come and go: memory and file handles do not grow.

`make soak` runs it for ten minutes; `ZENLAKE_SOAK=60` sets the seconds.
"""

import gc
import os
import random
import threading
import time
from pathlib import Path

import pytest

import zenlake
from tests.api.nodes import config, listening

SECONDS = float(os.environ.get("ZENLAKE_SOAK", "600"))
BLOCK = zenlake.CongestionControl.BLOCK


def resident():
    """Return the bytes of memory in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def handles():
    return len(os.listdir("/proc/self/fd"))


class Guest:
    """A client that uses every operation and leaves, sometimes without a CLOSE.

    (Its callbacks do not hold it: a session whose own callback holds it is in use until it is closed.)
    """

    def __init__(self, where, seed):
        self.random = random.Random(seed)
        self.session = zenlake.open(config("client", where))

    def stay(self):
        came = threading.Event()
        session, key = self.session, f"soak/{self.random.randrange(50)}"
        kinds = [
            None,
            zenlake.handlers.RingChannel(3),
            zenlake.handlers.ArrowChannel(100),
            lambda sample: came.set(),
        ]
        subscriber = session.declare_subscriber("soak/**", self.random.choice(kinds))
        token = session.liveliness().declare_token(f"{key}/alive")
        queryable = session.declare_queryable(key, lambda query: query.reply(query.key_expr, b"answer"))
        publisher = session.declare_publisher(key, congestion_control=BLOCK)
        for number in range(self.random.randrange(200)):
            publisher.put(self.random.randbytes(self.random.choice((8, 64, 5000))), attachment=b"%d" % number)
            session.put(f"{key}/{number}", b"value")
        session.put(key, self.random.randbytes(200_000), congestion_control=BLOCK)
        for _ in session.get("soak/*", timeout=5):
            pass
        for declared in (subscriber, token, queryable, publisher):
            if self.random.random() < 0.5:
                declared.undeclare()
        if self.random.random() < 0.5:
            session.close()


def settled(handle_count, thread_count):
    """Wait until the sessions of clients that left are removed."""
    deadline = time.monotonic() + 30
    while handles() > handle_count or threading.active_count() > thread_count:
        assert time.monotonic() < deadline, f"{handles()} handles, {threading.active_count()} threads are left"
        gc.collect()
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.timeout(SECONDS * 2 + 120)
def test_nothing_grows():
    router, where = listening(mode="router")
    end = time.monotonic() + SECONDS
    memory, guests = [], 0
    with router, zenlake.open(config("client", where)) as resident_session:
        resident_session.declare_subscriber("soak/**", lambda sample: sample.payload)
        resident_session.liveliness().declare_subscriber("soak/**", lambda sample: None)
        before = handles(), threading.active_count()
        while time.monotonic() < end:
            for _ in range(4):
                for guest in [Guest(where, guests + number) for number in range(5)]:
                    guest.stay()
                    guests += 1
                del guest
            settled(*before)
            memory.append(resident() >> 20)
            print(f"{guests} guests, {memory[-1]} MiB")
    half = len(memory) // 2
    assert half > 1, "too short to compare"
    # The first rounds fill the caches. Afterwards memory may vary, but not grow.
    assert max(memory[half:]) < max(memory[1 : half + 1]) * 1.15 + 8, memory
