# SPDX-License-Identifier: Apache-2.0
"""A run of common publications is stored undecoded: the same samples, calls, errors and counts as with immediate decoding."""

import asyncio
import random
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api.nodes import PATIENCE, pair, wait_until
from tests.api.test_arrow_listener import KEYS, Receiving, frames, traffic, usual
from tests.columns.test_push_fast_path import SHORT, publication
from zenlake.aio.session import Handler as AsyncHandler
from zenlake.api.handlers import Callback, Handler
from zenlake.api.sample import Sample
from zenlake.api.sample_decoder import KeyExprCache, SampleListener
from zenlake.core.encoding import Encoding
from zenlake.core.enums import CongestionControl, Locality
from zenlake.errors import ClosedError
from zenlake.wire.declare import Declare, DeclareKeyExpr, UndeclareKeyExpr
from zenlake.wire.message_base import Message
from zenlake.wire.network import Push
from zenlake.wire.transport import Frame
from zenlake.wire.zenoh_body import Put

PLENTY = 1 << 30


class Subscribing(Receiving):
    """A `Receiving` with channels of samples."""

    def __init__(self, runs: bool = True, *more: Any) -> None:
        super().__init__(runs, *more)
        self.keys = KeyExprCache()
        self.handlers: list[Handler[Sample]] = []
        self.got: list[list[object]] = []

    def samples(
        self, number: int, key: bytes, capacity: int = PLENTY, ring: bool = False, origin: Locality = Locality.ANY
    ) -> Handler[Sample]:
        channel: Handler[Sample] = Handler(capacity, ring)
        self.handlers.append(channel)
        self.got.append([])
        listener = SampleListener(channel._push, channel, self.keys, None)
        listener.accepts_runs = listener.accepts_runs and self.accepts_runs
        self.undeclare(number)
        self.subscribers[number] = self.node.application.declare_subscriber(key, listener, origin), None
        return channel

    def arrow(self, number: int, key: bytes, *_: Any) -> Any:
        """Declare from a callback in the middle of a read."""
        return self.samples(number, key)

    def take(self, number: int, most: int) -> None:
        """Read `count` samples of a channel, or all."""
        while most and (sample := self.handlers[number].try_recv()) is not None:
            self.got[number].append(described(sample))
            most -= 1

    def outcome(self, with_batches: bool = False) -> dict[str, Any]:
        for number, channel in enumerate(self.handlers):
            counted = len(self.got[number]) + len(channel)
            self.take(number, -1)
            assert len(self.got[number]) == counted
        return {**super().outcome(False), "got": self.got, "dropped": [each.dropped for each in self.handlers]}


def framed(sn: int, *messages: Message | bytes) -> bytes:
    encoded = [message if isinstance(message, bytes) else message.encode() for message in messages]
    batch = Frame(sn=sn).encode() + b"".join(encoded)
    return len(batch).to_bytes(2, "little") + batch


DECLARED = framed(0, *[Declare(qos=8, body=DeclareKeyExpr(id=id, key=key)) for id, key in enumerate(KEYS, 1)])


def described(sample: Sample) -> tuple[object, ...]:
    return (
        str(sample.key_expr), bytes(sample.payload), sample.kind, str(sample.encoding), sample.timestamp,
        sample.priority, sample.congestion_control, sample.express, sample.attachment, sample.source_info,
        sample.timestamp_stack,
    )  # fmt: skip


def numbers(samples: Any) -> list[int]:
    return [int(bytes(sample.payload)) for sample in samples]


def played(seed: int, runs: bool) -> dict[str, Any]:
    r = random.Random(seed)
    receiving = Subscribing(runs, r.choice([b"", b"", b"n"]), r.random() < 0.3, r.random() < 0.1)
    receiving.samples(0, b"a/**")
    batches = traffic(r)
    while batches:
        number, key = r.randrange(5), r.choice([b"**", b"a/*", b"b/1", b"a/2", b"n/**"])
        step = r.randrange(12)
        if step == 0:
            origin = r.choice([Locality.ANY, Locality.SESSION_LOCAL])
            receiving.samples(number, key, *r.choice([(PLENTY, False), (3, True)]), origin)
        elif step == 1:
            receiving.callback(number, key)
        elif step == 2:
            receiving.undeclare(number)
        elif step == 3:
            receiving.forward(r.choice([None, key]))
        elif step == 4:
            receiving.node.application.put(r.choice([b"a/1", b"b/1"]), b"of our own")
        elif step == 5:
            receiving.take(r.randrange(len(receiving.handlers)), r.choice([1, 10, 100]))
        else:
            count = r.choice([1, 1, 5])
            receiving.read(b"".join(batches[:count]))
            del batches[:count]
    return receiving.outcome()


