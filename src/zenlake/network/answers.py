# SPDX-License-Identifier: Apache-2.0
"""Answers to a query of the application's that are shown where they were read. Compiled.

An answer usually passes through `queries`, which writes it again for whoever asked. Where the application asked, and has a
listener that wants them all, that is not needed: what is looked up is its key, and a key that came before is
recognized by its bytes. No object is made for such an answer. All that is not that simple (errors, keys that were not
asked for) goes the usual way.
"""

import cython

if cython.compiled:
    from cython.cimports.zenlake.network.forward import Listener
    from cython.cimports.zenlake.wire.memory import copy, same, take
    from cython.cimports.zenlake.wire.writer import Writer
else:
    from zenlake.network.forward import Listener  # noqa: F401
    from zenlake.wire.memory import copy, same, take
    from zenlake.wire.writer import Writer

__all__ = ["Answers"]

SLOTS = cython.declare(cython.Py_ssize_t, 1024)  # keys that are remembered, each where the bytes at its end say
FACTOR = cython.declare(cython.uint, 31)


class Answers:
    """Of one query. In the loop's thread, but for `over`, which is set when no answer is wanted any more."""

    def __init__(self, get, listener, lock):
        self.get = get
        self.listener = listener
        self.acquire = lock.acquire  # the query's lock: nobody is shown anything when it is done
        self.release = lock.release
        self.over = False
        self.spelled = Writer(64)
        self.whole = [None] * SLOTS
        self.own = [None] * SLOTS

    def take(self, reader, theirs, mine):
        """The answer in `reader.response`, from somebody who declared these keys. False: it goes the usual way."""
        if self.over or not reader.response.is_reply:
            return False
        wire = reader.response.key
        key: bytes = self.key(wire, theirs if wire.sender else mine)
        if key is None:
            return False
        self.acquire()
        try:
            if not self.over:
                self.listener.take(key, reader)
        finally:
            self.release()
        return True

    def key(self, wire, declared):
        """As the application knows it; None if it is none that was asked for."""
        w: Writer = self.spelled
        w.clear()
        size: cython.Py_ssize_t
        if wire.scope:
            size = declared.size_of(wire.scope) if wire.scope < declared.room else -1
            if size < 0:
                return None
            w.need(size)
            copy(w.data, 0, declared.data, declared.at[wire.scope], size)
            w.at = size
        if wire.suffix.size > 0:
            w.need(wire.suffix.size)
            copy(w.data, w.at, wire.suffix.data, wire.suffix.at, wire.suffix.size)
            w.at += wire.suffix.size
        slot: cython.uint = w.at
        i: cython.Py_ssize_t
        for i in range(max(0, w.at - 8), w.at):
            slot = slot * FACTOR + w.data[i]
        slot &= SLOTS - 1
        known: bytes = self.whole[slot]
        if known is None or len(known) != w.at or not same(w.data, 0, known, 0, w.at):
            known = take(w.data, 0, w.at)
            own = self.get.accepted(known)
            if own is None:
                return None
            self.whole[slot] = known
            self.own[slot] = own
        return self.own[slot]
