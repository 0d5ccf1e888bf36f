# SPDX-License-Identifier: Apache-2.0
"""Samples of 1 MB from the wheel to our subscriber through shared memory.

The peers are TCP, and the wheel at both ends with shared memory. There are two processes. The publisher is the wheel, with a
provider of 16 buffers. The subscriber reads every byte, as the sum of 64-bit words. With TCP the publisher sends bytes. The
subscriber that uses `as_shm()` has a callback on the receiving thread.

    python -m bench.shm
"""

import importlib
import json
import subprocess
import sys
import time
from typing import Any

from bench.report import Ratio, Result, show

WHAT = "1 MB samples from the wheel in shared memory"
SIZE = 1 << 20
COUNT = 1500
BUFFERS = 16
ENDPOINT = "tcp/127.0.0.1:17497"
BLOCK = "transport/shared_memory/enabled"


def open_session(library: Any, is_shared: bool, **settings: Any) -> Any:
    config = library.Config()
    settings = {
        "mode": "peer",
        "listen/endpoints": [],
        "scouting/multicast/enabled": False,
        BLOCK: is_shared,
    } | settings
    for key, value in settings.items():
        config.insert_json5(key, json.dumps(value))
    return library.open(config)


def receive(name: str, kind: str, count: str) -> None:
    """Print the seconds from the first to the last sample."""
    import numpy

    library: Any = importlib.import_module(name)
    importlib.import_module(f"{name}.shm")
    session = open_session(library, kind != "tcp", **{"connect/endpoints": [ENDPOINT]})
    left, began, total = int(count), 0.0, 0

    def got(sample: Any) -> None:
        nonlocal left, began, total
        began = began or time.perf_counter()
        payload = sample.payload
        if kind == "view":
            data = payload.as_shm().view
        else:
            data = payload if name == "zenlake" else payload.to_bytes()
        total += int(numpy.frombuffer(data, numpy.uint64).sum())
        left -= 1
        if left == 0:
            print(time.perf_counter() - began, flush=True)

    direct = kind == "view" and name == "zenlake"  # a callback on the receiving thread, before the copy
    handler = library.handlers.Callback(got, indirect=False) if direct else got
    subscriber = session.declare_subscriber("bench/shm", handler)
    sys.stdin.read()
    subscriber.undeclare()
    session.close()


def measure(name: str, kind: str, count: int) -> float:
    """Return the bytes per second."""
    import zenoh
    import zenoh.shm

    session = open_session(zenoh, kind != "tcp", **{"listen/endpoints": [ENDPOINT]})
    publisher = session.declare_publisher("bench/shm", congestion_control=zenoh.CongestionControl.BLOCK)
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.shm", "receive", name, kind, str(count)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        while not publisher.matching_status.matching:
            time.sleep(0.01)
        data = bytes(range(256)) * (SIZE // 256)
        if kind == "tcp":
            for _ in range(count):
                publisher.put(data)
        else:
            provider = zenoh.shm.ShmProvider.default_backend((SIZE + 64) * BUFFERS)
            policy = zenoh.shm.BlockOn(zenoh.shm.GarbageCollect())
            for _ in range(count):
                publisher.put(provider.alloc(SIZE, policy))
        assert process.stdout is not None
        took = float(process.stdout.readline())
    finally:
        process.communicate()
        session.close()
    return SIZE * (count - 1) / took


def run(quick: bool) -> list[Result]:
    count = COUNT // 5 if quick else COUNT
    rounds = [
        {
            "copy": measure("zenlake", "copy", count),
            "view": measure("zenlake", "view", count),
            "tcp": measure("zenlake", "tcp", count),
            "wheel": measure("zenoh", "copy", count),
        }
        for _ in range(3)
    ]

    def against(ours: str, other: str) -> list[Ratio]:
        return [Ratio(each[ours], each[other]) for each in rounds]

    return [
        Result(f"{WHAT}, copied", "the same over TCP", against("copy", "tcp"), 3.0),
        Result(f"{WHAT}, as_shm()", "a subscriber of the wheel", against("view", "wheel"), 1 / 1.2),
    ]


if __name__ == "__main__":
    if sys.argv[1:2] == ["receive"]:
        receive(*sys.argv[2:5])
    else:
        show(run("--quick" in sys.argv))
