# SPDX-License-Identifier: Apache-2.0
"""A sample of a hundred megabytes: from a log and a capture, into a lake, through the sink, the network and a tap."""

import hashlib
import random
import socket

import duckdb
import pytest

import zenlake
from tests.interop.nodes import Theirs
from tests.lake.fixtures import MIDNIGHT
from tests.spark.landing import until
from zenlake.log import Log, Writer
from zenlake.log.pcapng_export import export
from zenlake.tap.tap import Tap
from zenlake.wire.handshake import Init, Open
from zenlake.wire.network import Push
from zenlake.wire.transport import Fragment
from zenlake.wire.zenoh_body import Put

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]

PAYLOAD = random.Random(1).randbytes(100_000_000)
MD5 = hashlib.md5(PAYLOAD).hexdigest()


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "log"
    message = Push(key="big/one", body=Put(payload=PAYLOAD)).encode()
    pieces = [message[i : i + 60_000] for i in range(0, len(message), 60_000)]
    with Writer(path, "tap-1", sync="sealed") as writer:
        face = writer.face("tcp", "10.0.0.1:40000", "10.0.0.2:7447")
        for direction, said in (
            (0, Init(zid=b"\x01", qos=True, patch=1)),
            (1, Init(ack=True, whatami=0, zid=b"\x02", cookie=b"c", qos=True, patch=1)),
            (0, Open(seconds=True, lease=10, initial_sn=0, cookie=b"c")),
            (1, Open(ack=True, seconds=True, lease=10, initial_sn=0)),
        ):
            writer.append(face, direction, said.encode(), received=MIDNIGHT)
        for sn, piece in enumerate(pieces):
            fragment = Fragment(reliable=True, sn=sn, first=sn == 0, more=sn + 1 < len(pieces), payload=piece)
            writer.append(face, 0, fragment.encode(), received=MIDNIGHT + sn)
    return path


def digest(rows):
    return [tuple(row) for row in rows.selectExpr("key", "length(payload)", "md5(payload)").collect()]


def test_a_log_and_a_lake(spark, log, tmp_path):
    options = {"maxBytesPerTrigger": "30000000"}
    zenlake.spark.land(spark, log, tmp_path / "lake", ["samples"], options=options).awaitTermination()
    [landed] = duckdb.sql(
        f"select key, octet_length(payload), md5(payload) from '{tmp_path}/lake/samples/*/*.parquet'"
    ).fetchall()
    assert [landed] == digest(spark.read.format("zenoh").load(str(log))) == [("big/one", len(PAYLOAD), MD5)]


def test_a_capture(spark, log, tmp_path):
    export(Log(log), tmp_path / "big.pcapng")
    assert digest(spark.read.format("zenoh_capture").load(str(tmp_path / "big.pcapng"))) == [
        ("big/one", len(PAYLOAD), MD5)
    ]


def test_the_sink_the_network_and_a_tap(spark, log, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        where = f"tcp/127.0.0.1:{free.getsockname()[1]}"
    router = Theirs("router", listen=(where,))
    try:
        with Tap(tmp_path / "again", ["big/**"], connect=[where], when_full="block"):
            router.do("pub", "big", "big/one")
            until(lambda: router.do("matching", "big"), "it subscribes")
            rows = spark.read.format("zenoh").option("columns", "key,payload").load(str(log))
            rows.write.format("zenoh").option("connect", where).mode("append").save()
            until(lambda: zenlake.read(tmp_path / "again", columns=["key"]).num_rows == 1, "the tap has it")
    finally:
        router.close()
    [row] = zenlake.read(tmp_path / "again").to_pylist()
    assert (row["key"], hashlib.md5(row["payload"]).hexdigest()) == ("big/one", MD5)
    assert digest(spark.read.format("zenoh").load(str(tmp_path / "again"))) == [("big/one", len(PAYLOAD), MD5)]
