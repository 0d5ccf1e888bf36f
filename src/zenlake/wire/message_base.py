# SPDX-License-Identifier: Apache-2.0
"""Base class of messages: fields by name, extensions, equality, bytes.

A message class has one `read` and one `write`, with one line for each row of its diagram. It has three uses:

- an object: `read_network(cursor)` creates one for each message;
- a row of columns: one reused record, whose fields are copied to Arrow;
- a forwarded message: one reused record, written with another key and with the received bytes of its body.

Safety: records are reused, so **each `read` assigns every field on every call**. `read` and `write` run without the GIL.

Extension tables are data: `EXTS` maps a header byte without its Z bit (ENC, M and ID identify an extension) to its field.
Extensions that are not in the table are kept in the raw chain `exts` and written unchanged.
"""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.wire.cursor import Blob, Cursor, Field
from cython.cimports.zenlake.wire.writer import WireWriter

from zenlake.errors import InvalidValue


def rebuild(kind, fields):
    """Create a message from the Python values of a pickle."""
    return kind(**fields)


class Message(Field):
    """Base class of messages. Subclasses define NAME, ID, FIELDS (in diagram order), EXTS, `read` and `write`."""

    NAME = ""
    ID = 0
    FIELDS: tuple[str, ...] = ()
    EXTS: dict[int, str] = {}

    def __init__(self, parts=()):
        self.exts = Blob()
        self.unknown = 0
        self.parts = (self.exts, *parts)

    def set(self, values):
        """Set fields from Python values. `unknown_exts` is a raw chain of extensions to write unchanged."""
        for name in values:
            if name not in self.FIELDS and name != "unknown_exts":
                raise TypeError(f"{self.NAME} has no field {name!r}; it has {', '.join(self.FIELDS)}")
        for name in self.FIELDS:  # in diagram order, because a field may set bits of an earlier one
            if name not in values:
                continue
            field = getattr(self, name)
            if isinstance(field, Field) and not isinstance(field, Message):
                field.set(values[name])
            else:
                setattr(self, name, values[name])
        if "unknown_exts" in values:
            self.keep(values["unknown_exts"])

    def keep(self, chain):
        self.exts.set(chain)
        self.unknown = 0
        c = Cursor(chain or b"", 0, None, self.NAME)
        while c.at < c.end:
            header = c.ext("unknown_exts")
            if header & 0x7F in self.known_exts():
                raise InvalidValue(
                    f"{self.NAME} has a field for the extension {header & 0x7F:#04x}; set that field instead"
                )
            c.skip_unknown("unknown_exts", header)
            self.unknown += 1

    def bind(self, buf):
        part: Field
        for part in self.parts:
            part.bind(buf)
        return 0

    # Defined by each message

    def read(self, c, h):
        """Read the fields after the header byte `h`."""
        return 0

    def write(self, w):
        """Write the message, beginning with the header byte."""
        return 0

    def read_ext(self, c, kind):
        """Read the extension with the header byte `kind` (without Z). Return 0 if this message has no such extension."""
        return 0

    def fail_no_writer(self):
        raise TypeError(f"{self.NAME} must be written into a Writer, not into None")

    # Extensions

    def read_exts(self, c, h):
        """Read the extension chain if the Z bit of the header is set."""
        self.unknown = 0
        if h & message_ids.Z == 0:
            self.exts.clear()
            return 0
        self.exts.at = c.at
        header: cython.int = message_ids.Z
        while header & message_ids.Z:
            header = c.next_ext("exts")
            if self.read_ext(c, header & 0x7F) == 0:
                c.skip_unknown("exts", header)
                self.unknown += 1
        self.exts.size = c.at - self.exts.at
        return 0

    if not cython.compiled:  # compiled: inline, in the .pxd, because most messages have no extension

        def next_exts(self, c, h):
            return self.read_exts(c, h)

    def known_exts(self):
        return self.EXTS

    def write_unknown(self, w):
        """Write the stored unknown extensions."""
        if self.unknown:
            self.copy_unknown(w)
        return 0

    def copy_unknown(self, w):
        low, high = 0, 0
        for kind in self.known_exts():
            if kind < 0x40:
                low |= 1 << kind
            else:
                high |= 1 << (kind - 0x40)
        return w.copy_unknown(self.exts, low, high)

    # Python interface

    @property
    def unknown_exts(self):
        """Return the unknown extensions of this message as a separate chain, or None."""
        if not self.unknown:
            return None
        w = WireWriter()
        self.copy_unknown(w)
        return w.to_bytes()

    def fields(self):
        """Return field names and values, as Python objects."""
        values = {}
        for name in self.FIELDS:
            value = getattr(self, name)
            if isinstance(value, Field) and not isinstance(value, Message):
                value = value.value
            values[name] = value
        values["unknown_exts"] = self.unknown_exts
        return values

    def decode(self, c):
        """Read this message from a cursor at its header byte. Return the message itself."""
        cursor: Cursor = c
        if cursor is None:
            raise TypeError("a message is read from a cursor, not from None")
        cursor.message = "message"
        self.bind(cursor.buf)
        self.read(cursor, cursor.u8("header"))
        return self

    def encode(self):
        """Return the message as bytes."""
        w = WireWriter()
        self.write(w)
        return w.to_bytes()

    def __bytes__(self):
        return self.encode()

    def __eq__(self, other):
        return type(self) is type(other) and self.fields() == other.fields()

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self):
        return rebuild, (type(self), self.fields())

    def __repr__(self):
        blank = type(self)().fields()
        fields = (f"{name}={value!r}" for name, value in self.fields().items() if value != blank[name])
        return f"{type(self).__name__}({', '.join(fields)})"
