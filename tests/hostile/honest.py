# SPDX-License-Identifier: Apache-2.0
"""Honest clients beside an attack. Each repeats one operation and records how long it took.

The clients are raw sockets in this process, so that their own cost stays small and constant.
"""

import socket
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tests.hostile.client import CONTROL, Raw
from zenlake.wire.declare import Declare, DeclareEntity, DeclareFinal, Interest
from zenlake.wire.handshake import Close
from zenlake.wire.network import Push, Request, Response, ResponseFinal
from zenlake.wire.zenoh_body import Put, Query, Reply

SUBSCRIBER, QUERYABLE = 0x02, 0x04
CURRENT, SUBSCRIBERS = 1, 0x02
PAUSE = 0.02
LONGEST_WAIT = 10.0
PING, ANSWER = "honest/ping", "honest/answer"


@dataclass
class Wait:
    """One operation: when it began, how many seconds it took, and its error if it failed."""

    operation: str
    began: float
    seconds: float
    error: str = ""


class Operation(threading.Thread):
    """Repeat one operation until `stop`. A failure is recorded, and the clients connect again."""

    def __init__(self, name: str, endpoints: dict[str, str], waits: list[Wait], stop: threading.Event) -> None:
        super().__init__(name=f"honest-{name}", daemon=True)
        self.operation, self.endpoints, self.waits, self.stop = name, endpoints, waits, stop
        self.where = endpoints["tcp"]
        self.pause = PAUSE
        self.ready = threading.Event()
        self.links: list[Raw] = []

    def run(self) -> None:
        began = time.monotonic()
        once: Callable[[], None] | None = None
        while not self.stop.is_set():
            try:
                if once is None:
                    once = getattr(self, f"prepare_{self.operation}")()
                began = time.monotonic()
                once()
                self.record(began)
                self.ready.set()
            except (OSError, AssertionError) as error:
                if not self.stop.is_set():
                    self.record(began, repr(error))
                    self.disconnect()
                    once = None
            self.stop.wait(self.pause)
        self.disconnect()

    def record(self, began: float, error: str = "") -> None:
        self.waits.append(Wait(self.operation, began, time.monotonic() - began, error))

    def connect(self) -> Raw:
        link = Raw(self.where, LONGEST_WAIT).open()
        self.links.append(link)
        return link

    def disconnect(self) -> None:
        for link in self.links:
            link.close()
        self.links.clear()

    def prepare_open(self) -> Callable[[], None]:
        """Open a session and close it."""

        def once() -> None:
            with Raw(self.where, LONGEST_WAIT) as link:
                link.open()
                link.send(Close(session=True, reason=0).encode())

        return once

    def prepare_page(self) -> Callable[[], None]:
        """Get the page of metrics."""
        url = self.endpoints["metrics"].replace("http/", "http://") + "/metrics"
        self.pause = 10 * PAUSE

        def once() -> None:
            with urllib.request.urlopen(url, timeout=LONGEST_WAIT) as page:
                assert b"zenlake_router_sessions" in page.read()

        return once

    def prepare_put(self) -> Callable[[], None]:
        """Put a sample; a subscriber receives it."""
        publisher, subscriber = self.connect(), self.connect()
        subscriber.say(Declare(body=DeclareEntity(kind=SUBSCRIBER, id=1, key=PING)), priority=CONTROL)
        time.sleep(0.1)
        numbers = iter(range(1 << 60))

        def once() -> None:
            payload = b"%d" % next(numbers)
            publisher.say(Push(key=PING, body=Put(payload=payload)))
            while not any(
                isinstance(one, Push) and one.put.payload.value == payload for one in subscriber.receive_all()
            ):
                pass

        return once

    def prepare_interest(self) -> Callable[[], None]:
        """Ask for the current subscribers of one key and wait for the final declaration."""
        declarer, asker = self.connect(), self.connect()
        declarer.say(Declare(body=DeclareEntity(kind=SUBSCRIBER, id=1, key="honest/known")), priority=CONTROL)
        time.sleep(0.1)
        numbers = iter(range(1, 1 << 30))

        def once() -> None:
            number = next(numbers)
            asker.say(Interest(mode=CURRENT, id=number, options=SUBSCRIBERS, key="honest/known"), priority=CONTROL)
            while not any(
                isinstance(one, Declare) and one.interest_id == number and isinstance(one.body, DeclareFinal)
                for one in asker.receive_all()
            ):
                pass

        return once

    def prepare_get(self) -> Callable[[], None]:
        """Query a queryable and wait for its reply and the end of replies."""
        asker = self.connect()
        answering = Answering(self.connect(), self.stop)
        answering.start()
        time.sleep(0.1)
        return self._queries(asker)

    def prepare_ask(self) -> Callable[[], None]:
        """Query the node itself."""
        return self._queries(self.connect())

    def _queries(self, asker: Raw) -> Callable[[], None]:
        numbers = iter(range(1, 1 << 30))

        def once() -> None:
            number = next(numbers)
            asker.say(Request(id=number, key=ANSWER, body=Query()))
            replied = final = False
            while not final:
                for one in asker.receive_all():
                    replied |= isinstance(one, Response) and one.id == number
                    final |= isinstance(one, ResponseFinal) and one.id == number
            assert replied, "a query ended without a reply"

        return once


