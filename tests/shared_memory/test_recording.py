# SPDX-License-Identifier: Apache-2.0
"""Recordings on the same host hold the bytes. Recordings of other nodes hold references."""

from pathlib import Path
from typing import Any

import pyarrow as pa

import zenlake
import zenlake.shm
from tests.api.nodes import wait_until
from tests.interop.nodes import QUICK
from tests.shared_memory.nodes import client, is_shared, is_unused, listener
from zenlake.core.enums import WhatAmI
from zenlake.log.recorder import Recorder
from zenlake.log.writer import Writer
from zenlake.runtime.live_node import NodeConfig, open_node
from zenlake.shared_memory.settings import SharedMemorySettings
from zenlake.tap.connection_recorder import ConnectionRecorder
from zenlake.tap.tap import Tap

SIZE = 20_000


def publish(session: zenlake.Session, count: int) -> list[bytes]:
    """Publish in shared memory, also in a message that is fragmented, and wait until the buffers have come back."""
    provider = zenlake.shm.ShmProvider.default_backend(1 << 18)
    publisher = session.declare_publisher("t/x", congestion_control=zenlake.CongestionControl.BLOCK)
    wait_until(lambda: publisher.matching_status.matching)
    payloads = [bytes([i]) * SIZE for i in range(count)]
    for i, payload in enumerate(payloads):
        buffer = provider.alloc(SIZE, zenlake.shm.BlockOn(zenlake.shm.GarbageCollect()))
        buffer[:] = payload
        attachment = b"a" * 200_000 if i == count - 1 else None
        publisher.put(buffer, attachment=attachment)
    del buffer
    wait_until(lambda: is_unused(provider, 1 << 18))
    return payloads


def samples(path: Path) -> pa.Table:
    return zenlake.read(path, "samples", columns=["key", "payload", "payload_size", "shm"])


def test_a_router_records_the_bytes(tmp_path: Path) -> None:
    recorder = Recorder(Writer(tmp_path, "router"))
    settings: dict[str, Any] = {"shared_memory": SharedMemorySettings(), "recording": ConnectionRecorder(recorder)}
    router = open_node(NodeConfig(WhatAmI.ROUTER, (), ("tcp/127.0.0.1:0",), backoff=QUICK, **settings))
    with client(router.locators[0]) as source, client(router.locators[0]) as target:
        got: list[bytes] = []
        target.declare_subscriber("t/**", lambda sample: got.append(bytes(sample.payload)))
        assert is_shared(source) == is_shared(target) == [True]
        sent = publish(source, 20)
        wait_until(lambda: len(got) == 20)
        assert got[:-1] == sent[:-1]
    router.close()
    recorder.close()
    table = samples(tmp_path)
    assert table["shm"].null_count == 40 - 1  # received and sent; the fragmented one is received as it is
    found = [payload for payload in table["payload"].to_pylist() if payload is not None]
    assert sorted(found) == sorted(2 * sent[:-1] + sent[-1:])


def test_a_tap_records_the_bytes(tmp_path: Path) -> None:
    router, where = listener(mode="router")
    with router, client(where) as source, Tap(tmp_path, ["t/**"], connect=[where]) as tap:
        sent = publish(source, 20)
        wait_until(lambda: tap.stats().messages >= 21)
    table = samples(tmp_path)
    assert table["payload"].to_pylist() == sent
    assert table["shm"].null_count == 20
