# SPDX-License-Identifier: Apache-2.0
"""Memory of copies is reused if it has no other references, and only then."""

import time

import pytest

SIZE = 100_000


def filled(pool, value, size=SIZE):
    data, view = pool.allocate(size)
    view[:] = bytes([value]) * size
    view.release()
    return data


@pytest.fixture
def pool():
    from zenlake.shared_memory.atomics import CopyPool

    return CopyPool()


def test_memory_is_used_again_with_another_size_and_hash(pool):
    data = filled(pool, 1)
    place, hashed = id(data), hash(data)
    del data
    again = filled(pool, 2, SIZE + 1000)
    assert id(again) == place
    assert again == b"\2" * (SIZE + 1000)
    assert hash(again) == hash(b"\2" * (SIZE + 1000)) != hashed
    del again
    shorter = filled(pool, 3, SIZE - 5)
    assert id(shorter) == place
    assert shorter == b"\3" * (SIZE - 5)
    assert hash(shorter) == hash(b"\3" * (SIZE - 5))


@pytest.mark.parametrize("keep", [lambda data: data, lambda data: memoryview(data)[5:9], lambda data: {"of": [data]}])
def test_memory_in_use_is_not_used_again(pool, keep):
    kept = keep(filled(pool, 1))
    others = [filled(pool, value) for value in range(2, 20)]
    whole = kept["of"][0] if isinstance(kept, dict) else kept
    assert bytes(whole) == b"\1" * len(whole)
    assert [each[0] for each in others] == [*range(2, 20)]


def test_small_and_huge_copies_are_not_kept(pool):
    for size in (0, 1, 65_535, 70 << 20):
        data, view = pool.allocate(size)
        assert len(data) == len(view) == size


def test_other_sizes_have_memory_of_their_own(pool):
    small = filled(pool, 1, 65_536)
    place = id(small)
    del small
    assert id(filled(pool, 2, 65_537)) != place
    assert id(filled(pool, 3, 65_536)) == place


def test_memory_is_bounded_and_freed_when_idle(pool):
    kept = [filled(pool, value, 8 << 20) for value in range(12)]
    assert pool.total == 64 << 20
    assert [each[-1] for each in kept] == [*range(12)]
    del kept
    filled(pool, 1, 60 << 20)
    assert pool.total <= 64 << 20
    pool.trim(time.monotonic() - 60)
    assert pool.total
    pool.trim(time.monotonic() + 60)
    assert not pool.total
    assert filled(pool, 3) == b"\3" * SIZE
