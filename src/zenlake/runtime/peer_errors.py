# SPDX-License-Identifier: Apache-2.0
"""Errors caused by peers: counters by cause, and rate-limited log messages."""

from logging import getLogger
from time import monotonic

__all__ = ["PeerErrors"]

INTERVAL = 10.0  # seconds between two lines of one cause
MAX_TEXT = 300  # characters of an address or a reason in a line


class PeerErrors:
    """Errors caused by peers: counts each cause and logs its first case, then at most one every `INTERVAL`.

    A log message has the peer, the reason and the counter, so a peer can neither fill the log nor hide in it. The number of
    causes must be bounded: a cause never contains text from a peer.
    """

    def __init__(self, name: str) -> None:
        self.counts: dict[str, int] = {}
        self._log = getLogger(name)
        self._next: dict[str, float] = {}

    def report(self, peer: str, reason: object, cause: str) -> None:
        """Count one case of `cause`, and log it unless the same cause was logged within `INTERVAL`."""
        count = self.counts[cause] = self.counts.get(cause, 0) + 1
        now = monotonic()
        if now >= self._next.get(cause, 0.0):
            self._next[cause] = now + INTERVAL
            self._log.warning("%s: %s (%s: %d)", _printable(peer), _printable(str(reason)), cause, count)


def _printable(text: str) -> str:
    """Return the beginning of a text in one line, without control characters."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text[:MAX_TEXT])