class Answering(threading.Thread):
    """Reply to each query on ANSWER."""

    def __init__(self, link: Raw, stop: threading.Event) -> None:
        super().__init__(name="honest-queryable", daemon=True)
        self.link = link
        self.stop = stop
        link.say(Declare(body=DeclareEntity(kind=QUERYABLE, id=1, key=ANSWER)), priority=CONTROL)

    def run(self) -> None:
        while not self.stop.is_set():
            try:
                for one in self.link.receive_all():
                    if isinstance(one, Request):
                        reply = Response(id=one.id, key=ANSWER, body=Reply(body=Put(payload=b"value")))
                        self.link.say(reply, ResponseFinal(id=one.id))
            except TimeoutError:
                continue  # no query in all that time
            except OSError:
                return


ROUTED = ("put", "get", "interest", "open", "page")
"""Operations through a router of ours."""
REFERENCE = ("put", "get", "open")
"""Operations through the reference router."""
DIRECT = ("ask", "open")
"""Operations with a peer that answers queries itself."""


class Honest:
    """Run all operations until `close`, each in a thread of its own."""

    def __init__(self, endpoints: dict[str, str], operations: tuple[str, ...] = ROUTED) -> None:
        self.waits: list[Wait] = []
        self._stop = threading.Event()
        self._threads = [Operation(name, endpoints, self.waits, self._stop) for name in operations]
        self.operations = operations
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            assert thread.ready.wait(LONGEST_WAIT), f"{thread.operation} does not work before the attack"

    def longest(self, since: float = 0.0, until: float = float("inf")) -> dict[str, Wait]:
        """Return the longest wait of each operation among those that ran between these times."""
        found: dict[str, Wait] = {}
        for wait in list(self.waits):
            if wait.began < until and wait.began + wait.seconds >= since:
                most = found.get(wait.operation)
                if most is None or (bool(wait.error), wait.seconds) > (bool(most.error), most.seconds):
                    found[wait.operation] = wait
        return found

    def settle(self) -> None:
        """Let each operation finish once more. An operation that does not finish is recorded as a failure."""
        since = time.monotonic()
        missing = set(self.operations)
        while missing and time.monotonic() < since + LONGEST_WAIT:
            time.sleep(PAUSE)
            missing -= {wait.operation for wait in list(self.waits) if wait.began >= since}
        self.waits.extend(Wait(name, since, time.monotonic() - since, "no result") for name in missing)

    def close(self) -> None:
        """End the clients."""
        self._stop.set()
        for thread in self._threads:
            for link in list(thread.links):
                with suppress(OSError):
                    link.socket.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(LONGEST_WAIT + 1)
