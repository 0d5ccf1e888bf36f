# SPDX-License-Identifier: Apache-2.0
"""A user's program. `test_static_types.py` checks it with pyright and mypy in strict mode; it is never run."""

from datetime import timedelta
from typing import assert_type

import zenlake
from zenlake import (
    Config,
    Encoding,
    EntityGlobalId,
    Handler,
    Hello,
    KeyExpr,
    Link,
    LinkEvent,
    MatchingStatus,
    Parameters,
    Priority,
    Query,
    Reply,
    ReplyError,
    Sample,
    SampleKind,
    Selector,
    SourceInfo,
    Subscriber,
    Timestamp,
    Transport,
    TransportEvent,
    ZBytes,
    ZenohId,
)
from zenlake.ext import (
    AdvancedPublisher,
    AdvancedSubscriber,
    CacheConfig,
    HistoryConfig,
    Int32,
    Miss,
    MissDetectionConfig,
    RecoveryConfig,
    declare_advanced_publisher,
    declare_advanced_subscriber,
    z_deserialize,
    z_serialize,
)
from zenlake.handlers import ArrowChannel, Callback, DefaultHandler, FifoChannel, RingChannel


def read_sample(sample: Sample) -> None:
    assert_type(sample.key_expr, KeyExpr)
    assert_type(sample.payload, ZBytes)
    assert_type(sample.payload.to_string(), str)
    assert_type(sample.payload.to_bytes(), bytes)
    assert_type(sample.kind, SampleKind)
    assert_type(sample.encoding, Encoding)
    assert_type(sample.timestamp, Timestamp | None)
    assert_type(sample.attachment, ZBytes | None)
    assert_type(sample.priority, Priority)
    assert_type(sample.congestion_control, zenlake.CongestionControl)
    assert_type(sample.express, bool)
    assert_type(sample.source_info, SourceInfo | None)
    assert_type(sample.timestamp_stack, zenlake.TimestampStack | None)
    if sample.timestamp is not None:
        print(sample.timestamp.get_time(), sample.timestamp.get_id())
    if sample.source_info is not None:
        assert_type(sample.source_info.source_id, EntityGlobalId)
        assert_type(sample.source_info.source_sn, int)


def read_reply(reply: Reply) -> None:
    assert_type(reply.ok, Sample | None)
    assert_type(reply.err, ReplyError | None)
    assert_type(reply.result, Sample | ReplyError)
    assert_type(reply.replier_id, EntityGlobalId | None)
    if reply.ok is not None:
        read_sample(reply.ok)
    if reply.err is not None:
        assert_type(reply.err.payload, ZBytes)
        assert_type(reply.err.encoding, Encoding)


def answer(query: Query) -> None:
    with query:
        assert_type(query.key_expr, KeyExpr)
        assert_type(query.selector, Selector)
        assert_type(query.parameters, Parameters)
        assert_type(query.payload, ZBytes | None)
        assert_type(query.parameters.get("since"), str | None)
        query.reply(query.key_expr, "87", encoding=Encoding.TEXT_PLAIN, attachment=b"x")
        query.reply_err(b"unknown", encoding="text/plain")
        query.reply_del("robots/7/battery")


def subscribe(session: zenlake.Session) -> None:
    default = session.declare_subscriber("robots/**")
    assert_type(default, Subscriber[Handler[Sample]])
    assert_type(default.handler, Handler[Sample])
    assert_type(default.recv(), Sample)
    assert_type(default.recv(timeout=1.0), Sample)
    assert_type(default.try_recv(), Sample | None)
    for sample in default:
        assert_type(sample, Sample)
    assert_type(session.declare_subscriber("a", FifoChannel(10)), Subscriber[Handler[Sample]])
    assert_type(session.declare_subscriber("a", RingChannel(10)).recv(), Sample)
    assert_type(session.declare_subscriber("a", DefaultHandler()).recv(), Sample)
    assert_type(session.declare_subscriber("a", read_sample), Subscriber[None])
    assert_type(session.declare_subscriber("a", lambda sample: print(sample.payload)), Subscriber[None])
    assert_type(session.declare_subscriber("a", Callback(read_sample, capacity=3)), Subscriber[None])
    samples: list[Sample] = []
    assert_type(session.declare_subscriber("a", (samples.append, samples)), Subscriber[list[Sample]])
    arrow = session.declare_subscriber("a", ArrowChannel(100, age=0.5))
    print(arrow.recv())
    with session.declare_subscriber(KeyExpr("b"), allowed_origin=zenlake.Locality.REMOTE) as subscriber:
        assert_type(subscriber.key_expr, KeyExpr)
        assert_type(subscriber.id, EntityGlobalId)
        subscriber.undeclare()


