# SPDX-License-Identifier: Apache-2.0
"""A tap on a router of eclipse-zenoh: it records the published samples, and lost samples are reported."""

import hashlib
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import zenlake
from tests.interop.nodes import Theirs
from tests.interop.partner import Wheel
from tests.runtime.nodes import until
from zenlake.errors import InvalidValue, LinkError, LogError
from zenlake.runtime.connection_manager import Backoff
from zenlake.runtime.metrics import MetricsPage
from zenlake.tables import query
from zenlake.tap.tap import Tap

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "tap.md"
SOON = Backoff(0.05, 1.0, 0.05)


@pytest.fixture
def where(ports: Iterator[int]) -> str:
    return f"tcp/127.0.0.1:{next(ports)}"


def router(where: str) -> Wheel:
    """A router of eclipse-zenoh that sends samples on `to/**` back on `back/to/**`."""
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
    """Return a condition for `count` samples. The end of the reply to the interest in tokens is a message too."""
    return lambda: tap.stats().messages >= count + 1


def ready(tap: Tap) -> None:
    """Wait for the reply to the interest that follows the subscription: the router then knows the subscription."""
    until(received(tap, 0))


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


def test_a_lost_router_is_reported_and_found_again(where: str, tmp_path: Path) -> None:
    wheel = router(where)
    with Tap(tmp_path, ["back/**"], connect=[where], backoff=SOON) as tap:
        publish(where, "to/x", [b"before"])
        until(received(tap, 1))
        wheel.close()
        until(lambda: not tap.stats().connected)
        wheel = router(where)
        until(lambda: tap.stats().connected)
        publish(where, "to/x", [b"after"])
        until(received(tap, 3))  # two samples, and another reply
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
            assert answer.read() == b"ok\n"
        wheel.close()
        until(lambda: not tap.stats().connected)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{address}/health")
        assert refused.value.code == 503
        assert refused.value.read() == b"not connected\n"
        refused.value.close()
        page.close()


def test_mistakes_are_reported(where: str, tmp_path: Path) -> None:
    with pytest.raises(LinkError, match="connection refused"):
        Tap(tmp_path, ["**"], connect=[where])
    with pytest.raises(InvalidValue, match="key expression"):
        Tap(tmp_path, [], connect=[where])
    wheel = router(where)
    with Tap(tmp_path, ["**"], connect=[where]), pytest.raises(LogError, match="is in use by another process"):
        Tap(tmp_path, ["**"], connect=[where])
    wheel.close()


def test_of_values_on_some_keys_the_size_and_the_hash_are_kept(where: str, tmp_path: Path) -> None:
    wheel = Theirs("router", listen=(where,))
    with Tap(tmp_path, ["fleet/**"], connect=[where], metadata_only=["fleet/*/camera/**"]) as tap:
        ready(tap)
        wheel.do("put", "fleet/1/camera/front", 300_000)
        wheel.do("put", "fleet/1/pose", "north")
        wheel.do("put", "fleet/2/camera", "small picture")
        until(received(tap, 3))
    wheel.close()
    table = zenlake.read(tmp_path, columns=["key", "payload", "payload_size", "payload_sha256"]).to_pylist()
    front, pose, small = (tuple(row.values()) for row in table)
    assert front == ("fleet/1/camera/front", None, 300_000, hashlib.sha256(bytes(300_000)).hexdigest())
    assert pose == ("fleet/1/pose", b"north", 5, None)
    assert small == ("fleet/2/camera", None, 13, hashlib.sha256(b"small picture").hexdigest())
    assert sum(path.stat().st_size for path in tmp_path.glob("*/*.arrow")) < 30_000


def test_two_taps_for_safety_end_with_each_sample_once(where: str, tmp_path: Path) -> None:
    """One of the taps ends for a while. Both record the rest."""
    wheel = Theirs("router", listen=(where,))
    base = Tap(tmp_path, ["fleet/**"], connect=[where], name="base")
    spare = Tap(tmp_path, ["fleet/**"], connect=[where], name="spare")
    ready(base)
    ready(spare)
    sent = [f"{number % 3}" for number in range(60)]  # repeated values
    for payload in sent[:20]:
        wheel.do("put", "fleet/1/pose", payload)
    until(received(base, 20))
    base.close()
    for payload in sent[20:40]:
        wheel.do("put", "fleet/1/pose", payload)
    until(received(spare, 40))
    with Tap(tmp_path, ["fleet/**"], connect=[where], name="base") as base, spare:
        ready(base)
        for payload in sent[40:]:
            wheel.do("put", "fleet/1/pose", payload)
        until(received(base, 20))
        until(received(spare, 60))
    wheel.close()
    assert zenlake.read(tmp_path).num_rows == 40 + 60
    once = zenlake.read(tmp_path, columns=["payload"], once=True)["payload"].to_pylist()
    assert once == [payload.encode() for payload in sent]
    [sql] = re.findall(r'zenlake sql "(.*?)" base/log', PAGE.read_text(), re.DOTALL)
    again = query(f"select payload from ({sql}) order by timestamp", tmp_path)
    assert again["payload"].to_pylist() == once


def test_taps_that_split_the_keys_give_one_log(where: str, tmp_path: Path) -> None:
    wheel = Theirs("router", listen=(where,))
    names = {"arms": "fleet/*/arm", "legs": "fleet/*/leg/**"}
    taps = [Tap(tmp_path, [keys], connect=[where], name=name) for name, keys in names.items()]
    for tap in taps:
        ready(tap)
    for number in range(10):
        wheel.do("put", f"fleet/{number}/arm", "a")
        wheel.do("put", f"fleet/{number}/leg/left", "l")
    for tap in taps:
        until(received(tap, 10))
        tap.close()
    wheel.close()
    keys = sorted(zenlake.read(tmp_path, columns=["key"])["key"].to_pylist())
    assert keys == sorted(f"fleet/{n}/{part}" for n in range(10) for part in ("arm", "leg/left"))
