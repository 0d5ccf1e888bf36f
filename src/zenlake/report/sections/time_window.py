# SPDX-License-Identifier: Apache-2.0
"""Start and end of a recording, and the time steps of its charts."""

from dataclasses import dataclass
from typing import Any

from zenlake.report.dataset import Dataset

STEPS = 160  # maximum number of steps on a chart's time axis
_STEPS: list[int] = [
    *(digit * 10**power for power in range(3, 6) for digit in (1, 2, 5)),  # 1 ms to 500 ms, in microseconds
    *(seconds * 1_000_000 for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200)),
]
_DAY = 86_400_000_000


@dataclass(frozen=True)
class TimeWindow:
    """Times of the first and last message, and the step width, in microseconds since 1970."""

    first: int
    last: int
    step: int

    @classmethod
    def measure(cls, recording: Dataset) -> "TimeWindow":
        span = recording.row(
            """select min(epoch_us(received)) as first, max(epoch_us(received)) as last
               from (select received from messages union all select received from samples)"""
        )
        first, last = span["first"] or 0, span["last"] or 0
        return cls(first, last, round_step((last - first) / STEPS))

    def as_dict(self) -> dict[str, Any]:
        return {"first": self.first / 1000, "last": self.last / 1000, "step": self.step / 1000}

    def bucket(self, time: str = "received") -> str:
        """Return SQL for the start of a time's step, as milliseconds since 1970."""
        return f"(epoch_us({time}) // {self.step}) * {self.step} / 1000.0"


def round_step(minimum: float) -> int:
    """Return the next round number of microseconds."""
    for step in _STEPS:
        if step >= minimum:
            return step
    return int(_DAY * max(1, -(-minimum // _DAY)))
