# SPDX-License-Identifier: Apache-2.0
# Any two texts are refused with a KeyExprError, or have a canonical form that stays itself, and relate consistently:
# what includes intersects, what intersects does so both ways, and each includes itself.
"""Key expressions."""

from zenlake.core.keyexpr import KeyExpr, canonize, includes, intersects
from zenlake.errors import KeyExprError

CORPUS = [
    text.encode()
    for text in (
        "a/b\n**", "a/*/c\na/**", "**/b/**\na/b/c", "a$*/b\nab$*c/b", "@a/**\n@a/b", "**/@x/*\na/@x/b", "**/**\n*/**",
        "robot/1/pose\nrobot/*/pose", "$*a$*b$*\nxaybz", "a/**/b/**/c\na/x/b/y/c", "é/ü\n*/ü",
    )
]  # fmt: skip


def check(data: bytes) -> None:
    one, _, two = data[:64].partition(b"\n")
    try:
        KeyExpr.from_wire(one)
        KeyExpr.from_wire(two)
    except KeyExprError:
        pass
    try:
        a, b = canonize(one.decode()), canonize(two.decode())
    except (KeyExprError, UnicodeDecodeError):
        return
    for canonical in (a, b):
        assert str(KeyExpr.from_wire(canonical.encode())) == canonical
        assert canonize(canonical) == canonical
        assert includes(canonical, canonical)
        assert includes("**", canonical) or "@" in canonical
    assert intersects(a, b) == intersects(b, a)
    assert intersects(a, b) or not includes(a, b)
    assert a == b or not (includes(a, b) and includes(b, a))
