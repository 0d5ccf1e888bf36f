# SPDX-License-Identifier: Apache-2.0
"""Taps and recording routers under load, killed or without power at every named point: rows seen by a reader exist once."""

import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import zenlake
from tests.log.fixtures import tables
from zenlake.errors import LogError, ZenlakeError
from zenlake.log import Log, Writer
from zenlake.log.verify_repair import verify

ROOT = Path(__file__).parent.parent.parent
POINTS = ["create", "write", "written", "sync", "synced", "ended", "sealed", "uploading", "uploaded"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def config(mode, connect=None):
    found = zenlake.Config.from_json5("{scouting: {multicast: {enabled: false}}}")
    found.insert_json5("mode", f'"{mode}"')
    if connect is None:
        found.insert_json5("listen/endpoints", '["tcp/127.0.0.1:0"]')
    else:
        found.insert_json5("connect/endpoints", f'["{connect}"]')
    return found


class Load:
    """A publisher of consecutive numbers, a few thousand per second, each once."""

    def __init__(self):
        self.next = 0
        self._stop = threading.Event()

    def run(self, session):
        """Send until `stop`, or until there is no receiver."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._publish, args=(session,))
        self._thread.start()

    def stop(self):
        self._stop.set()
        self._thread.join()

    def _publish(self, session):
        try:
            while not self._stop.wait(0.01):
                for _ in range(40):
                    session.put("n", b"%d" % self.next + b"x" * 80, congestion_control=zenlake.CongestionControl.BLOCK)
                    self.next += 1
        except ZenlakeError:
            pass


class Reader:
    """A reader that follows a growing log and stores the rows that it received."""

    def __init__(self, path):
        self.path = path
        self.numbers = []
        self.offsets = {}

    def look(self):
        if (self.path / "zenlake-log.json").exists():
            log = Log(self.path)
            # After a power cut the index may be shorter until the writer starts again. A reader does not go back.
            end = {name: max(offset, self.offsets.get(name, [0, 0])) for name, offset in log.latest().items()}
            try:
                parts = [part for part in log.plan(self.offsets, end) if part.rows]
                rows = tables(log, parts, {"samples": ["payload"]})["samples"]["payload"].to_pylist()
            except LogError as error:
                if "is not in the index" in str(error) or "a power cut" in str(error):  # during the read
                    return
                raise
            self.numbers += [int(row.rstrip(b"x")) for row in rows]
            self.offsets = end


def publisher(endpoint, process):
    """Open a client of the recording router. Return None if the router ended before."""
    try:
        return zenlake.open(config("client", endpoint))
    except ZenlakeError:
        assert process.wait(20) == -signal.SIGKILL
        return None


def life(role, endpoint, log, sync, point, after, power, load, session, reader):
    """Start the process and wait until it ends at the named point."""
    command = [sys.executable, "-m", "tests.tap.crash_child", role, endpoint, log, sync, point, after, int(power)]
    process = subprocess.Popen(list(map(str, command)), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        alive = process.stdout.readline() == "ready\n"
        own = publisher(endpoint, process) if alive and role == "router" else None
        alive = alive and (own is not None or role == "tap")
        if alive:
            load.run(own or session)
        while process.poll() is None:
            reader.look()
            time.sleep(0.02)
        if alive:
            load.stop()
        if own is not None:
            own.close()
        assert process.returncode == -signal.SIGKILL
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power cut"])
@pytest.mark.parametrize("sync", ["block", "0.3", "sealed"])
@pytest.mark.parametrize("role", ["tap", "router"])
def test_rows_that_a_reader_saw_exist_once(tmp_path, role, sync, power):
    log = tmp_path / "log"
    r = random.Random(f"{role}{sync}{power}")
    load, reader = Load(), Reader(log)
    with zenlake.open(config("router")) as session:
        endpoint = session._node.locators[0]
        for point in POINTS:
            where = endpoint if role == "tap" else f"tcp/127.0.0.1:{free_port()}"
            after = r.randrange(1, 4) + 2 * (point in ("write", "sync"))  # the first writes are of a head
            life(role, where, log, sync, point, after, power, load, session, reader)
    with Writer(log, "w") as writer:  # repairs the log of the last writer
        assert writer.epoch > len(POINTS) // 2
    found = Reader(log)
    found.look()
    assert len(found.numbers) == len(set(found.numbers))
    assert len(reader.numbers) == len(set(reader.numbers)) > 500
    assert set(reader.numbers) <= set(found.numbers)
    assert [one.wrong for one in verify(Log(log)) if one.wrong] == []
    copy = Reader(Path(f"{log}.copy"))
    copy.look()
    assert len(copy.numbers) == len(set(copy.numbers))
    assert set(copy.numbers) <= set(found.numbers)
    events = zenlake.read(log, "events", columns=["kind", "count"]).to_pylist()
    assert all(row["count"] > 0 for row in events if row["kind"] == "log torn")
    assert power or any(row["kind"] == "log torn" for row in events)  # a kill inside a write leaves a part of the block


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