@given(st.integers(0, 1 << 32))
@settings(max_examples=60, deadline=None)
def test_runs_and_single_messages_come_to_the_same(seed):
    assert played(seed, True) == played(seed, False)


def either_way(data: bytes) -> dict[str, Any]:
    found = []
    for runs in (True, False):
        receiving = Subscribing(runs)
        receiving.samples(0, b"**")
        receiving.read(data)
        found.append(receiving.outcome())
    assert found[0] == found[1]
    return found[0]


@given(st.integers(0, 1 << 32))
@settings(max_examples=60, deadline=None)
def test_those_that_are_just_not_plain_are_read_as_ever(seed):
    """Long numbers, empty fields, schemas, sources and attachments, at any position."""
    r = random.Random(seed)
    some = [[publication(r) for _ in range(r.choice([2, 9, 40]))] for _ in range(9)]
    either_way(DECLARED + b"".join(framed(sn, *messages) for sn, messages in enumerate(some, 1)))


@pytest.mark.parametrize(
    "one",
    [
        usual(1),
        usual(1, encoding=Encoding("text/plain"), timestamp=SHORT),
        Push(key=(1, True, None), body=Put(payload=b"8 bytes.")),
        Push(key=(300, False, None), qos=0x0D, body=Put(payload=bytes(200))),
    ],
    ids=["stamped", "encoded", "bare", "long"],
)
def test_a_byte_that_is_wrong(one):
    """A damaged byte may change a field or a size, or cause an error."""
    right = one.encode()
    behind = [usual(number).encode() for number in range(2, 12)]
    for at in range(min(len(right), 45)):
        for byte in {0, 1, 0x7F, 0x80, 0xFF, right[at] ^ 0x20, right[at] ^ 0x40, right[at] ^ 0x80}:
            wrong = right[:at] + bytes([byte]) + right[at + 1 :]
            either_way(DECLARED + framed(1, usual(0), *behind, wrong, *behind))


def test_a_frame_may_end_anywhere():
    whole = b"".join(usual(number).encode() for number in range(10))
    for size in range(200, len(whole)):
        either_way(DECLARED + framed(1, whole[:size]))


def test_a_run_is_delivered_as_one_item_and_counted_by_samples():
    receiving = Subscribing()
    channel = receiving.samples(0, b"**")
    wakes: list[int] = []
    channel.wake = lambda: wakes.append(len(channel))
    receiving.read(frames(*[usual(number, 1 + number % 2) for number in range(500)]))
    assert wakes[-1] == len(channel) == 500
    assert len(wakes) < 10
    samples = [channel.recv() for _ in range(500)]
    assert numbers(samples) == [*range(500)]
    assert [str(sample.key_expr) for sample in samples] == ["a/1", "a/2"] * 250
    assert samples[0].key_expr is samples[2].key_expr
    assert len(channel) == 0


def test_each_of_several_subscribers_gets_its_own_in_order():
    receiving = Subscribing()
    channels = [receiving.samples(number, key) for number, key in enumerate([b"a/1", b"b/1", b"a/*"])]
    ids = [1] * 30 + [2, 3, 2, 3, 3, 1]
    receiving.read(frames(*[usual(number, ids[number % 36]) for number in range(2000)], each=400))
    for channel, wanted in zip(channels, ([1], [3], [1, 2]), strict=True):
        channel._close()
        assert numbers(channel) == [number for number in range(2000) if ids[number % 36] in wanted]


def test_a_key_id_is_resolved_when_the_sample_arrives():
    """The id may have another key when the sample is read."""
    receiving = Subscribing()
    channel = receiving.samples(0, b"**")
    messages: list[Message] = []
    for number in range(50):
        messages += [
            Declare(qos=0x0D, body=DeclareKeyExpr(id=20, key=f"x/{number}")),
            *[usual(number, 20) for _ in range(5)],
            Declare(qos=0x0D, body=UndeclareKeyExpr(id=20)),
        ]
    receiving.read(frames(*messages, each=40))
    channel._close()
    assert [str(sample.key_expr) for sample in channel] == [f"x/{number}" for number in range(50) for _ in range(5)]


def test_a_run_that_fills_a_channel_has_its_source_paused_until_it_is_half_empty():
    receiving = Subscribing()
    channel = receiving.samples(0, b"**", 10)
    calls: list[str] = []

    class Source:
        def pause(self, channel: object) -> None:
            calls.append("pause")

        def resume(self, channel: object) -> None:
            calls.append(f"resume at {len(channel)}")

    channel.source = Source()
    receiving.read(DECLARED + framed(1, *[usual(number) for number in range(8)]))
    assert calls == []
    receiving.read(framed(2, *[usual(number, payload=b"%064d" % number) for number in range(8, 100)]))  # all in one run
    assert calls == ["pause"]
    assert numbers(channel.recv() for _ in range(100)) == [*range(100)]
    assert calls == ["pause", "resume at 5"]


