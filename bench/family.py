# SPDX-License-Identifier: Apache-2.0
"""CPU seconds and memory of this process and all its descendants.

The system reports the CPU time of children only after the parent has waited for them. Spark's daemon of Python workers ignores
SIGCHLD, and ends workers that are idle for a minute. The CPU time of such a worker is then lost. So a thread samples all processes
twice per second. The time of a process between the last sample and its end is not counted.
"""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["Cost", "largest_task", "processor_time"]

LOOK = 0.5  # seconds
TICKS = os.sysconf("SC_CLK_TCK")
PARENT, USER, SYSTEM, BEGAN = 1, 11, 12, 19  # fields of /proc/PID/stat after the name


class Cost:
    """Cost of one run: seconds, and CPU seconds of this process and its descendants."""

    def __init__(self, work: Callable[[], None]) -> None:
        before, start = processor_time(), time.perf_counter()
        work()
        self.seconds = time.perf_counter() - start
        self.processor = processor_time() - before


def processor_time() -> float:
    """Return the CPU seconds of this process and its descendants, including those that ended since the first call."""
    return sum(_looked().times.values())


def largest_task() -> int:
    """Return the largest peak memory of the live Spark workers, in bytes."""
    return max(map(_most_memory_of_a_worker, _looked().living), default=0)


class Family(threading.Thread):
    """This process and its descendants."""

    def __init__(self) -> None:
        super().__init__(daemon=True, name="bench-family")
        self.times: dict[tuple[int, str], float] = {}  # CPU seconds by process id and start time
        self.living: set[int] = set()
        self._lock = threading.Lock()

    def run(self) -> None:
        while True:
            time.sleep(LOOK)
            self.look()

    def look(self) -> None:
        with self._lock:
            there = {int(name): _stat(name) for name in os.listdir("/proc") if name.isdigit()}
            ours = {os.getpid()}
            for number in there:
                line = []
                while number not in ours and there.get(number):
                    line.append(number)
                    number = int(there[number][PARENT])
                if number in ours:
                    ours.update(line)
            for number in ours:
                fields = there[number]
                self.times[number, fields[BEGAN]] = (int(fields[USER]) + int(fields[SYSTEM])) / TICKS
            self.living = ours


def _stat(number: str) -> list[str]:
    try:
        return Path("/proc", number, "stat").read_text().rpartition(")")[2].split()
    except OSError:  # the process has just ended
        return []


def _most_memory_of_a_worker(number: int) -> int:
    try:
        if b"pyspark.daemon" in Path("/proc", str(number), "cmdline").read_bytes():
            status = Path("/proc", str(number), "status").read_text()
            return int(status.partition("VmHWM:")[2].split()[0]) << 10
    except (OSError, IndexError):
        pass
    return 0


_family: list[Family] = []


def _looked() -> Family:
    if not _family:
        _family.append(Family())
        _family[0].start()
    _family[0].look()
    return _family[0]
