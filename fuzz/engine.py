# SPDX-License-Identifier: Apache-2.0
"""Mutation: a recorded input with a few bytes changed, cut, doubled, put in, or spliced with another one.

Values at the edges (a length of everything, a number that ends nowhere, the header bytes of extensions) are tried far
more often than chance would.
"""

import logging
import threading
from collections.abc import Sequence
from random import Random

EDGES = (
    b"\x00", b"\x7f", b"\x80", b"\xff", b"\xff\xff\x03", b"\x80\x80\x04", b"\xff" * 9, b"\x80" * 10, b"\x12", b"\x1f",
    b"\x21\x05", b"\x33\x01", b"\x42\x00", b"\x5f\x02\x00\x00", b"\x60", b"\xe0", b"\xc3\xa9", b"\xed\xa0\x80",
)  # fmt: skip
LONGEST = 4096


def mutate(random: Random, corpus: Sequence[bytes]) -> bytes:
    data = bytearray(random.choice(corpus))
    for _ in range(1 + random.getrandbits(2)):
        at = random.randrange(len(data) + 1)
        match random.getrandbits(3):
            case 0 | 1 if at < len(data):
                data[at] ^= 1 << random.getrandbits(3)
            case 2 if at < len(data):
                data[at] = random.getrandbits(8)
            case 3:
                del data[at : at + 1 + random.getrandbits(3)]
            case 4:
                data[at:at] = data[at : at + 1 + random.getrandbits(4)]
            case 5:
                data[at:at] = random.choice(EDGES)
            case 6:
                del data[at:]
            case _:
                other = random.choice(corpus)
                data[at:] = other[random.randrange(len(other) + 1) :]
    return bytes(data[:LONGEST])


class TracebackHandler(logging.Handler):
    """Collects what no input may cause: a traceback in the log, or an exception that ends a thread."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []
        logging.getLogger().addHandler(self)
        self._excepthook = threading.excepthook
        threading.excepthook = lambda failure: self.found.append(f"a thread ended: {failure.exc_value!r}")

    def close(self) -> None:
        logging.getLogger().removeHandler(self)
        threading.excepthook = self._excepthook
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(f"{record.getMessage()}: {record.exc_info[1]!r}")

    def check(self) -> None:
        """Fail if an input caused one."""
        assert not self.found, self.found