def publish(session: zenlake.Session, text: str) -> None:
    session.put("robots/7/goal", text, encoding="text/plain", priority=Priority.REAL_TIME, express=True)
    assert_type(session.try_put("robots/7/goal", memoryview(b"x"), attachment=bytearray(b"y")), bool)
    session.delete("robots/7/goal", timestamp=session.new_timestamp())
    with session.declare_publisher("robots/7/goal", reliability=zenlake.Reliability.RELIABLE) as publisher:
        publisher.put(ZBytes(b"home"))
        assert_type(publisher.try_put(b"home"), bool)
        publisher.delete()
        assert_type(publisher.matching_status.matching, bool)
        listener = publisher.declare_matching_listener()
        assert_type(listener.recv(), MatchingStatus)
        publisher.declare_matching_listener(lambda status: print(status.matching))


def query_all(session: zenlake.Session) -> None:
    replies = session.get("robots/*/battery?since=1h", timeout=1.0, target=zenlake.QueryTarget.ALL, payload="x")
    assert_type(replies, Handler[Reply])
    for reply in replies:
        read_reply(reply)
    assert_type(session.get(Selector("a"), RingChannel(1)), Handler[Reply])
    session.get("a", read_reply, cancellation_token=zenlake.CancellationToken())
    queryable = session.declare_queryable("robots/7/battery", complete=True)
    assert_type(queryable.recv(), Query)
    session.declare_queryable("robots/7/battery", answer)
    with session.declare_querier("robots/*/battery", timeout=2.0) as querier:
        for reply in querier.get(parameters={"since": "1h"}):
            read_reply(reply)
        querier.get(lambda reply: print(reply.ok))


def inspect_session(session: zenlake.Session) -> None:
    assert_type(session.zid(), ZenohId)
    assert_type(session.info.routers_zid(), list[ZenohId])
    assert_type(session.info.transports(), list[Transport])
    assert_type(session.info.links(), list[Link])
    assert_type(session.info.declare_transport_events_listener().recv(), TransportEvent)
    assert_type(session.info.declare_link_events_listener(history=True).recv(), LinkEvent)
    assert_type(session.counters(), dict[str, int])
    token = session.liveliness().declare_token("alive/1")
    assert_type(session.liveliness().declare_subscriber("alive/*", history=True).recv(), Sample)
    for reply in session.liveliness().get("alive/*", timeout=1.0):
        assert_type(reply, Reply)
    token.undeclare()
    with zenlake.scout(what="peer|router") as found:
        assert_type(found.recv(timeout=1.0), Hello)


def use_extensions(session: zenlake.Session) -> None:
    publisher = declare_advanced_publisher(
        session, "a", cache=CacheConfig(10), sample_miss_detection=MissDetectionConfig(heartbeat=1.0)
    )
    assert_type(publisher, AdvancedPublisher)
    publisher.put(z_serialize(Int32(3)))
    subscriber = declare_advanced_subscriber(
        session,
        "a",
        history=HistoryConfig(max_samples=3),
        recovery=RecoveryConfig(periodic_queries=timedelta(seconds=1)),
    )
    assert_type(subscriber, AdvancedSubscriber[Handler[Sample]])
    assert_type(subscriber.recv(), Sample)
    assert_type(subscriber.sample_miss_listener().recv(), Miss)
    assert_type(subscriber.detect_publishers().recv(), Sample)
    assert_type(z_deserialize(int, ZBytes(b"\0")), int)


def main() -> None:
    config = Config()
    config.insert_json5("mode", '"client"')
    with zenlake.open(config) as session:
        subscribe(session)
        publish(session, "home")
        query_all(session)
        inspect_session(session)
        use_extensions(session)
    assert_type(KeyExpr("a/*").intersects("a/b"), bool)


if __name__ == "__main__":
    main()
