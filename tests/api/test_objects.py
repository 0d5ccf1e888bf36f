# SPDX-License-Identifier: Apache-2.0
"""Columns need no Python object per message: twice as many messages need hardly more allocations.

Every allocation is counted. The allocations per record batch, read and write are allowed.
"""

import socket
import threading

import pyarrow as pa
import pytest
from bench import raw

import zenlake
from tests.api.allocations import Counter, compiler
from tests.api.nodes import config, listening
from zenlake.core.enums import ConsolidationMode
from zenlake.handlers import ArrowChannel
from zenlake.wire.batch_reader import messages
from zenlake.wire.declare import Declare, DeclareEntity, DeclareKeyExpr
from zenlake.wire.network import Push, Request, Response, ResponseFinal
from zenlake.wire.raw_memory import COMPILED
from zenlake.wire.transport import Frame
from zenlake.wire.zenoh_body import Put, Reply

pytestmark = [
    pytest.mark.skipif(not COMPILED, reason="uncompiled every message is many objects"),
    pytest.mark.skipif(compiler() is None, reason="counting them takes a C compiler"),
]

COUNT = 19_600
EACH = 392  # messages of a batch
KEYS = [f"fleet/{number}/pose" for number in range(7)]
PAYLOAD = b"<64 bytes: what a robot says of itself, as short as it can be.>!"
PATIENCE = 20.0


@pytest.fixture(scope="module")
def counter(tmp_path_factory):
    return Counter(tmp_path_factory.mktemp("counter"))


def assert_none_for_a_message(counter, work):
    """Run `work(count)` once as a warm-up, then with COUNT messages and with twice as many."""
    taken = []
    counter.begin()
    try:
        for count in (COUNT, COUNT, 2 * COUNT):
            before = counter.counted()
            work(count)
            taken.append(counter.counted() - before)
    finally:
        counter.end()
    assert taken[2] - taken[1] < COUNT / 4, f"{taken} allocations"


def batches(sn, count, some):
    """Return `count` messages in batches with length prefixes."""
    body = b"".join(some) * (EACH // len(some))
    each = [Frame(sn=sn + number).encode() + body for number in range(count // EACH)]
    return b"".join(len(batch).to_bytes(2, "little") + batch for batch in each)


def test_arrow_channel(counter):
    session, where = listening()
    with session, raw.opened(int(where.rpartition(":")[2])) as link:
        subscriber = session.declare_subscriber("fleet/**", ArrowChannel())
        keys = [Declare(qos=8, body=DeclareKeyExpr(id=id, key=key)).encode() for id, key in enumerate(KEYS, 1)]
        raw.send(link, Frame(sn=0).encode() + b"".join(keys))
        some = [Push(key=(id, True, None), body=Put(payload=PAYLOAD)).encode() for id in range(1, len(KEYS) + 1)]
        data, sn = {}, 1
        for turn, count in enumerate((COUNT, COUNT, 2 * COUNT)):
            data[turn] = batches(sn, count, some)
            sn += count // EACH
        turns = iter(data.values())

        def work(count):
            sending = threading.Thread(target=link.sendall, args=(next(turns),))
            sending.start()
            while count > 0:
                count -= subscriber.recv(PATIENCE).num_rows
            sending.join()
            assert count == 0

        assert_none_for_a_message(counter, work)


def test_put_table(counter):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drain():
            space = bytearray(1 << 20)
            with raw.accepted(listener) as link:
                link.settimeout(PATIENCE)
                while link.recv_into(space):
                    pass

        draining = threading.Thread(target=drain)
        draining.start()
        with zenlake.open(config("client", f"tcp/127.0.0.1:{listener.getsockname()[1]}")) as session:
            tables = {
                count: pa.table(
                    {
                        "key": [KEYS[i % len(KEYS)] for i in range(count)],
                        "payload": [PAYLOAD] * count,
                        "congestion": ["block"] * count,
                    }
                )
                for count in (COUNT, 2 * COUNT)
            }
            assert_none_for_a_message(counter, lambda count: session.put_table(tables[count]))
        draining.join(PATIENCE)


@pytest.mark.parametrize("mode", [ConsolidationMode.NONE, ConsolidationMode.LATEST], ids=str)
def test_get_table(counter, mode):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            sn = 1
            with raw.accepted(listener) as link:
                queryable = Declare(qos=8, body=DeclareEntity(kind=0x04, id=1, key="fleet/**"))
                raw.send(link, Frame(sn=0).encode() + queryable.encode())
                for count in (COUNT, COUNT, 2 * COUNT):
                    asked = []
                    while not asked:
                        asked = [one for one in messages(raw.receive(link)) if isinstance(one, Request)]
                    id = asked[0].id
                    some = [Response(id=id, key=key, body=Reply(body=Put(payload=PAYLOAD))).encode() for key in KEYS]
                    link.sendall(batches(sn, count, some))
                    sn += count // EACH
                    raw.send(link, Frame(sn=sn).encode() + ResponseFinal(id=id).encode())
                    sn += 1
                link.recv(1)  # until it is over

        answering = threading.Thread(target=answer)
        answering.start()
        with zenlake.open(config("client", f"tcp/127.0.0.1:{listener.getsockname()[1]}")) as session:

            def work(count):
                found = session.get_table("fleet/**", consolidation=mode, timeout=PATIENCE)
                assert found.num_rows == (count if mode is ConsolidationMode.NONE else len(KEYS))

            assert_none_for_a_message(counter, work)
        answering.join(PATIENCE)
