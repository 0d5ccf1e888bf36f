# SPDX-License-Identifier: Apache-2.0
"""References to invalid bytes are refused, and release their resources."""

import os
from collections.abc import Callable, Iterator

import pytest

from zenlake.shared_memory import shared_buffers as metadata
from zenlake.shared_memory.provider import BufferPool
from zenlake.shared_memory.segment import SegmentError, path_of
from zenlake.shared_memory.shared_buffers import (
    INVALIDATED,
    LENGTH,
    OFFSET,
    PROTOCOL,
    REFCOUNT,
    SEGMENT,
    SLOT_SIZE,
    SLOTS,
    SharedBuffer,
    forget_idle,
    mount,
)
from zenlake.transport.references import Reference

SIZE = 10_000


@pytest.fixture
def pool() -> Iterator[BufferPool]:
    made = BufferPool(1 << 16)
    yield made
    forget_idle(float("inf"))
    made.close()


@pytest.fixture
def buffer(pool: BufferPool) -> Iterator[SharedBuffer]:
    made = pool.allocate(SIZE)
    assert made is not None
    made.data.segment.write(b"x" * SIZE, made.at)
    yield made
    made.release()


def count(buffer: SharedBuffer) -> int:
    value: int = buffer.metadata.table.load32(SLOT_SIZE * buffer.index + REFCOUNT)
    return value


def test_a_valid_reference_is_copied_and_given_back(buffer: SharedBuffer) -> None:
    buffer.add_reference()
    mounted = mount(buffer.reference)
    assert count(buffer) == 2
    assert mounted.copy() == b"x" * SIZE
    mounted.release()
    mounted.release()
    assert count(buffer) == 1


def words(at: int, size: int, value: int) -> Callable[[SharedBuffer], None]:
    def change(buffer: SharedBuffer) -> None:
        table, place = buffer.metadata.table, SLOT_SIZE * buffer.index + at
        {1: table.store8, 4: table.store32, 8: table.store64}[size](place, value)

    return change


SLOT_CHANGES = {
    "unknown protocol": words(PROTOCOL, 4, 7),
    "No such file": words(SEGMENT, 4, 4_294_967_291),
    "exceed the buffer or its segment": words(LENGTH, 8, SIZE - 1),
    "exceed the buffer": words(OFFSET, 4, (1 << 16) - SIZE + 1),
    "exceed": words(OFFSET, 4, 0xFFFFFFFF),
    "given the buffer up|has released the buffer": words(INVALIDATED, 1, 1),
}


@pytest.mark.parametrize("why", SLOT_CHANGES)
def test_a_slot_that_names_no_valid_bytes_is_refused(buffer: SharedBuffer, why: str) -> None:
    buffer.add_reference()
    SLOT_CHANGES[why](buffer)
    with pytest.raises(SegmentError, match=why):
        mount(buffer.reference)
    assert count(buffer) == 1


def test_a_length_beyond_the_segment_is_refused(buffer: SharedBuffer) -> None:
    words(LENGTH, 8, 2**64 - 1)(buffer)
    for size in (1 << 17, 2**32, 2**64 - 1):
        with pytest.raises(SegmentError, match="exceed"):
            mount(buffer.reference._replace(size=size))


@pytest.mark.parametrize("generation", [1, 0xFFFFFFFF])
def test_another_generation_is_refused_and_its_count_is_not_touched(buffer: SharedBuffer, generation: int) -> None:
    with pytest.raises(SegmentError, match="used by another buffer"):
        mount(buffer.reference._replace(generation=generation))
    assert count(buffer) == 1


@pytest.mark.parametrize("slot", [SLOTS, 65535])
def test_a_slot_that_does_not_exist_is_refused(buffer: SharedBuffer, slot: int) -> None:
    with pytest.raises(SegmentError, match="does not exist"):
        mount(buffer.reference._replace(slot=slot))


def test_a_missing_metadata_segment_is_refused() -> None:
    missing = next(each for each in range(65536) if not os.path.exists(path_of(each)))
    with pytest.raises(SegmentError, match="No such file"):
        mount(Reference(1, missing, 0, 0))


@pytest.mark.parametrize("kind", ["short", "link", "pipe", "folder"])
def test_a_file_without_metadata_layout_is_refused(buffer: SharedBuffer, kind: str) -> None:
    missing = next(each for each in range(65535, 0, -1) if not os.path.exists(path_of(each)))
    place = path_of(missing)
    match kind:
        case "short":
            with open(place, "wb") as file:
                file.write(bytes(4096))
        case "link":
            os.symlink(path_of(buffer.metadata.id), place)
        case "pipe":
            os.mkfifo(place)
        case "folder":
            os.mkdir(place)
    try:
        with pytest.raises(SegmentError):
            mount(buffer.reference._replace(metadata=missing))
    finally:
        os.rmdir(place) if kind == "folder" else os.unlink(place)


@pytest.mark.parametrize("is_open", [False, True])
def test_bytes_of_a_truncated_file_are_discarded(buffer: SharedBuffer, is_open: bool) -> None:
    """The current size counts, also if the file was open before."""
    if is_open:
        buffer.add_reference()
        mount(buffer.reference).release()
    os.ftruncate(buffer.data.segment.fd, buffer.at + SIZE - 1)
    with pytest.raises(SegmentError, match="exceed"):
        mount(buffer.reference)


def test_a_file_that_is_truncated_after_the_check_gives_no_bytes(buffer: SharedBuffer) -> None:
    buffer.add_reference()
    mounted = mount(buffer.reference)
    os.ftruncate(buffer.data.segment.fd, buffer.at + 100)
    assert mounted.copy() is None
    assert not mounted.copy_into(memoryview(bytearray(SIZE)))
    mounted.release()


def test_a_buffer_that_is_freed_during_the_copy_gives_no_bytes(pool: BufferPool, buffer: SharedBuffer) -> None:
    buffer.add_reference()
    mounted = mount(buffer.reference)
    pool.deallocate(1)
    assert mounted.copy() is None
    again = pool.allocate(SIZE)
    assert again is not None
    before = count(again)
    mounted.release()
    assert count(again) == before  # not the count of the next buffer


def test_segments_of_others_are_closed_when_they_are_idle(buffer: SharedBuffer) -> None:
    buffer.add_reference()
    mount(buffer.reference).release()
    assert metadata.process.metadata
    assert metadata.process.data
    forget_idle(float("inf"))
    assert not metadata.process.metadata
    assert not metadata.process.data
