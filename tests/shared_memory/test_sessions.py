# SPDX-License-Identifier: Apache-2.0
"""Sessions with shared memory: hostile partners, fragmented references, Arrow channels, and systems without room for it."""

import logging
import os
import queue
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import zenlake
import zenlake.shm
from tests.runtime.nodes import until
from tests.shared_memory.nodes import buffer_of, client, is_shared, is_unused, listener
from zenlake.handlers import ArrowChannel
from zenlake.shared_memory import auth_segment as auth
from zenlake.shared_memory import node, segment
from zenlake.shared_memory.link import Negotiation
from zenlake.shared_memory.node import SharedMemory
from zenlake.shared_memory.settings import SharedMemorySettings
from zenlake.shared_memory.shared_buffers import SharedBuffer

SIZE = 20_000
Samples = queue.Queue[zenlake.Sample]
REFUSED = "references refused"


class Victim:
    """A subscriber, an honest partner, and the endpoint for a hostile one."""

    def __init__(self) -> None:
        self.session, self.where = listener(mode="router")
        self.samples: Samples = queue.Queue()
        self.session.declare_subscriber("t/**", self.samples.put)
        self.good = client(self.where)
        self.provider = zenlake.shm.ShmProvider.default_backend(1 << 18)

    def new_buffer(self, size: int = SIZE) -> Any:
        buffer = self.provider.alloc(size, zenlake.shm.GarbageCollect())
        buffer[:] = b"g" * size
        return buffer

    def check(self) -> None:
        """Check that samples of the honest partner still arrive through shared memory."""
        self.good.put("t/good", self.new_buffer())
        sample = self.samples.get(timeout=10)
        assert (str(sample.key_expr), bytes(sample.payload)) == ("t/good", b"g" * SIZE)
        assert sample.payload.as_shm() is not None

    def refused(self) -> int:
        return sum(count for cause, count in self.session.counters().items() if REFUSED in cause)

    def close(self) -> None:
        self.good.close()
        self.session.close()
        del self.provider


@pytest.fixture
def victim() -> Iterator[Victim]:
    made = Victim()
    yield made
    made.close()


def _longer(buffer: SharedBuffer) -> None:
    buffer.size = SIZE + 1


def _beyond_the_file(buffer: SharedBuffer) -> None:
    buffer.size = 1 << 30


def _other_generation(buffer: SharedBuffer) -> None:
    buffer.generation += 1


def _no_slot(buffer: SharedBuffer) -> None:
    buffer.index = 40_000


def _truncated(buffer: SharedBuffer) -> None:
    os.ftruncate(buffer.data.segment.fd, 100)


class Forged(SharedBuffer):
    """A buffer with a manipulated reference."""

    __slots__ = ()
    wrong: Callable[[SharedBuffer], None]

    @property
    def reference(self) -> Any:
        found = SharedBuffer(self.metadata, self.index, self.generation, self.data, self.at, self.size)
        type(self).wrong(found)
        made = SharedBuffer.reference.fget(found)
        found._is_released = True
        return made


@pytest.mark.parametrize("wrong", [_longer, _beyond_the_file, _other_generation, _no_slot, _truncated])
def test_a_hostile_reference_is_refused_and_counted(victim: Victim, wrong: Callable[[SharedBuffer], None]) -> None:
    provider = zenlake.shm.ShmProvider.default_backend(1 << 17)
    with client(victim.where) as hostile:
        assert is_shared(hostile) == [True]
        shared = provider.alloc(SIZE)
        shared[:] = b"h" * SIZE
        forged = type("_Forged", (Forged,), {"__slots__": (), "wrong": staticmethod(wrong)})
        right = buffer_of(shared)
        shared._buffer = forged(right.metadata, right.index, right.generation, right.data, right.at, right.size)
        right._is_released = True
        hostile.put("t/hostile", shared, congestion_control=zenlake.CongestionControl.BLOCK)
        until(lambda: victim.refused() == 1)
        victim.check()
        hostile.put("t/later", b"fine")
        assert str(victim.samples.get(timeout=10).key_expr) == "t/later"