def test_a_ring_keeps_the_newest_of_a_run():
    receiving = Subscribing()
    channel = receiving.samples(0, b"**", 3, ring=True)
    receiving.read(frames(*[usual(number) for number in range(100)]))
    assert channel.dropped == 97
    assert numbers(channel.recv() for _ in range(3)) == [97, 98, 99]


def test_threads_that_wait_and_threads_that_read_share_a_run():
    """Each sample is read once. One run wakes all waiting readers."""
    receiving = Subscribing()
    channel = receiving.samples(0, b"**")
    got: list[list[int]] = [[] for _ in range(8)]

    def reads(mine: list[int]) -> None:
        for sample in channel:
            mine.append(int(bytes(sample.payload)))
            started.wait(PATIENCE)

    started = threading.Event()
    threads = [threading.Thread(target=reads, args=(mine,), daemon=True) for mine in got]
    for thread in threads:
        thread.start()
    count = 1000
    receiving.read(frames(*[usual(number) for number in range(count)], each=count))
    wait_until(lambda: all(got))
    started.set()
    channel._close()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(number for mine in got for number in mine) == [*range(count)]
    assert all(mine == sorted(mine) for mine in got)


def test_discarded_items_are_removed_and_kept_items_readable_after_the_end():
    receiving = Subscribing()
    channel = receiving.samples(0, b"**")
    receiving.read(frames(*[usual(number) for number in range(100)]))
    assert numbers([channel.recv(), channel.recv()]) == [0, 1]
    channel._close()
    assert numbers(channel.recv() for _ in range(90)) == [*range(2, 92)]
    channel._close(True)
    assert len(channel) == 0
    with pytest.raises(ClosedError):
        channel.try_recv()


def test_an_event_loop_reads_all_of_a_run():
    receiving = Subscribing()
    handler = receiving.samples(0, b"**")

    async def read() -> list[int]:
        channel = AsyncHandler(handler)
        first = asyncio.ensure_future(channel.recv())
        await asyncio.sleep(0)
        receiving.read(frames(*[usual(number) for number in range(100)]))
        return numbers([await first, *[await channel.recv() for _ in range(99)]])

    assert asyncio.run(asyncio.wait_for(read(), PATIENCE)) == [*range(100)]


@pytest.fixture
def both():
    first, second = pair()
    yield first, second
    first.close()
    second.close()


def flood(session: Any, keys: list[str], count: int) -> None:
    """Many publications in one frame."""
    publishers = [session.declare_publisher(key, congestion_control=CongestionControl.BLOCK) for key in keys]
    wait_until(lambda: all(publisher.matching_status.matching for publisher in publishers))
    for number in range(count):
        publishers[number % len(publishers)].put(b"%08d" % number)


def test_a_callback_that_raises_in_the_middle_of_a_flood_is_called_with_the_rest(both, caplog):
    got: list[int] = []

    def reads(sample: Sample) -> None:
        got.append(int(bytes(sample.payload)))
        if len(got) % 400 == 7:
            raise ClosedError("as if the channel were")

    both[0].declare_subscriber("flood/*", reads)
    flood(both[1], ["flood/1", "flood/2"], 2000)
    wait_until(lambda: len(got) >= 2000)
    assert got == [*range(2000)]
    assert sum(record.message == "callback error" for record in caplog.records) == 5


def test_a_callback_puts_and_undeclares_itself_in_the_middle_of_a_flood(both):
    got: list[int] = []
    dropped = threading.Event()

    def reads(sample: Sample) -> None:
        got.append(int(bytes(sample.payload)))
        if len(got) <= 3:
            both[0].put("flood/here", b"%08d" % (10_000 + len(got)), congestion_control=CongestionControl.BLOCK)
        if len(got) == 500:
            subscriber.undeclare()

    subscriber = both[0].declare_subscriber("flood/*", Callback(reads, dropped.set))
    flood(both[1], ["flood/1"], 2000)
    assert dropped.wait(PATIENCE)
    remote = [number for number in got if number < 10_000]
    assert remote == [*range(len(remote))]
    assert len(got) >= 500
    assert {10_001, 10_002, 10_003} <= {*got}


def test_a_callback_closes_the_session_in_the_middle_of_a_flood(both):
    got: list[int] = []

    def reads(sample: Sample) -> None:
        got.append(int(bytes(sample.payload)))
        if len(got) == 500:
            both[0].close()

    both[0].declare_subscriber("flood/*", reads)
    flood(both[1], ["flood/1"], 2000)
    wait_until(both[0].is_closed)
    assert got == [*range(len(got))]
    assert len(got) >= 500
