# SPDX-License-Identifier: Apache-2.0
# Any text means the same to eclipse-zenoh: key expressions and their relations, selectors, encodings, timestamps, identifiers.
"""Differential: our parsers of text against those of the package eclipse-zenoh. Differences on purpose: docs/spec-notes.md."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import zenoh

from zenlake.core.encoding import Encoding
from zenlake.core.identifiers import Timestamp
from zenlake.core.keyexpr import KeyExpr
from zenlake.core.selector import Selector
from zenlake.errors import ZenlakeError

TEXTS = (
    "a/b\n**", "a/**/b/**/c\na/x/b/y/c", "a$*/b\nab$*c/b", "@a/**\n@a/b", "**/@x/*\na/@x/b", "**/**\n*/**", "é/ü\n*/ü",
)  # fmt: skip
CORPUS = [b"\x00" + text.encode() for text in TEXTS]
CORPUS += [
    b"\x01a/*/b?_time=[now(-2s)..now()];x=1|2;_anyke",
    b"\x01a?b=c=d;;e;=f",
    b"\x02text/plain;utf-8",
    b"\x02zenoh/bytes;",
]
CORPUS += [b"\x032026-01-01T00:00:00.123456789Z/33", b"\x037386690599959157260/33"]


class PanicError(Exception):
    """A panic in eclipse-zenoh: there is nothing to compare with."""


def attempt(call: Callable[[], Any]) -> Any:
    """Return a result, or None for an error of either package."""
    try:
        return call()
    except (ZenlakeError, zenoh.ZError, ValueError):
        return None
    except BaseException as error:
        if type(error).__name__ == "PanicException":  # not importable
            raise PanicError from None
        raise


def compare_keys(text: str) -> None:
    one, _, two = text.partition("\n")
    ours = [attempt(lambda each=each: KeyExpr.autocanonize(each)) for each in (one, two)]
    theirs = [attempt(lambda each=each: zenoh.KeyExpr.autocanonize(each)) for each in (one, two)]
    assert [each and str(each) for each in ours] == [each and str(each) for each in theirs]
    assert [attempt(lambda each=each: KeyExpr(each)) is None for each in (one, two)] == [
        attempt(lambda each=each: zenoh.KeyExpr(each)) is None for each in (one, two)
    ]
    if None not in ours:
        (a, b), (c, d) = ours, theirs
        assert (a.intersects(b), a.includes(b), b.includes(a)) == (c.intersects(d), c.includes(d), d.includes(c))


def compare_selectors(text: str) -> None:
    ours, theirs = attempt(lambda: Selector(text)), attempt(lambda: zenoh.Selector(text))
    assert (ours is None) == (theirs is None)
    if ours is not None:
        assert str(ours.key_expr) == str(theirs.key_expr)
        assert str(ours.parameters) == str(theirs.parameters)


def compare_encodings(text: str) -> None:
    ours, theirs = attempt(lambda: Encoding(text)), attempt(lambda: zenoh.Encoding(text))
    assert (ours and str(ours)) == (theirs and str(theirs))


def compare_timestamps(text: str) -> None:
    ours, theirs = attempt(lambda: Timestamp.parse_rfc3339(text)), attempt(lambda: zenoh.Timestamp.parse_rfc3339(text))
    assert (ours is None) == (theirs is None)
    assert ours is None or str(ours) == str(theirs)


COMPARISONS = (compare_keys, compare_selectors, compare_encodings, compare_timestamps)


def check(data: bytes) -> None:
    try:
        text = data[1:100].decode()
    except UnicodeDecodeError:
        return
    with suppress(PanicError):
        COMPARISONS[data[0] % len(COMPARISONS) if data else 0](text)
