# SPDX-License-Identifier: Apache-2.0
"""Memory that its owner has truncated reads as zeros. Other faults still end the process."""

import gc
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from zenlake.shared_memory.fault_guard import copy_mapped, guard

SIZE = 64 << 10


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    number = os.open(tmp_path / "segment", os.O_RDWR | os.O_CREAT)
    os.write(number, b"x" * SIZE)
    yield number
    os.close(number)


def test_truncated_memory_reads_as_zeros(file: int) -> None:
    mapping = mmap.mmap(file, SIZE)
    guard(mapping)
    os.ftruncate(file, mmap.PAGESIZE)
    target = bytearray(SIZE)
    copy_mapped(mapping, 0, target)
    assert target == b"x" * mmap.PAGESIZE + bytes(SIZE - mmap.PAGESIZE)
    assert mapping[-10:] == bytes(10)
    mapping[-1] = 1  # a write that its owner does not see
    mapping.close()


def test_copies_stay_inside_the_mapping(file: int) -> None:
    mapping = mmap.mmap(file, SIZE)
    guard(mapping)
    for at, size in ((-1, 1), (SIZE, 1), (1, SIZE), (0, SIZE + 1)):
        with pytest.raises(IndexError, match="outside the mapping"):
            copy_mapped(mapping, at, bytearray(size))
    copy_mapped(mapping, SIZE, bytearray())
    mapping.close()


def test_the_guard_of_a_closed_mapping_is_used_again(file: int) -> None:
    for _ in range(3000):  # three times the number of guards
        mapping = mmap.mmap(file, SIZE)
        guard(mapping)
        mapping.close()
        del mapping
    gc.collect()


def test_too_many_mappings_are_refused(file: int) -> None:
    mappings = [mmap.mmap(file, SIZE) for _ in range(1025)]
    with pytest.raises(OSError, match="too many"):
        list(map(guard, mappings))


FAULT = """
import faulthandler, mmap, os, sys, tempfile
from zenlake.shared_memory.fault_guard import guard
{before}
file = tempfile.TemporaryFile()
file.write(bytes({size}))
file.flush()
first, guarded, other = (mmap.mmap(file.fileno(), {size}) for _ in range(3))
guard(first)
{after}
guard(guarded)
os.ftruncate(file.fileno(), 0)
print(guarded[5], flush=True)
print(other[5], flush=True)
"""


@pytest.mark.parametrize("before", ["", "faulthandler.enable()"])
@pytest.mark.parametrize("after", ["", "faulthandler.enable()"])
def test_other_faults_still_end_the_process(before: str, after: str) -> None:
    program = FAULT.format(before=before, after=after, size=SIZE)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.returncode) == ("0\n", -signal.SIGBUS), ended.stderr
    assert ("Bus error" in ended.stderr) == bool(before or after)
