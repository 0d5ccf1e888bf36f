# SPDX-License-Identifier: Apache-2.0
import logging
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from zenlake.core.endpoint import EndPoint
from zenlake.link import tcp
from zenlake.link.base import BaseLink


@contextmanager
def no_file_handle_left() -> Iterator[None]:
    """With a limit below the lowest free descriptor, no file can be opened."""
    free = os.dup(0)
    os.close(free)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_without_file_handles_a_listener_pauses_and_logs_once(caplog: pytest.LogCaptureFixture) -> None:
    listener = tcp.listen(EndPoint.parse("tcp/127.0.0.1:0"))
    links: list[BaseLink] = []
    listener.on_link = links.append
    address = EndPoint.parse(listener.locator).host_and_port()
    with socket.create_connection(address, 5), caplog.at_level(logging.WARNING):
        with no_file_handle_left():
            listener.on_readable(10.0)
            assert not listener.wants_read  # otherwise the pending connection would keep the event loop busy
            retry = listener.next_timeout()
            assert retry is not None
            assert 10.1 <= retry <= 11.0
            listener.on_timeout(retry)
            assert listener.wants_read
            assert listener.next_timeout() is None
            listener.on_readable(retry)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "ulimit -n" in caplog.text
        listener.on_timeout(11.0)
        listener.on_readable(11.0)
        assert len(links) == 1
    links[0].close()
    listener.close()
