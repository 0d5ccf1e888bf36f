# SPDX-License-Identifier: Apache-2.0
"""Key expressions: validation, canonical form, and set relations.

An expression is a list of chunks between slashes. `*` matches one chunk, `**` any number of chunks, `$*` any bytes within a
chunk. A chunk that starts with `@` is *verbatim*: only the identical chunk matches it, no wildcard does.

Algorithm of the comparison. It needs no stack, and the limit for chunks with `$*` bounds its worst case:

- Verbatim chunks match only themselves, so both expressions must have the same ones in the same order. Between them are runs of
  ordinary chunks, and each run is compared with its counterpart separately.
- In two runs, chunks are compared pairwise from the front up to a `**`, then pairwise from the back up to a `**`. If both runs
  still have a `**`, they have a common key. It consists of the front, the middle of one run, the middle of the other, and the
  back. If only one run has a `**`, the pieces between its `**` must occur in the rest of the other, in order. The first
  occurrence is always the right choice, because it leaves the most for the following pieces.
- Within a chunk the same algorithm applies, with bytes for chunks and `$*` for `**`. The segments between `$*` are found by a
  linear search.
- The search for a piece compares chunk by chunk. After a few passes over the two expressions, `Text` finishes the search. It finds
  literal pieces by a linear search, and pieces with wildcards by bit sets of positions.
- *Includes* is the same, except that the wildcards of the included side are ordinary chunks. Only a wildcard at least as wide
  matches them. So `*/**` does not include `**`, and `a/*/**` does not include the smaller `a/**/b`, as in Zenoh 1.10.2.

The comparison is designed for routing. The C functions in the `.pxd` need no GIL and work on ranges of bytes. The ranges must be
canonical, which `c_scan` checks.
"""

import os
from bisect import bisect_left
from itertools import accumulate

import cython

from zenlake.core.enums import SetIntersectionLevel
from zenlake.errors import KeyExprError

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize

__all__ = ["KeyExpr", "validate", "canonize", "intersects", "includes", "relation"]

SLASH = cython.declare(cython.uchar, 0x2F)
STAR = cython.declare(cython.uchar, 0x2A)
DOLLAR = cython.declare(cython.uchar, 0x24)
HASH = cython.declare(cython.uchar, 0x23)
QUESTION = cython.declare(cython.uchar, 0x3F)
AT = cython.declare(cython.uchar, 0x40)

CANONICAL = cython.declare(cython.int, 0)
VALID = cython.declare(cython.int, 1)  # but not canonical
INVALID = cython.declare(cython.int, 2)
COSTLY = cython.declare(cython.int, 3)  # canonical, but with too many chunks with `$*`

# Two expressions with many chunks with `$*` take seconds to compare, because each pair of chunks may have to be compared.
MAX_DOLLAR_CHUNKS = cython.declare(cython.Py_ssize_t, int(os.environ.get("ZENLAKE_MAX_DOLLAR_CHUNKS", "64")))
MAX_PASSES = cython.declare(cython.Py_ssize_t, 2)  # over both expressions, before `Text` takes over
MAX_SINGLES = cython.declare(cython.int, 8)  # candidates that are compared one by one
MAX_SHORT = cython.declare(cython.Py_ssize_t, 256)  # bytes of a chunk that is searched without a look at its letters
MAX_MASKS = cython.declare(cython.Py_ssize_t, 1 << 24)  # maximum bytes of the masks of one search


def c_scan(p, i, n):
    """Return CANONICAL, VALID, INVALID or COSTLY."""
    level: cython.int = CANONICAL
    after_double: cython.bint = False
    has_dollar: cython.bint
    dollars: cython.Py_ssize_t = 0
    e: cython.Py_ssize_t
    c: cython.uchar
    while True:
        e = i
        has_dollar = False
        while e < n and p[e] != SLASH:
            c = p[e]
            if e > i and p[i] == STAR and (c != STAR or e > i + 1):
                return INVALID  # more than `*` or `**`
            if c == DOLLAR:
                if e + 1 == n or p[e + 1] != STAR:
                    return INVALID
                has_dollar = True
                e += 1
                if e + 1 < n and p[e + 1] == DOLLAR:
                    level = VALID  # `$*$*`, unless the next iteration finds an error
            elif c in (HASH, QUESTION) or (c == STAR and p[i] != STAR):
                return INVALID
            e += 1
        if e == i:
            return INVALID  # an empty chunk
        if e == i + 2 and p[i] == DOLLAR:
            level = VALID  # `$*` alone
        if after_double and e <= i + 2 and (p[i] == STAR or p[i] == DOLLAR):
            level = VALID  # `**/**` or `**/*`
        dollars += has_dollar
        if e == n:
            return COSTLY if dollars > MAX_DOLLAR_CHUNKS else level
        after_double = _is_double(p, i, e)
        i = e + 1


