# SPDX-License-Identifier: Apache-2.0
"""Values of received samples: those of the wire layer. Small payloads are copies, large ones are views."""

import array
import gc
import sys
import tracemalloc

import pyarrow as pa
import pytest

import zenlake
from tests.api.nodes import PATIENCE, pair, wait_until
from zenlake.core.enums import CongestionControl
from zenlake.wire.fields import EncodingField, Entity, Source, Stamp
from zenlake.wire.raw_memory import COMPILED

BLOCK = CongestionControl.BLOCK
LENDS = COMPILED or sys.version_info >= (3, 12)  # whether a payload has a buffer
VALUES = ("ZenohId", "Encoding", "Timestamp", "TimestampId", "KeyExpr", "EntityGlobalId", "SourceInfo", "Priority")


@pytest.fixture
def both():
    first, second = pair()
    with first, second:
        yield first, second


@pytest.fixture
def received(both):
    """Put a value on a key, with further arguments, and return the received sample."""
    first, second = both
    subscriber, publisher = first.declare_subscriber("t/*"), second.declare_publisher("t/a")
    wait_until(lambda: publisher.matching_status.matching)

    def receive(payload, key="t/a", **more):
        second.put(key, payload, congestion_control=BLOCK, **more)
        return subscriber.recv(PATIENCE)

    return receive


def lender(payload):
    """Return the owner of the memory of a payload."""
    return memoryview(payload).obj


# Values


def test_there_is_one_class_of_each_value():
    import zenlake.aio
    import zenlake.columns.decoder
    import zenlake.replay

    for name in VALUES:
        kinds = {vars(module)[name] for path, module in sys.modules.items() if is_ours(path) and name in vars(module)}
        assert kinds == {getattr(zenlake, name)}


def is_ours(path):
    return path.partition(".")[0] == "zenlake"


def test_the_api_delivers_the_fields_that_the_wire_decodes(received):
    zid = zenlake.ZenohId.from_wire(b"\1\2\3")
    stamp = zenlake.Timestamp.from_wire(7 << 32, b"\1\2\3")
    source = zenlake.SourceInfo(zenlake.EntityGlobalId(zid, 4), 5)
    sample = received(b"x", encoding="image/png;x", timestamp=stamp, source_info=source)
    for field, sent, came in (
        (Stamp(), stamp, sample.timestamp),
        (EncodingField(), zenlake.Encoding("image/png;x"), sample.encoding),
        (Source(), source, sample.source_info),
        (Entity(), source.source_id, sample.source_info.source_id),
    ):
        field.set(sent)
        assert field.value == came == sent
        assert type(field.value) is type(came) is type(sent)
    assert type(sample.source_info.source_id.zid) is zenlake.ZenohId
    assert type(sample.timestamp.id) is zenlake.TimestampId


def test_a_value_is_handed_up_again_and_again_not_made_again(received):
    one, other = received(b"x", encoding="application/cbor"), received(b"y", encoding="application/cbor")
    assert type(one.key_expr) is zenlake.KeyExpr
    assert one.key_expr is other.key_expr
    assert one.encoding is other.encoding is zenlake.Encoding.APPLICATION_CBOR
    stamp = zenlake.Timestamp.from_wire(7 << 32, b"\1\2\3")
    stamped = received(b"x", encoding="a/b;c", timestamp=stamp, source_info=zenlake.SourceInfo(one_id(), 5))
    for name in ("key_expr", "payload", "encoding", "timestamp", "source_info", "priority"):
        assert getattr(stamped, name) is getattr(stamped, name)


def one_id():
    return zenlake.EntityGlobalId(zenlake.ZenohId.from_wire(b"\1"), 1)


def test_a_sample_has_the_key_that_was_passed(both):
    key = zenlake.KeyExpr("t/a")
    first, _ = both
    for declare in (first.declare_publisher, first.declare_subscriber, first.declare_queryable, first.declare_querier):
        assert declare(key).key_expr is key
    assert first.declare_keyexpr(key) is key


# Payloads


def test_payloads_share_memory_in_both_directions(received):
    numbers = array.array("d", [1.0, 2.0])
    payload = received(numbers).payload
    assert bytes(payload) == numbers.tobytes()
    if LENDS:
        assert list(memoryview(payload).cast("d")) == [1.0, 2.0]


@pytest.mark.skipif(not LENDS, reason="payloads have no buffer here")
@pytest.mark.parametrize(("size", "copied"), [(8, True), (65_000, True), (1_000_000, False)])
def test_a_small_payload_is_copied_and_a_large_one_viewed(both, received, size, copied):
    first, second = both
    sample = received(b"x" * size, attachment=b"small")
    assert isinstance(lender(sample.payload), bytes) == copied
    assert isinstance(lender(sample.attachment), bytes)
    queryable, querier = first.declare_queryable("q/a"), second.declare_querier("q/a")
    wait_until(lambda: querier.matching_status.matching)
    replies = querier.get(payload=b"x" * size)
    with queryable.recv(PATIENCE) as query:
        query.reply("q/a", b"y" * size)
        query.reply_err(b"z" * size)
    answers = {bytes(lent[:1]): lent for lent in (memoryview(answer(reply)) for reply in replies)}
    for payload in (sample.payload, query._payload, answers[b"y"], answers[b"z"]):
        assert memoryview(payload).readonly
        assert isinstance(lender(payload), bytes) == copied
        assert len(payload) == size


def answer(reply):
    return reply.ok.payload if reply.ok is not None else reply.err.payload


def test_eight_bytes_never_pin_the_batch_that_they_came_in(both, received):
    first, second = both
    subscriber = first.declare_subscriber("b/*", zenlake.handlers.FifoChannel(1000))
    publisher = second.declare_publisher("b/a")
    wait_until(lambda: publisher.matching_status.matching)
    keys = ["b/a"] * 50 + ["b/small"]

    def small(number):
        second.put_table(pa.table({"key": keys, "payload": [bytes(1000)] * 50 + [b"%08d" % number]}))
        while (sample := subscriber.recv(PATIENCE)).key_expr != "b/small":
            pass
        return sample.payload

    def kept(receive, count):
        """Return the memory of one payload while many are referenced."""
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        payloads = [receive(number) for number in range(count)]
        gc.collect()
        each = (tracemalloc.get_traced_memory()[0] - before) / count
        assert all(bytes(payload).startswith(b"%08d" % number) for number, payload in enumerate(payloads))
        return each

    small(0)
    tracemalloc.start()
    try:
        assert kept(small, 50) < 2_000
        large = kept(lambda number: received(b"%08d" % number + bytes(200_000)).payload, 10)
        assert 200_000 <= large < 300_000  # a view keeps only the buffer into which its fragments were joined
    finally:
        tracemalloc.stop()


def test_an_array_of_objects_is_refused_and_not_sent_as_their_addresses(both):
    numpy = pytest.importorskip("numpy")
    for wrong in (numpy.array([object()]), numpy.zeros(2, [("a", "i4"), ("b", "O")])):
        with pytest.raises(TypeError, match="array of objects"):
            both[0].put("a", wrong)
    named = numpy.zeros(2, [("Offset", "i4"), ("O", "f8")])
    assert bytes(zenlake.ZBytes(named)) == named.tobytes()
