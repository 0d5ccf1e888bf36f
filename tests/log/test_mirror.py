# SPDX-License-Identifier: Apache-2.0
"""A copy in an object store (moto's S3 on loopback): sealed segments, read from there like any other log."""

import pyarrow.fs as pafs
import pytest

from tests.log.recorded import Hasty, interleaved, tables, written
from zenlake.log import Log, Mirror, Retention, Writer, readers, retain, write
from zenlake.wire.transport import KeepAlive

moto_server = pytest.importorskip("moto.server")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def store():
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    s3 = pafs.S3FileSystem(
        access_key="any", secret_key="any", endpoint_override=f"{host}:{port}", scheme="http", region="us-east-1",
        allow_bucket_creation=True,
    )  # fmt: skip
    s3.create_dir("lake")
    yield s3
    server.stop()


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


def test_it_follows_a_writer_in_a_thread_of_its_own(tmp_path, store):
    mirror = Mirror(tmp_path, "w", "lake/live", store)
    with Writer(tmp_path, "w", disk=Hasty()) as writer:
        mirror.start()
        writer.on_seal = mirror.sealed
        face = writer.face("tcp", "a:1", "b:2")
        for _ in range(3):
            writer.append(face, 0, KeepAlive().encode())
            writer.flush()
            writer.seal()
    mirror.close()
    assert Log("lake/live", store).latest() == {"w": [3, 1]}


def test_what_retention_removes_here_stays_readable_there(tmp_path, store):
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


def test_a_store_that_does_not_answer_is_told_and_nothing_is_forgotten(tmp_path, store):
    log = written(tmp_path, interleaved(12))
    gone = pafs.S3FileSystem(
        access_key="any", secret_key="any", endpoint_override="127.0.0.1:9", scheme="http", connect_timeout=0.2,
        region="us-east-1", retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=1),
    )  # fmt: skip
    with pytest.raises(OSError):
        Mirror(tmp_path, "w", "lake/again", gone).catch_up()
    assert Mirror(tmp_path, "w", "lake/again", store).catch_up() == log.segments("w")