def test_fragmented_references_arrive(victim: Victim) -> None:
    """The attachment makes the message larger than a batch."""
    with client(victim.where) as session:
        session.put("t/x", victim.new_buffer(), attachment=b"a" * 200_000)
        sample = victim.samples.get(timeout=10)
    assert bytes(sample.payload) == b"g" * SIZE
    assert bytes(sample.attachment or b"") == b"a" * 200_000
    assert victim.refused() == 0
    del sample
    until(lambda: is_unused(victim.provider, 1 << 18))


@pytest.mark.parametrize("wanted", ["t/**", "other/**"])
def test_unwanted_and_dropped_references_come_back(wanted: str) -> None:
    session, where = listener()
    with session, client(where) as source:
        subscriber = session.declare_subscriber(wanted, zenlake.handlers.RingChannel(1))
        provider = zenlake.shm.ShmProvider.default_backend(1 << 16)
        for _ in range(50):
            source.put("t/x", provider.alloc(SIZE, zenlake.shm.BlockOn(zenlake.shm.GarbageCollect())))
        subscriber.undeclare()
        del subscriber
        until(lambda: is_unused(provider, 1 << 16))


def test_an_arrow_channel_has_the_bytes(victim: Victim) -> None:
    rows = victim.session.declare_subscriber("a/**", ArrowChannel(rows=4))
    for i in range(4):
        buffer = victim.new_buffer()
        buffer[0:1] = bytes([i])
        victim.good.put("a/x", buffer)
    batch = rows.recv()
    assert batch["payload"].to_pylist() == [bytes([i]) + b"g" * (SIZE - 1) for i in range(4)]
    until(lambda: is_unused(victim.provider, 1 << 18))


# Handshake


def memory() -> SharedMemory:
    return SharedMemory(SharedMemorySettings(), 1 << 30)


def negotiation(memory: SharedMemory, is_local: bool = True) -> Negotiation:
    found = memory.negotiate(True, lambda: is_local, lambda why: None)
    assert found is not None
    return found


@pytest.fixture
def pair() -> Iterator[tuple[Negotiation, Negotiation]]:
    nodes = memory(), memory()
    both = negotiation(nodes[0]), negotiation(nodes[1])
    yield both
    for each in both:
        each.close()
        each.node.close()


def flip(data: bytes | None, at: int) -> bytes:
    assert data is not None
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_both_sides_agree(pair: tuple[Negotiation, Negotiation]) -> None:
    opener, acceptor = pair
    first = opener.init_syn()
    assert first is not None
    opener.finish(acceptor.open_ack(first, opener.open_syn(acceptor.init_ack(first))))
    links = opener.agree(), acceptor.agree()
    assert all(links)
    for link in links:
        assert link is not None
        link.close()


def test_a_forged_challenge_ends_the_handshake(pair: tuple[Negotiation, Negotiation]) -> None:
    opener, acceptor = pair
    first = opener.init_syn()
    assert first is not None
    syn = opener.open_syn(acceptor.init_ack(first))
    with pytest.raises(zenlake.ZError, match="wrong challenge"):
        acceptor.open_ack(first, flip(syn, 0))
    acceptor.close()
    assert acceptor.agree() is None


def test_a_forged_challenge_of_the_acceptor_is_declined(pair: tuple[Negotiation, Negotiation]) -> None:
    opener, acceptor = pair
    assert opener.open_syn(flip(acceptor.init_ack(opener.init_syn()), 0)) is None
    assert opener.agree() is None


@pytest.mark.parametrize("side", ["opener", "acceptor"])
@pytest.mark.parametrize("index", [auth.COUNTERS, 65535])
def test_a_counter_out_of_range_ends_the_handshake(
    pair: tuple[Negotiation, Negotiation], monkeypatch: pytest.MonkeyPatch, side: str, index: int
) -> None:
    opener, acceptor = pair
    hostile = opener if side == "opener" else acceptor
    own = hostile.node.auth()
    assert own is not None
    monkeypatch.setattr(own, "lease", lambda: (0, 1, 2, 3, 4, 5, 6, index))
    monkeypatch.setattr(own, "end_lease", lambda leased: None)
    first = opener.init_syn()
    assert first is not None
    with pytest.raises(zenlake.ZError, match="counter"):
        opener.finish(acceptor.open_ack(first, opener.open_syn(acceptor.init_ack(first))))


