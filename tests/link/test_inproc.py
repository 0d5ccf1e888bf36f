# SPDX-License-Identifier: Apache-2.0
import os
import threading

import pytest

from zenlake.core.endpoint import EndPoint
from zenlake.link import inproc


def test_an_end_does_not_close_while_the_other_rings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a write could reach a reused descriptor of another file."""
    one, two = inproc.MemoryLink.pair("a")
    inside, go_on, failures = threading.Event(), threading.Event(), []
    write = os.write

    def slow(number: int, data: bytes) -> int:
        inside.set()
        go_on.wait(10)
        return write(number, data)

    def ring() -> None:
        try:
            one.write(memoryview(b"late"))
        except OSError as error:
            failures.append(error)

    monkeypatch.setattr(os, "write", slow)
    ringing = threading.Thread(target=ring)
    ringing.start()
    assert inside.wait(10)
    monkeypatch.undo()
    closing = threading.Thread(target=two.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    go_on.set()
    for thread in (ringing, closing):
        thread.join(10)
        assert not thread.is_alive()
    one.close()
    assert not failures


def test_a_listener_that_closes_leaves_no_link_behind() -> None:
    endpoint = EndPoint.parse("memory/listener")
    before = len(os.listdir("/proc/self/fd"))
    listener = inproc.listen(endpoint)
    link = inproc.connect(endpoint)
    listener.close()
    link.close()
    assert len(os.listdir("/proc/self/fd")) == before
