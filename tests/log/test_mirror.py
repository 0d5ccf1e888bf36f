# SPDX-License-Identifier: Apache-2.0
"""A copy in an object store (moto's S3 on loopback): sealed segments, read from there like any other log."""

import signal
import subprocess
import sys
import time

import pyarrow.fs as pafs
import pytest

import zenlake
from tests.log.fixtures import Hasty, interleaved, tables, written
from zenlake.log import Log, Mirror, Retention, Writer, readers, retain
from zenlake.log import writer as write
from zenlake.wire.transport import KeepAlive

moto_server = pytest.importorskip("moto.server")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def where():
    """Return host and port of the store."""
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield "{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture(scope="module")
def store(where):
    s3 = pafs.S3FileSystem(
        access_key="any", secret_key="any", endpoint_override=where, scheme="http", region="us-east-1",
        allow_bucket_creation=True,
    )  # fmt: skip
    s3.create_dir("lake")
    return s3


@pytest.fixture
def begin():
    running = []

    def begins(*words):
        """Start a command and return it with its first line of output."""
        command = [sys.executable, "-c", "from zenlake.cli import main; main()", *map(str, words)]
        running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        return running[-1], running[-1].stderr.readline()

    yield begins
    for process in running:
        process.kill()
        process.communicate()


def recorders(log):
    """Return the sessions with recorded samples so far."""
    return set(zenlake.read(log, columns=["session"])["session"].to_pylist())


def test_a_tap_and_a_router_copy_sealed_segments_to_the_mirror(tmp_path, store, where, begin):
    address = f"s3://any:any@lake/recorded?scheme=http&endpoint_override={where}&region=us-east-1"
    log = tmp_path / "log"
    router, said = begin("router", "-l", "tcp/127.0.0.1:0", "--log", log, "--mirror", address)
    endpoint = said.split(" listens on ")[1].split(",")[0]
    assert f"recording into {log}, copied to lake/recorded" in said
    tap, said = begin("tap", endpoint, "--log", log, "--mirror", address)
    assert f"into {log}, copied to lake/recorded (" in said
    config = zenlake.Config.from_json5(f'{{mode: "client", connect: {{endpoints: ["{endpoint}"]}}}}')
    end = time.monotonic() + 60
    with zenlake.open(config) as session:
        while not all(any(name in row for row in recorders(log)) for name in ("#router.", "#tap.")):
            assert time.monotonic() < end
            session.put("a/b", b"value")
            time.sleep(0.1)
    for process in (tap, router):
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
    copy = Log("lake/recorded", store)
    assert copy.latest() == Log(log).latest()
    assert sorted(copy.latest()) == ["router", "tap"]
    rows = zenlake.read(address, columns=["key", "payload"]).to_pylist()
    assert {(row["key"], row["payload"]) for row in rows} == {("a/b", b"value")}


def test_one_copy_in_a_folder_takes_several_writers(tmp_path):
    for name in ("one", "two"):
        written(tmp_path / "log", interleaved(3), name)
        Mirror(tmp_path / "log", name, str(tmp_path / "copy")).catch_up()
    copy, log = Log(tmp_path / "copy"), Log(tmp_path / "log")
    assert tables(copy, copy.plan()) == tables(log, log.plan())


def test_the_copy_gives_the_same_rows_and_the_mirror_is_a_registered_reader(tmp_path, store, monkeypatch):
    monkeypatch.setattr(write, "LARGE_HEAD", 0)
    log = written(tmp_path, interleaved(11), block_size=400, segment_size=3000)
    mirror = Mirror(tmp_path, "w", "lake/log", store)
    assert mirror.catch_up() == log.segments("w")
    assert mirror.catch_up() == []
    copy = Log("lake/log", store)
    assert copy.latest() == log.latest()
    assert copy.plan(size=1) == log.plan(size=1)
    assert tables(copy, copy.plan()) == tables(log, log.plan())
    assert readers(tmp_path) == {"mirror-of-w": log.latest()}


def test_a_mirror_follows_a_writer_in_a_separate_thread(tmp_path, store):
    mirror = Mirror(tmp_path, "w", "lake/live", store)
    with Writer(tmp_path, "w", disk=Hasty()) as writer:
        mirror.follow(writer)
        face = writer.face("tcp", "a:1", "b:2")
        for _ in range(3):
            writer.append(face, 0, KeepAlive().encode())
            writer.flush()
            writer.seal()
    mirror.close()
    assert Log("lake/live", store).latest() == {"w": [3, 1]}


def test_segments_removed_by_retention_stay_readable_in_the_mirror(tmp_path, store):
    mirror = Mirror(tmp_path, "w", "lake/kept", store)
    with Writer(tmp_path, "w", disk=Hasty()) as writer:
        face = writer.face("tcp", "a:1", "b:2")
        for segment in (1, 2, 3):
            writer.append(face, 0, KeepAlive().encode())
            writer.flush()
            writer.seal()
            assert mirror.catch_up() == [segment]
            assert retain(writer, Retention(size=1)) == [segment]
    copy = Log("lake/kept", store)
    assert [part.segment for part in copy.plan(copy.earliest())] == [1, 2, 3]


def test_an_unreachable_store_is_reported_and_segments_are_copied_later(tmp_path, store):
    log = written(tmp_path, interleaved(12))
    gone = pafs.S3FileSystem(
        access_key="any", secret_key="any", endpoint_override="127.0.0.1:9", scheme="http", connect_timeout=0.2,
        region="us-east-1", retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=1),
    )  # fmt: skip
    with pytest.raises(OSError):
        Mirror(tmp_path, "w", "lake/again", gone).catch_up()
    assert Mirror(tmp_path, "w", "lake/again", store).catch_up() == log.segments("w")
