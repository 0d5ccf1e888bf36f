# SPDX-License-Identifier: Apache-2.0
"""A tap on the real router: what it recorded is what was published, and what it missed is told."""

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import zenlake
from tests.interop.partner import Wheel
from tests.runtime.nodes import until
from zenlake.errors import InvalidValue, LinkError, LogError
from zenlake.runtime.metrics import MetricsPage
from zenlake.runtime.runtime import Backoff
from zenlake.tap.tap import Tap

SOON = Backoff(0.05, 1.0, 0.05)


@pytest.fixture
def where(ports: Iterator[int]) -> str:
    return f"tcp/127.0.0.1:{next(ports)}"


def router(where: str) -> Wheel:
    """The real router; it sends what comes on `to/**` back on `back/to/**`."""
    wheel = Wheel({"mode": "router", "listen/endpoints": [where]})
    wheel.expect("READY")
    return wheel


def publish(where: str, key: str, payloads: list[bytes]) -> None:
    config = zenlake.Config()
    config.insert_json5("mode", '"client"')
    config.insert_json5("connect/endpoints", f'["{where}"]')
    with zenlake.open(config) as session:
        for payload in payloads:
            session.put(key, payload, congestion_control=zenlake.CongestionControl.BLOCK)


def received(tap: Tap, count: int) -> Callable[[], bool]:
    """So many samples; and the end of the answer to its interest in tokens is a message too."""
    return lambda: tap.stats().messages >= count + 1


def test_every_sample_is_in_the_log_in_order(where: str, tmp_path: Path) -> None:
    wheel = router(where)
    payloads = [b"%d" % number for number in range(500)] + [bytes(200_000)]
    with Tap(tmp_path, ["back/**"], connect=[where]) as tap:
        publish(where, "to/x", payloads)
        until(received(tap, 501))
        assert tap.stats().connected
        assert tap.stats().lost == tap.stats().missing == 0
    wheel.close()
    table = zenlake.read(tmp_path, "samples")
    assert table["key"].unique().to_pylist() == ["back/to/x"]
    assert table["payload"].to_pylist() == payloads
    events = zenlake.read(tmp_path, "events")["kind"].to_pylist()
    assert events[0] == "opened"
    assert events[-1] == "closed"


def test_a_lost_router_is_told_and_found_again(where: str, tmp_path: Path) -> None:
    wheel = router(where)
    with Tap(tmp_path, ["back/**"], connect=[where], backoff=SOON) as tap:
        publish(where, "to/x", [b"before"])
        until(received(tap, 1))
        wheel.close()
        until(lambda: not tap.stats().connected)
        wheel = router(where)
        until(lambda: tap.stats().connected)
        publish(where, "to/x", [b"after"])
        until(received(tap, 3))  # two, and another answer
        assert tap.stats().reconnects == 1
    wheel.close()
    assert zenlake.read(tmp_path, "samples")["payload"].to_pylist() == [b"before", b"after"]
    events = zenlake.read(tmp_path, "events")
    assert "reconnected" in events["kind"].to_pylist()


def test_figures_and_health(where: str, tmp_path: Path) -> None:
    from zenlake.cli.tap import _figures, _trouble

    wheel = router(where)
    with Tap(tmp_path, ["back/**"], connect=[where], backoff=None) as tap:
        page = MetricsPage(":0", lambda: _figures(tap.stats(), "one"), lambda: _trouble(tap.stats()))
        address = f"http://127.0.0.1:{page.port}"
        publish(where, "to/x", [b"1", b"2", b"3"])
        until(received(tap, 3))
        with urllib.request.urlopen(f"{address}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        assert 'zenlake_tap_messages_total{tap="one"} 4.0' in lines
        with urllib.request.urlopen(f"{address}/health") as answer:
            assert answer.read() == b"well\n"
        wheel.close()
        until(lambda: not tap.stats().connected)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{address}/health")
        assert refused.value.code == 503
        assert refused.value.read() == b"not connected\n"
        refused.value.close()
        page.close()


def test_mistakes_are_told(where: str, tmp_path: Path) -> None:
    with pytest.raises(LinkError, match="nobody listens there"):
        Tap(tmp_path, ["**"], connect=[where])
    with pytest.raises(InvalidValue, match="key expression"):
        Tap(tmp_path, [], connect=[where])
    wheel = router(where)
    with Tap(tmp_path, ["**"], connect=[where]), pytest.raises(LogError, match="another process writes"):
        Tap(tmp_path, ["**"], connect=[where])
    wheel.close()