def test_a_segment_of_another_version_or_size_is_declined(pair: tuple[Negotiation, Negotiation]) -> None:
    opener, acceptor = pair
    own = opener.node.auth()
    assert own is not None
    first = opener.init_syn()
    own.words.store64(auth.VERSION_AT, 1)
    assert acceptor.init_ack(first) is None
    own.words.store64(auth.VERSION_AT, auth.VERSION)
    own.words.store64(auth.COUNT_AT, auth.MAX_PROTOCOLS + 1)
    assert acceptor.init_ack(first) is None
    own.words.store64(auth.COUNT_AT, 1)
    os.ftruncate(own.segment.fd, 4096)
    assert acceptor.init_ack(first) is None
    assert acceptor.init_ack(b"") is None
    os.ftruncate(own.segment.fd, auth.SIZE)  # its owner closes a segment of the full size


def test_a_hostile_handshake_leaves_other_sessions_alone(victim: Victim, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Negotiation.open_syn
    monkeypatch.setattr(Negotiation, "open_syn", lambda self, ack: flip(right(self, ack), 0))
    with pytest.raises(zenlake.ZError):
        client(victim.where, connect__timeout_ms=300)
    monkeypatch.undo()
    victim.check()


# Callbacks on the receiving thread


def send(victim: Victim, payload: bytes) -> None:
    buffer = victim.new_buffer(len(payload))
    buffer[:] = payload
    victim.good.put("direct", buffer)


def test_a_direct_callback_reads_the_memory_of_the_sender_without_a_copy(
    victim: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: queue.Queue[Any] = queue.Queue()

    def view(sample: zenlake.Sample) -> None:
        shared = sample.payload.as_shm()
        assert shared is not None
        found.put((len(sample.payload), bool(sample.payload), bytes(shared.view)))

    victim.session.declare_subscriber("direct", zenlake.handlers.Callback(view, indirect=False))
    monkeypatch.setattr(SharedBuffer, "copy", lambda self: pytest.fail("copied"))
    monkeypatch.setattr(SharedBuffer, "copy_into", lambda self, buffer: pytest.fail("copied"))
    send(victim, b"v" * SIZE)
    assert found.get(timeout=10) == (SIZE, True, b"v" * SIZE)
    until(lambda: is_unused(victim.provider, 1 << 18))


@pytest.mark.parametrize("keep", [lambda sample: sample, lambda sample: sample.payload])
def test_a_payload_that_a_direct_callback_keeps_is_copied(
    victim: Victim, keep: Callable[[zenlake.Sample], Any]
) -> None:
    kept: queue.Queue[Any] = queue.Queue()
    victim.session.declare_subscriber(
        "direct", zenlake.handlers.Callback(lambda sample: kept.put(keep(sample)), indirect=False)
    )
    send(victim, b"a" * SIZE)
    first = kept.get(timeout=10)
    victim.provider.garbage_collect_unsafe()
    first_payload = first.payload if isinstance(first, zenlake.Sample) else first
    for number in range(30):  # writes every byte of the provider again
        send(victim, bytes([number]) * SIZE)
        kept.get(timeout=10)
    assert bytes(first_payload) == b"a" * SIZE


def test_bytes_that_a_direct_callback_reads_are_copied_once(victim: Victim) -> None:
    found: queue.Queue[Any] = queue.Queue()
    channel = victim.session.declare_subscriber("*")  # gets a copy of the same sample
    victim.session.declare_subscriber(
        "direct",
        zenlake.handlers.Callback(
            lambda sample: found.put((bytes(sample.payload), str(sample.payload), bytes(memoryview(sample.payload)))),
            indirect=False,
        ),
    )
    send(victim, b"b" * SIZE)
    assert found.get(timeout=10) == (b"b" * SIZE, "b" * SIZE, b"b" * SIZE)
    assert bytes(channel.recv(timeout=10).payload) == b"b" * SIZE


def test_a_payload_that_its_sender_gave_up_is_an_error(victim: Victim, monkeypatch: pytest.MonkeyPatch) -> None:
    found: queue.Queue[Any] = queue.Queue()

    def read(sample: zenlake.Sample) -> None:
        with pytest.raises(zenlake.ZError, match="released the shared memory"):
            sample.payload.to_bytes()
        found.put(True)

    victim.session.declare_subscriber("direct", zenlake.handlers.Callback(read, indirect=False))
    monkeypatch.setattr(SharedBuffer, "is_valid", lambda self: False)
    send(victim, b"c" * SIZE)
    assert found.get(timeout=10)


# Systems without room


def test_a_missing_folder_is_logged_once_and_payloads_stay_inline(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module in (segment, node):
        monkeypatch.setattr(module, "FOLDER", "/dev/shm/missing")
    monkeypatch.setattr(node, "is_available", lambda: True)
    with caplog.at_level(logging.INFO, "zenlake.shm"):
        session, where = listener()
        with session, client(where) as source, client(where):
            assert is_shared(source) == [False]
            got: Samples = queue.Queue()
            session.declare_subscriber("t/x", got.put)
            until(lambda: source.put("t/x", b"x" * SIZE) is None and not got.empty())
            assert bytes(got.get().payload) == b"x" * SIZE
    lines = [each for each in caplog.messages if "shared memory is not used" in each]
    assert len(lines) == 2, caplog.messages  # one of each node that connects
    assert all("/dev/shm/missing: No such file or directory" in line for line in lines)


# A limit of the file size simulates a full filesystem. It applies to a process, so the test uses a separate one.
LIMITED = """
import logging, os, queue, resource, sys, zenlake, zenlake.shm
from tests.shared_memory.nodes import client, is_shared, listener
logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
kind, size = sys.argv[1], int(sys.argv[2])
resource.setrlimit(getattr(resource, kind), (size, size))
session, where = listener()
source = client(where)
got = queue.Queue()
session.declare_subscriber("t/x", got.put)
for i in range(3):
    source.put("t/x", b"x" * 20_000)
    sample = got.get(timeout=10)
    assert bytes(sample.payload) == b"x" * 20_000
print(is_shared(source), sample.payload.as_shm() is not None)
try:
    provider = zenlake.shm.ShmProvider.default_backend(1 << 22)  # still open at the end of the process
    print("provider")
except zenlake.ZError as error:
    print(error)
files = [os.readlink(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{each}")]
print(*[each for each in files if each.endswith(".zenoh")])
source.close()
session.close()
"""


def limited(kind: int, size: int) -> tuple[list[str], list[str]]:
    name = next(name for name in dir(resource) if name.startswith("RLIMIT_") and getattr(resource, name) == kind)
    found = subprocess.run(
        [sys.executable, "-c", LIMITED, name, str(size)], capture_output=True, text=True, timeout=60, check=False
    )
    assert not found.returncode, found.stderr
    *said, files = found.stdout.splitlines()
    assert not [each for each in files.split() if os.path.exists(each)], "files are left"
    return said, [line for line in found.stderr.splitlines() if "zenlake.shm" in line]


@pytest.mark.parametrize(
    ("room", "agreed", "why"),
    [
        (4096, "[False] False", "shared memory is not used: cannot create a segment in /dev/shm: File too large"),
        (100_000, "[True] False", "large payloads stay inline: /dev/shm: File too large"),
        (1_500_000, "[True] False", "large payloads stay inline: /dev/shm: File too large"),
    ],
)
def test_without_room_payloads_stay_inline_with_one_line(room: int, agreed: str, why: str) -> None:
    said, logged = limited(resource.RLIMIT_FSIZE, room)
    assert said[0] == agreed
    assert said[1].startswith("cannot create 4194304 bytes of shared memory in /dev/shm: File too large")
    assert [line for line in logged if why in line]
    assert len(logged) <= 2  # one of each node


def test_no_memory_needs_to_be_locked() -> None:
    said, logged = limited(resource.RLIMIT_MEMLOCK, 0)
    assert said == ["[True] True", "provider"]
    assert not logged


def test_the_key_turns_it_off() -> None:
    session, where = listener()
    with session, client(where, transport__shared_memory__enabled=False) as source:
        assert is_shared(source) == is_shared(session) == [False]
