# SPDX-License-Identifier: Apache-2.0
"""How what is published becomes samples. Compiled: this is called for every one of them.

What comes alone or with few others, or is anything but plain, becomes a `Sample` where it is read. Of the plain
publications that lie one behind the other in a frame, as most of a flood do, only the bytes are copied, all at once; each
becomes a sample when it is taken out of its channel (`Run`), in the thread that takes it. So the node's thread has little
to do, and what waits is small: a sample lives for no longer than its callback, in memory that the one before has just left.

What the ids in a run stand for is settled when it arrives: later they may stand for something else.
"""

import cython

from zenlake.errors import KeyExprError
from zenlake.keyexpr import KeyExpr

if cython.compiled:
    import cython.cimports.zenlake.wire.ids as ids
    from cython.cimports.zenlake.api.channel import Several
    from cython.cimports.zenlake.api.sample import Sample, begun, clock_of, sample_of
    from cython.cimports.zenlake.network.forward import Listener
    from cython.cimports.zenlake.wire.cursor import Cursor
    from cython.cimports.zenlake.wire.memory import eight_bytes, joined_sevens, short_vle, take
    from cython.cimports.zenlake.wire.network import Push
else:
    from zenlake.api.channel import Several
    from zenlake.api.sample import Sample, begun, clock_of, sample_of
    from zenlake.network.forward import Listener
    from zenlake.wire import ids
    from zenlake.wire.cursor import Cursor
    from zenlake.wire.memory import eight_bytes, joined_sevens, short_vle, take
    from zenlake.wire.network import Push

__all__ = ["Keys", "Plain", "Run", "Samples"]

MOST_KEYS = 4096

if not cython.compiled:  # compiled: constants of C, in the .pxd, which says what they mean
    QOS = 0x21
    DEFAULT_QOS = 0x05
    MAY_BLOCK = 0x28
    LARGEST_ID = 0xFFFF
    AHEAD = 48
    FEWEST = 4
    OTHER = -1

# In the eight bytes of a time that come first, that each goes on; of the eight that come last, the ninth.
GOES_ON = cython.declare(cython.ulonglong, 0x8080808080808080)
NINTH = cython.declare(cython.ulonglong, 0xFF00000000000000)


class Plain:
    """A PUSH of a declared key, with a QoS or none, and a PUT with a timestamp of our time or none, an encoding or none.

    `Push.read` reads whatever the format allows; this reads what most publications are, in a fifth of the time. It refuses
    nothing, and understands nothing otherwise: `tests/api/test_arriving.py` compares the two on whole and on broken messages.
    """

    def __init__(self):
        self.scope = 0  # the key's id: below zero if the receiver declared it, not the sender
        self.qos = 0
        self.clock_at = 0  # the time lies before it
        self.clock_size = 0  # 0: it has no timestamp
        self.encoding = 0
        self.payload_at = 0
        self.payload_size = 0

    def read(self, data, at, end):
        """The message that begins there; returns where it ends, or OTHER if it is not plain or not whole."""
        if end - at < AHEAD:
            return OTHER
        header: cython.int = data[at]
        number: cython.longlong = short_vle(data, at + 1)
        if (
            header & (ids.KIND | ids.SUFFIX) != ids.PUSH or number >> 3 < 1 or number >> 3 > LARGEST_ID
        ):  # 0 stands for no key
            return OTHER
        at += 1 + (number & 7)
        self.scope = number >> 3 if header & ids.SENDERS else -(number >> 3)
        self.qos = DEFAULT_QOS
        if header & ids.Z:
            if data[at] != QOS or data[at + 1] >= 0x80:
                return OTHER
            self.qos = data[at + 1]
            at += 2
        header = data[at]
        at += 1
        if header & ~(ids.STAMPED | ids.ENCODED) != ids.PUT:
            return OTHER
        self.clock_size = 0
        if header & ids.STAMPED:  # nine bytes of time, as until the year 2106, then the clock's id
            self.clock_size = data[at + 9]
            self.clock_at = at + 10
            if eight_bytes(data, at) & GOES_ON != GOES_ON or not 1 <= self.clock_size <= 16 or data[at + 10] == 0:
                return OTHER
            at += 10 + self.clock_size
        self.encoding = 0
        if header & ids.ENCODED:
            number = short_vle(data, at)
            if number < 0 or number & 8:  # with a schema
                return OTHER
            self.encoding = number >> 4
            at += number & 7
        number = short_vle(data, at)
        at += number & 7
        if number < 0 or number >> 3 > end - at:
            return OTHER
        self.payload_at = at
        self.payload_size = number >> 3
        return at + self.payload_size

    def time(self, data):
        """The timestamp's, as NTP64."""
        at: cython.Py_ssize_t = self.clock_at - 10
        return joined_sevens(eight_bytes(data, at)) | eight_bytes(data, at + 1) & NINTH


