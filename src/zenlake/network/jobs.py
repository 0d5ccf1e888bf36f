# SPDX-License-Identifier: Apache-2.0
"""Long work in slices: the event loop serves other faces in between, and the node's lock is free.

A job is a generator that belongs to a face. Each `next` does a small step (about 0.1 ms) with the node's lock
held. A job yields None to be continued, or a face to wait until that face's backlog has drained. While a face has a job
that suspends it, no further message of it is handled. Jobs of one face run in order. Faces take turns.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zenlake.network.face import Face
    from zenlake.network.node import Node

__all__ = ["BUDGET", "Job", "Jobs"]

SLICE = 0.0002  # seconds of jobs in one turn of the event loop; every message of others may wait for one slice
BUDGET = 0.0002  # seconds of expensive messages of one read, after which the rest waits for the next turn
MAX_RESUMES = 4  # faces over their budget that continue in one turn

Job = Iterator["Face | None"]


class Jobs:
    """The jobs of one node. `run` is called on the event loop thread, `start` on any thread."""

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.wake: Callable[[], None] = lambda: None
        """Requests a call of `run` in the next turn of the event loop."""
        self._ready: deque[Face] = deque()
        self._blocked: dict[Face, list[Face]] = {}
        """Faces with waiting jobs, by the face whose backlog must drain first."""
        self._deferred: deque[Face] = deque()

    def start(self, face: "Face", job: Job, retry: bool = False, suspend: bool = True) -> bool:
        """Run a job, at once if it is short. Otherwise suspend its face until the job has ended.

        Args:
            face: Owner of the job.
            job: The generator to run.
            retry: Whether the face's current message is handled again afterwards.
            suspend: Whether to suspend the face. Two nodes that both write much to each other must both continue to read.

        Returns:
            Whether the job has ended already.
        """
        face.jobs.append(job)
        if len(face.jobs) == 1 and self._advance(face):
            return True
        if suspend and face.is_open:
            face.suspend(self, retry)
        self.wake()
        return False

    def defer(self, face: "Face") -> None:
        """Suspend a face whose messages took long, until the next turn of the event loop."""
        if self.node not in face.pause_reasons:
            face.suspend(self.node)
            self._deferred.append(face)
            self.wake()

    def drop(self, face: "Face") -> None:
        """Drop the jobs of a face that is gone."""
        face.jobs.clear()
        self.resume_blocked(face)

    def resume_blocked(self, face: "Face") -> None:
        """Continue the jobs that wait for a face's backlog."""
        faces = self._blocked.pop(face, None)
        if faces is not None:
            self._ready.extend(faces)
            self.wake()

    def run(self) -> None:
        """Run the jobs of this turn. `wake` is called if there are more."""
        for _ in range(min(len(self._deferred), MAX_RESUMES)):
            self._deferred.popleft().release(self.node)
        end = self.node.now() + SLICE
        while self._ready:
            face = self._ready.popleft()
            if face.jobs and self._advance(face) and face.is_open:
                face.release(self)
            if self.node.now() >= end:
                break
        self.node._run_effects()
        if self._ready or self._deferred:
            self.wake()

    def _advance(self, face: "Face") -> bool:
        """Run the first jobs of a face for one slice. Return whether all of its jobs have ended."""
        end = self.node.now() + SLICE
        while face.jobs:
            job = face.jobs[0]
            try:
                with self.node.lock:
                    blocker = next(job)
            except StopIteration:
                if face.jobs and face.jobs[0] is job:
                    face.jobs.popleft()
                continue
            except BaseException:
                face.jobs.clear()
                face.release(self)
                raise
            if not face.jobs:
                break
            if blocker is not None and blocker.is_open:
                self._blocked.setdefault(blocker, []).append(face)
                return False
            if self.node.now() >= end:
                self._ready.append(face)
                return False
        return True