def c_intersects(a, i, n, b, j, m):
    return _relates(False, a, i, n, b, j, m)


def c_includes(a, i, n, b, j, m):
    return _relates(True, a, i, n, b, j, m)


def _relates(includes, a, i, n, b, j, m):
    v: cython.Py_ssize_t = i
    w: cython.Py_ssize_t = j
    while (
        v < n and w < m and a[v] == b[w] and a[v] != STAR
    ):  # Performance: most pairs have a common start and then differ
        v += 1
        w += 1
        if a[v - 1] == SLASH:
            i = v
            j = w
    if v == n and w == m:
        return True
    while True:
        v = _verbatim(a, i, n)
        w = _verbatim(b, j, m)
        if not _run_relates(includes, a, i, v - 1 if i < v < n else v, b, j, w - 1 if j < w < m else w):
            return False
        if v == n or w == m:
            return v == n and w == m
        while v < n and w < m and a[v] == b[w] and a[v] != SLASH:
            v += 1
            w += 1
        if (v < n and a[v] != SLASH) or (w < m and b[w] != SLASH):
            return False
        i = v + 1 if v < n else n
        j = w + 1 if w < m else m


def _run_relates(includes, a, i, n, b, j, m):
    """Compare two runs of chunks without verbatim chunks."""
    e: cython.Py_ssize_t
    f: cython.Py_ssize_t
    while i < n and j < m:
        e = _end(a, i, n)
        f = _end(b, j, m)
        if _is_double(a, i, e) or (not includes and _is_double(b, j, f)):
            break
        if not _chunk_relates(includes, a, i, e, b, j, f):
            return False
        i = e + 1 if e < n else n
        j = f + 1 if f < m else m
    while i < n and j < m:
        e = _last(a, i, n)
        f = _last(b, j, m)
        if _is_double(a, e, n) or (not includes and _is_double(b, f, m)):
            break
        if not _chunk_relates(includes, a, e, n, b, f, m):
            return False
        n = e - 1 if e > i else i
        m = f - 1 if f > j else j
    if _has_double(a, i, n):
        return (not includes and _has_double(b, j, m)) or _chunks_fit(includes, a, i, n, b, j, m)
    if not includes and _has_double(b, j, m):
        return _chunks_fit(False, b, j, m, a, i, n)
    return i == n and j == m


def _chunks_fit(includes, a, i, n, b, j, m):
    """Return whether the pieces between the `**` of a occur in b, in order and without overlap."""
    e: cython.Py_ssize_t
    f: cython.Py_ssize_t
    x: cython.Py_ssize_t
    y: cython.Py_ssize_t
    left: cython.Py_ssize_t = MAX_PASSES * (n - i + m - j) + 256
    while i < n:
        x = i
        y = j
        while x < n:
            e = _end(a, x, n)
            if _is_double(a, x, e):
                i = e + 1 if e < n else n  # the piece is complete
                j = y
                break
            if y == m:
                return False
            f = _end(b, y, m)
            left -= e - x + f - y
            if left < 0:
                return _search(includes, a, i, n, b, j, m)
            if not _chunk_relates(includes, a, x, e, b, y, f):
                f = _end(b, j, m)
                j = f + 1 if f < m else m  # try the piece one chunk later
                break
            x = e + 1 if e < n else n
            y = f + 1 if f < m else m
        else:
            return True
    return True


def _search(includes, a, i, n, b, j, m):
    """Do the same as `_chunks_fit` with a bounded number of steps."""
    text = Text(includes, _copy(b, j, m))
    at: cython.Py_ssize_t = 0
    piece: list = []
    for chunk in _copy(a, i, n).split(b"/"):
        if chunk != b"**":
            piece.append(chunk)
        elif piece:
            at = text.find(piece, at)
            if at < 0:
                return False
            piece = []
    return not piece or text.find(piece, at) >= 0


