# SPDX-License-Identifier: Apache-2.0
"""CPU time of a tap and of a recording router, compared with a zenoh-python subscriber that only counts.

Each runs in its own process. A bare socket acts as the router of the tap and of the subscriber, and as a publisher for the
recording router. It sends the same prepared batches as fast as they are read. CPU time, including the kernel's, is measured from
the first batch until the last one is counted or on disk. The aim is a quarter: a ratio of 4. With samples of a kilobyte, a recorder
spends most time on copying bytes to the disk. A process that only receives, writes and syncs the same bytes is measured too.

    python -m bench tap
"""

import os
import shutil
import socket
import sys
import tempfile
import threading
from pathlib import Path

from bench import raw
from bench.report import Ratio, Result, show
from bench.router import batches, processor_time
from bench.router import partner as started

PARTNER = "bench.tap"
COUNT = 2_000_000


def tap() -> None:
    """Run the process of the tap. Arguments: port, number of samples, folder."""
    from zenlake.tap.tap import Tap

    port, count, folder = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    with Tap(folder, ["**"], connect=[f"tcp/127.0.0.1:{port}"], when_full="block") as running:
        print("ready", flush=True)
        while running.stats().messages < count:
            running.wait(0.05)
        running.recorder.flush()
        assert running.stats().lost == 0
        print("done", flush=True)
        sys.stdin.read()


def record() -> None:
    """Run the process of the recording router. Arguments: number of samples, folder."""
    from zenlake.core.enums import WhatAmI
    from zenlake.log.recorder import Recorder
    from zenlake.log.writer import Writer
    from zenlake.runtime.live_node import NodeConfig, open_node
    from zenlake.tap.connection_recorder import ConnectionRecorder

    count, folder = int(sys.argv[2]), sys.argv[3]
    with Recorder(Writer(folder, "router"), when_full="block") as recorder:
        config = NodeConfig(WhatAmI.ROUTER, listen=("tcp/127.0.0.1:0",), recording=ConnectionRecorder(recorder))
        with open_node(config) as node:
            node.declare_subscriber(b"**", None)
            print(node.locators[0].rpartition(":")[2], flush=True)
            while sum(traffic.messages_in for traffic in node.traffic().values()) < count:
                threading.Event().wait(0.05)
            recorder.flush()
            assert recorder.lost == 0
            print("done", flush=True)
            sys.stdin.read()


def count() -> None:
    """Run the process of the subscriber. Arguments: port, number of samples."""
    import zenoh

    port, wanted = int(sys.argv[2]), int(sys.argv[3])
    config = zenoh.Config()
    for key, value in {
        "mode": '"client"',
        "connect/endpoints": f'["tcp/127.0.0.1:{port}"]',
        "scouting/multicast/enabled": "false",
    }.items():
        config.insert_json5(key, value)
    came = 0
    done = threading.Event()

    def got(sample: object) -> None:
        nonlocal came
        came += 1
        if came == wanted:
            done.set()

    with zenoh.open(config) as session:
        subscriber = session.declare_subscriber("**", got)
        print("ready", flush=True)
        done.wait()
        print("done", flush=True)
        sys.stdin.read()
        subscriber.undeclare()


def floor() -> None:
    """Run the process that receives bytes into 4 MiB, writes them to a file and syncs it, without decoding.

    It drops the written pages from the page cache, as a tap does with older segments."""
    port, folder = int(sys.argv[2]), Path(sys.argv[4])
    link = raw.opened(port)
    link.settimeout(None)
    print("ready", flush=True)
    memory = memoryview(bytearray(4 << 20))
    filled = written = 0
    with (folder / "bytes").open("wb", buffering=0) as file:
        while size := link.recv_into(memory[filled:]):
            filled += size
            if filled == len(memory):
                file.write(memory)
                os.fdatasync(file.fileno())
                os.posix_fadvise(file.fileno(), written, filled, os.POSIX_FADV_DONTNEED)
                written += filled
                filled = 0
        file.write(memory[:filled])
        os.fdatasync(file.fileno())
    print("done", flush=True)
    sys.stdin.read()


def drain(link: socket.socket) -> None:
    """Read and discard the messages of the other end, so that it never waits."""
    try:
        while link.recv(1 << 16):
            pass
    except OSError:
        pass


def computed(role: str, size: int, samples: int) -> float:
    """Return the samples per CPU second of the process."""
    load = list(batches(size, 100, samples))
    folder = Path(tempfile.mkdtemp())
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        words = (role, samples, folder) if role == "record" else (role, port, samples, folder)
        if role == "record":
            process, own = started(*words, module=PARTNER)
            link = raw.opened(int(own))
        else:
            links: list[socket.socket] = []
            accepting = threading.Thread(target=lambda: links.append(raw.accepted(listener)))
            accepting.start()
            process, _ = started(*words, module=PARTNER)
            accepting.join()
            [link] = links
        try:
            link.settimeout(None)
            threading.Thread(target=drain, args=(link,), daemon=True).start()
            threading.Event().wait(0.5)  # wait until its start is over
            before = processor_time(process.pid)
            for batch in load:
                link.sendall(batch)
            if role == "floor":
                link.shutdown(socket.SHUT_WR)
            threading.Thread(target=raw.keep_alive, args=(link, stop), daemon=True).start()
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "done"
            return samples / (processor_time(process.pid) - before)
        finally:
            stop.set()
            process.communicate()
            link.close()
            shutil.rmtree(folder)


def run(quick: bool) -> list[Result]:
    samples, repeats = (COUNT // 4, 1) if quick else (COUNT, 5)
    results = []
    for size in (64, 1000) if quick else (8, 64, 1000):
        some = samples // (2 if size == 1000 else 1)
        roles = ("count", "tap", "record", "floor")
        found = [[computed(role, size, some) for role in roles] for _ in range(repeats)]
        workload = f"{size} bytes, samples a second of processor time"
        for i, (name, aim) in enumerate([("tap", 4.0), ("recording router", None), ("bytes to the disk", None)], 1):
            ratios = [Ratio(each[i], each[0]) for each in found]
            results.append(Result(f"{name}, {workload}", "zenoh-python counting", ratios, aim))
    return results


if __name__ == "__main__":
    roles = {"tap": tap, "record": record, "count": count, "floor": floor}
    if len(sys.argv) > 1 and sys.argv[1] in roles:
        roles[sys.argv[1]]()
    else:
        show(run("--quick" in sys.argv))
