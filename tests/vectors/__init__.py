# SPDX-License-Identifier: Apache-2.0
"""Batches recorded from eclipse-zenoh 1.10.2, one JSON-lines file for each scenario.

The first line of a file says how it was recorded; the others are batches, without their stream prefix, and what caused
them. In `probe` a `result` line closes each case: what a real router did with the hand-made bytes before it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from zenlake.wire.batch_reader import messages
from zenlake.wire.framing import decompress
from zenlake.wire.message_base import Message
from zenlake.wire.scouting import read_scouting

HERE = Path(__file__).parent
FILES = sorted(path.stem for path in HERE.glob("*.jsonl"))
HANDSHAKE = 4  # batches, after which the negotiated parameters apply


@dataclass(frozen=True)
class Batch:
    """One recorded batch, decompressed."""

    file: str
    line: int
    flow: tuple[str, str, str]  # scenario or case, link, direction
    data: bytes
    low_latency: bool = False

    @property
    def id(self) -> str:
        return f"{self.file}:{self.line}"

    def messages(self) -> list[Message]:
        return [read_scouting(self.data)] if self.file == "scouting" else messages(self.data, self.low_latency)


@cache
def rows(file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / f"{file}.jsonl").read_text().splitlines()]


def batches(*files: str) -> Iterator[Batch]:
    """Return all recorded batches, or those of some files."""
    for file in files or FILES:
        for line, row in enumerate(rows(file), 1):
            if "hex" not in row:
                continue
            data = bytes.fromhex(row["hex"])
            open_ = row["n"] >= HANDSHAKE
            if file == "compression" and open_:
                data = decompress(data)
            flow = (row.get("case", row["scenario"]), row.get("link", ""), row["dir"])
            yield Batch(file, line, flow, data, file == "lowlatency" and open_)


def nested(message: Message) -> Iterator[Message]:
    """Yield a message and those inside it."""
    yield message
    body = getattr(message, "body", None)
    if isinstance(body, Message):
        yield from nested(body)