class Mask:
    """The positions of a text whose chunks relate to one chunk, as bits. Positions with wildcards are added on demand."""

    def __init__(self, size):
        self.bits = bytearray(size)
        self.next = 0
        """The index of the next position to add, among those that must be compared."""


class Text:
    """The chunks of one run without `**`, or of an included run, prepared for the search of many pieces."""

    def __init__(self, includes, utf8):
        self.includes = includes
        self.utf8 = b"/" + utf8 + b"/"
        self.chunks = utf8.split(b"/")
        self.is_literal = includes or b"*" not in utf8
        self.starts = list(accumulate([len(chunk) + 1 for chunk in self.chunks], initial=0))  # offsets of the slashes
        self.places = {}  # positions by chunk
        self.all = list(range(len(self.chunks)))
        self.wild = []  # positions of chunks that must be compared also with literals
        self.masks = {}

    def find(self, piece, at):
        """Return the position after the first occurrence of a piece at or after `at`, or -1."""
        if self.is_literal:
            joined: bytes = b"/".join(piece)
            if b"*" not in joined:
                at = self.utf8.find(b"/" + joined + b"/", self.starts[at])
                return -1 if at < 0 else bisect_left(self.starts, at) + len(piece)
        if not self.places:
            self.places = _places(self.chunks)
            if not self.is_literal:
                self.wild = [position for position in self.all if b"*" in self.chunks[position]]
        size: cython.Py_ssize_t = len(piece)
        last: cython.Py_ssize_t = len(self.chunks) - size
        width: cython.Py_ssize_t = 16
        left: cython.int
        i: cython.Py_ssize_t
        group: cython.Py_ssize_t
        chunk: bytes
        indexes: list
        groups: list = self.groups(piece)
        one: object = 1  # not a C integer
        while at <= last:
            width = min(width, last + 1 - at)
            candidates: bytearray = bytearray(((one << width) - 1).to_bytes((width + 63) // 64 * 8, "little"))
            left = MAX_SINGLES + 1
            for group in range(len(groups)):
                chunk, indexes = groups[group]
                mask: bytearray = self.mask(chunk, at + indexes[len(indexes) - 1] + width)
                for i in indexes:
                    left = _narrow(candidates, mask, at + i)
                    if left <= MAX_SINGLES:
                        break
                if left <= MAX_SINGLES:
                    groups.insert(0, groups.pop(group))  # a chunk that fails here is likely to fail at later positions
                    break
            bits = int.from_bytes(candidates, "little")
            while bits:
                lowest = bits & -bits
                i = at + lowest.bit_length() - 1
                if left > MAX_SINGLES or self.has(piece, i):
                    return i + size
                bits ^= lowest
            at += width
            width *= 4
        return -1

    def groups(self, piece):
        """Return the distinct chunks of a piece with their indexes: first the literals that occur least in the text."""
        groups = _places(piece)
        if b"**" not in self.places:
            groups.pop(b"*", None)  # relates to every chunk
        counts = {chunk: len(self.all) if b"*" in chunk else len(self.places.get(chunk, ())) for chunk in groups}
        return [(chunk, groups[chunk]) for chunk in sorted(groups, key=counts.__getitem__)]

    def has(self, piece, at):
        """Return whether a piece is at a position."""
        chunk: bytes
        for chunk in piece:
            if not self.relates(chunk, self.chunks[at]):
                return False
            at += 1
        return True

    def relates(self, chunk, other):
        return _chunk_relates(self.includes, chunk, 0, len(chunk), other, 0, len(other))

    def mask(self, chunk, end):
        """Return the positions before `end` whose chunks relate to this one, as bits of a bytearray."""
        position: cython.Py_ssize_t
        mask: Mask = self.masks.get(chunk)
        if mask is None:
            size: cython.Py_ssize_t = (len(self.chunks) // 64 + 3) * 8  # `_narrow` reads one more word
            if len(self.masks) * size >= MAX_MASKS:
                self.masks.clear()
            mask = self.masks[chunk] = Mask(size)
            for position in self.places.get(chunk, ()):
                mask.bits[position >> 3] |= 1 << (position & 7)
        others: list = self.all if b"*" in chunk else self.wild
        letters: object = None
        if b"*" not in chunk and len(chunk) > MAX_SHORT:
            letters = frozenset(chunk)
        while mask.next < len(others):
            position = others[mask.next]
            if position >= end:
                break
            mask.next += 1
            other: bytes = self.chunks[position]
            if letters is not None and b"$" in other and not letters.issuperset(other.replace(b"$*", b"")):
                continue
            if self.relates(chunk, other):
                mask.bits[position >> 3] |= 1 << (position & 7)
        return mask.bits


def _places(chunks):
    """Return the indexes of each distinct chunk."""
    places: dict = {}
    position: cython.Py_ssize_t
    for position in range(len(chunks)):
        chunk: bytes = chunks[position]
        found: list = places.get(chunk)
        if found is None:
            places[chunk] = [position]
        else:
            found.append(position)
    return places


def _narrow(candidates, mask, by):
    """Keep the candidates whose bit is set in the mask, `by` bits later. Return their number, at most MAX_SINGLES + 1."""
    if cython.compiled:
        c: cython.pointer(cython.ulonglong) = _words(candidates)
        m: cython.pointer(cython.ulonglong) = _words(mask) + (by >> 6)
        shift: cython.int = by & 63
        size: cython.Py_ssize_t = len(candidates) >> 3
        left: cython.int = 0
        word: cython.ulonglong
        at: cython.Py_ssize_t
        for at in range(size):
            c[at] &= m[at] >> shift | m[at + 1] << 1 << (63 - shift)
        for at in range(size):
            word = c[at]
            while word != 0:
                word &= word - 1
                left += 1
                if left > MAX_SINGLES:
                    return left
        return left
    value = int.from_bytes(candidates, "little") & int.from_bytes(mask, "little") >> by
    candidates[:] = value.to_bytes(len(candidates), "little")
    return min(value.bit_count(), MAX_SINGLES + 1)


def _chunk_relates(includes, a, i, n, b, j, m):
    """Compare two chunks that are neither verbatim nor (except an included b) `**`."""
    if a[i] == STAR:
        return not _is_double(b, j, m)
    if b[j] == STAR:
        return not includes
    while i < n and j < m and a[i] != DOLLAR and (includes or b[j] != DOLLAR):
        if a[i] != b[j]:
            return False
        i += 1
        j += 1
    while i < n and j < m and a[n - 1] != STAR and (includes or b[m - 1] != STAR):
        if a[n - 1] != b[m - 1]:
            return False
        n -= 1
        m -= 1
    if _has_dollar(a, i, n):
        return (not includes and _has_dollar(b, j, m)) or _bytes_fit(a, i, n, b, j, m)
    if not includes and _has_dollar(b, j, m):
        return _bytes_fit(b, j, m, a, i, n)
    return i == n and j == m


def _bytes_fit(a, i, n, b, j, m):
    """Return whether the segments between the `$*` of a occur in b, in order and without overlap."""
    e: cython.Py_ssize_t
    while i < n:
        e = i
        while e < n and a[e] != DOLLAR:
            e += 1
            if e - i > m - j:
                return False
        j = _find(a, i, e, b, j, m)
        if j < 0:
            return False
        j += e - i
        i = e + 2
    return True


def _end(p, i, n):
    """Return the end of the chunk at i."""
    while i < n and p[i] != SLASH:
        i += 1
    return i


def _last(p, i, n):
    """Return the start of the last chunk of [i, n)."""
    while n > i and p[n - 1] != SLASH:
        n -= 1
    return n


def _verbatim(p, i, n):
    """Return the start of the first verbatim chunk of [i, n), or n."""
    while i < n:
        if p[i] == AT:
            return i
        i = _end(p, i, n) + 1
    return n


def _is_double(p, i, n):
    return n == i + 2 and p[i] == STAR and p[i + 1] == STAR


def _has_double(p, i, n):
    while i + 1 < n:
        if p[i] == STAR and p[i + 1] == STAR:
            return True
        i += 1
    return False


def _has_dollar(p, i, n):
    if n - i > 32:
        return _find(b"$", 0, 1, p, i, n) >= 0
    while i < n:
        if p[i] == DOLLAR:
            return True
        i += 1
    return False


if cython.compiled:

    def _find(a, i, e, b, j, m):
        """Return where a[i:e] first occurs in b[j:m], or -1. Linear in m - j."""
        if e - i > m - j:
            return -1
        found: cython.pointer(cython.const[cython.uchar]) = memmem(b + j, m - j, a + i, e - i)  # noqa: F821
        return -1 if found is cython.NULL else found - b

    def _copy(p, i, n):
        return PyBytes_FromStringAndSize(cython.cast(cython.p_char, p) + i, n - i)

    def _words(data):
        return cython.cast(cython.pointer(cython.ulonglong), PyByteArray_AS_STRING(data))

else:

    def _find(a, i, e, b, j, m):
        return b.find(a[i:e], j, m)

    def _copy(p, i, n):
        return p[i:n]


def validate(expression: str | bytes) -> None:
    """Raise KeyExprError, with a suggestion, unless the text (or its UTF-8) is a canonical key expression."""
    utf8: bytes = _utf8(expression)
    if c_scan(utf8, 0, len(utf8)) != CANONICAL:
        raise _error(utf8)


def canonize(expression: str | bytes) -> str:
    """Return the canonical form of any valid key expression."""
    utf8: bytes = _utf8(expression)
    level: cython.int = c_scan(utf8, 0, len(utf8))
    if level in (INVALID, COSTLY):
        raise _error(utf8)
    return utf8.decode() if level == CANONICAL else _canonical(utf8.decode())


def intersects(a: str | bytes, b: str | bytes) -> bool:
    """Return whether two canonical expressions (text or UTF-8, not checked) have a common key."""
    p: bytes = _utf8(a)
    q: bytes = _utf8(b)
    return bool(c_intersects(p, 0, len(p), q, 0, len(q)))


def includes(a: str | bytes, b: str | bytes) -> bool:
    """Return whether every key of b is a key of a. Both are canonical, text or UTF-8, not checked."""
    p: bytes = _utf8(a)
    q: bytes = _utf8(b)
    return bool(c_includes(p, 0, len(p), q, 0, len(q)))


def relation(a: str | bytes, b: str | bytes) -> SetIntersectionLevel:
    """Return the relation of the keys of a to those of b. Both are canonical, text or UTF-8, not checked."""
    p: bytes = _utf8(a)
    q: bytes = _utf8(b)
    if p == q:
        return SetIntersectionLevel.EQUALS
    if c_includes(p, 0, len(p), q, 0, len(q)):
        return SetIntersectionLevel.INCLUDES
    if c_intersects(p, 0, len(p), q, 0, len(q)):
        return SetIntersectionLevel.INTERSECTS
    return SetIntersectionLevel.DISJOINT


@cython.cclass
@cython.annotation_typing(False)  # accepts subclasses of str
class KeyExpr:
    """A canonical key expression. It equals its text and has the same hash; `utf8` is its encoded form.

    `KeyExpr("a/**/*")` is rejected with the canonical form in the error; `KeyExpr.autocanonize` accepts it. Functions that expect
    a key expression also accept its text.

    Args:
        key_expr: The canonical text.

    Raises:
        KeyExprError: The text is invalid or not canonical.
        TypeError: It is not a str.
    """

    __slots__ = ("_text", "utf8")

    def __init__(self, key_expr: str) -> None:
        if not isinstance(key_expr, str):
            raise TypeError(f"invalid key expression of type {type(key_expr).__name__}; expected str")
        self._text = str(key_expr)
        self.utf8 = _utf8(self._text)
        if c_scan(self.utf8, 0, len(self.utf8)) != CANONICAL:
            raise _error(self.utf8)

    @classmethod
    def autocanonize(cls, key_expr: str) -> "KeyExpr":
        """Return the canonical form of any valid expression.

        Args:
            key_expr: The text, canonical or not.

        Raises:
            KeyExprError: The text is invalid.
        """
        return cls(canonize(key_expr))

    @classmethod
    def from_wire(cls, utf8: bytes | bytearray | memoryview) -> "KeyExpr":
        """Decode the bytes of a message.

        Args:
            utf8: Canonical UTF-8.

        Raises:
            KeyExprError: The bytes are not UTF-8, or the text is invalid or not canonical.
        """
        try:
            return cls(bytes(utf8).decode())
        except UnicodeDecodeError as error:
            raise KeyExprError(f"key expression {bytes(utf8)!r} is not UTF-8: {error.reason}") from None

    def intersects(self, /, other: "KeyExpr | str") -> bool:
        """Return whether at least one key matches both expressions.

        Args:
            other: The other key expression.

        Raises:
            KeyExprError: `other` is invalid.
        """
        return intersects(self.utf8, _expression(other).utf8)

    def includes(self, /, other: "KeyExpr | str") -> bool:
        """Return whether every key of `other` matches this expression.

        Args:
            other: The other key expression.

        Raises:
            KeyExprError: `other` is invalid.
        """
        return includes(self.utf8, _expression(other).utf8)

    def relation_to(self, /, other: "KeyExpr | str") -> SetIntersectionLevel:
        """Return the relation of the keys of this expression to those of `other`.

        Args:
            other: The other key expression.

        Raises:
            KeyExprError: `other` is invalid.
        """
        return relation(self.utf8, _expression(other).utf8)

    def join(self, /, other: "KeyExpr | str") -> "KeyExpr":
        """Return `self/other` in canonical form.

        Args:
            other: The chunks to append.

        Raises:
            KeyExprError: The result is invalid.
        """
        return KeyExpr(canonize(f"{self}/{other}"))

    def concat(self, /, other: str) -> "KeyExpr":
        """Return the concatenation of both texts. To append chunks, `join` is safer.

        Args:
            other: The text to append.

        Raises:
            KeyExprError: The result is not a canonical key expression.
        """
        if self._text.endswith("*") and other.startswith("*"):
            raise KeyExprError(f"`{self}` and `{other}` would form another wildcard: insert a `/`, or use join")
        return KeyExpr(f"{self}{other}")

    def __truediv__(self, other: "KeyExpr | str") -> "KeyExpr":
        return self.join(other) if isinstance(other, (str, KeyExpr)) else NotImplemented

    def __rtruediv__(self, other: str) -> "KeyExpr":
        return KeyExpr(other).join(self) if isinstance(other, str) else NotImplemented

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"ke`{self._text}`"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, KeyExpr):
            other = str(other)
        return self._text == other if isinstance(other, str) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._text,)


def _expression(other):
    return other if isinstance(other, KeyExpr) else KeyExpr(other)


def _utf8(expression):
    if isinstance(expression, bytes):
        return expression
    try:
        return str.encode(expression)
    except UnicodeEncodeError:
        raise KeyExprError(f"key expression {expression!r} has a lone surrogate, which UTF-8 cannot encode") from None


def _canonical(text):
    """Collapse repeated `$*`, then sort each sequence of wildcards: every `*` first, then at most one `**`."""
    chunks: list = []
    owed: cython.bint = False  # a pending `**`, written at the end of its sequence
    for chunk in text.split("/"):
        while "$*$*" in chunk:
            chunk = chunk.replace("$*$*", "$*")
        if chunk == "**":
            owed = True
            continue
        if chunk == "$*":
            chunk = "*"
        if owed and chunk != "*":
            chunks.append("**")
            owed = False
        chunks.append(chunk)
    if owed:
        chunks.append("**")
    return "/".join(chunks)


def _error(utf8):
    """Return the error for an expression that is not canonical, with a suggestion."""
    text = utf8.decode(errors="replace")
    if not text:
        return KeyExprError("a key expression cannot be empty: `**` stands for every key")
    level = c_scan(utf8, 0, len(utf8))
    if level == COSTLY:
        text = f"{text[:60]}..."
        why = (
            f"has more than {MAX_DOLLAR_CHUNKS} chunks with `$*`: use `*` or fewer of them, "
            "or raise the limit with the environment variable ZENLAKE_MAX_DOLLAR_CHUNKS"
        )
    elif level == VALID:
        why = f"is not canonical: write `{_canonical(text)}`, or use KeyExpr.autocanonize"
    else:
        faults = ((number, chunk, _fault(chunk)) for number, chunk in enumerate(text.split("/"), 1))
        why = next(f"has a fault in chunk {number}, `{chunk}`: {fault}" for number, chunk, fault in faults if fault)
    return KeyExprError(f"key expression `{text}` {why}")


def _fault(chunk):
    rest = chunk.replace("$*", "")
    if not chunk:
        return "chunks cannot be empty: remove the leading, trailing or double `/`"
    if "#" in rest or "?" in rest:
        return "`#` and `?` are not allowed; in a selector, `?` ends the key expression"
    if "$" in rest:
        return "`$` is only allowed before `*`: remove it, or write `$*`"
    if "*" in rest and chunk != "*" and chunk != "**":
        return "`*` and `**` are whole chunks: to match part of a chunk, write `$*`"
    return None