class Run(Several):
    """Plain publications that wait as they came, until they are asked for one by one."""

    def __init__(self, kept, count, names):
        self.left = count
        self.kept = kept  # the messages, and as many bytes more as may be looked at
        self.data = self.kept
        self.at = 0
        self.plain = Plain()
        self.names = names  # key expressions by the ids that stood for them when this came
        self.scope = 0
        self.key_expr = None

    def next(self):
        plain: Plain = self.plain
        self.at = plain.read(self.data, self.at, len(self.kept))
        if plain.scope != self.scope:
            self.scope = plain.scope
            self.key_expr = self.names[plain.scope]
        sample: Sample = begun(self.key_expr, True, plain.qos)
        if plain.clock_size:
            sample.ntp64 = plain.time(self.data)
            sample.clock = clock_of(self.data, plain.clock_at, plain.clock_size)
        sample._payload = take(self.data, plain.payload_at, plain.payload_size)
        if plain.encoding:  # last, for here the garbage collector may run, and somebody ask for the next
            sample._encoding = (plain.encoding, None)
        return sample


class Keys:
    """Key expressions by their bytes: the same few keys come again and again."""

    def __init__(self):
        self.known = {}

    def __call__(self, utf8: bytes) -> KeyExpr:
        found = self.known.get(utf8)
        if found is None:
            if len(self.known) >= MOST_KEYS:
                self.known.clear()
            found = self.known[utf8] = KeyExpr.from_wire(utf8)
        return found

    def valid(self, utf8):
        """None for what is no key expression: a peer may send anything."""
        try:
            return self(utf8)
        except KeyExprError:
            return None


class Samples(Listener):
    """What a subscriber is: makes a Sample of each message and pushes it, into the channel if there is one."""

    def __init__(self, push, channel, keys, stamper):
        self.push = push
        self.channel = channel
        self.keys = keys
        self.stamper = stamper
        self.runs = self.channel is not None and not (
            self.channel.ring or self.channel.refuses
        )  # which drop one by one
        self.plain = Plain()
        self.door = None  # by which the last run came, and in which epoch: then ids stand for what they stood for
        self.epoch = 0
        self.names = {}

    def take(self, key, reader):
        key_expr = self.keys.known.get(key)
        if key_expr is None:
            key_expr = self.keys.valid(key)
        if key_expr is not None:
            message: Push = reader.push
            stack = None
            if message.timestamp_stack.size >= 0:
                stack = self.stamper.received(message.timestamp_stack.value)
            sample: Sample = sample_of(key_expr, message.put, message.delete, message.is_put, message.qos, stack)
            if self.channel is None:
                self.push(sample)
            elif not self.channel.admits(message.qos & MAY_BLOCK != 0):
                return 1
            else:
                return self.channel.push(sample)
        return 0

    def take_run(self, door, reader):
        c: Cursor = reader.c
        plain: Plain = self.plain
        at: cython.Py_ssize_t = c.at
        last: cython.Py_ssize_t = at
        scope: cython.int = 0
        count: cython.Py_ssize_t = 0
        if c.end - at < FEWEST * AHEAD:
            return 0
        if door is not self.door or door.epoch.number != self.epoch:
            self.door = door
            self.epoch = door.epoch.number
            self.names = {}
        while True:
            beyond: cython.Py_ssize_t = plain.read(c.data, at, c.end)
            if beyond == OTHER or (plain.scope != scope and not self.is_named(plain.scope)):
                break
            scope = plain.scope
            last = at
            at = beyond
            count += 1
        if count < FEWEST:
            return 0
        run: Run = Run(take(c.data, c.at, max(at, last + AHEAD) - c.at), count, self.names)
        c.at = at
        self.channel.push_several(run)
        return count

    def is_named(self, scope):
        """Whether an id stands for a key whose publications are for us alone."""
        if scope in self.names:
            return True
        key: bytes = self.door.key_for(self, scope)
        key_expr = None if key is None else self.keys.valid(key)
        # Where memory is asked for, anybody's finalizer may have declared something.
        if key_expr is None or self.door.epoch.number != self.epoch:
            return False
        self.names[scope] = key_expr
        return True
