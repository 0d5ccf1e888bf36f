# SPDX-License-Identifier: Apache-2.0
"""Compare key expressions with recorded results of 1.10.2, and with two simple models."""

import contextlib
import copy
import json
import pickle
import re
import time
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from zenlake.core import keyexpr
from zenlake.core.enums import SetIntersectionLevel
from zenlake.core.keyexpr import KeyExpr, canonize, includes, intersects, relation, validate
from zenlake.errors import KeyExprError

SEEN = json.loads((Path(__file__).parents[1] / "vectors/data/keyexpr.json").read_text())
CRASHES = {"a$*$*b": "a$*b"}  # 1.10.2 panics on these: the correct result

literals = st.text("ab", min_size=1, max_size=3)
globs = st.lists(st.sampled_from(["a", "b", "$*"]), min_size=2, max_size=6).map("".join)
verbatims = st.sampled_from(["@", "@a", "@b", "@a$*"])
chunks = st.one_of(literals, globs, st.just("*"), st.just("**"), st.just("**"), verbatims)
valid = st.lists(chunks, min_size=1, max_size=6).map("/".join)
expressions = valid.map(canonize)
junk = st.text("ab/*$@#?é", max_size=8)
KEYS = [
    "/".join(key)
    for size in (1, 2, 3)
    for key in product(["a", "b", "ab", "ba", "aab", "@a"], repeat=size)
    if size < 3 or key[0] in ("a", "ab")
]


# Model 1: a set of keys, one key at a time.


@cache
def pattern(chunk):
    return re.compile(".*".join(map(re.escape, chunk.split("$*"))))


def belongs(key, expression):
    if not expression:
        return not key
    if expression[0] == "**":
        return belongs(key, expression[1:]) or (bool(key) and key[0][0] != "@" and belongs(key[1:], expression))
    if not key:
        return False
    if key[0][0] == "@" or expression[0][0] == "@":
        same = key[0] == expression[0]
    else:
        same = expression[0] == "*" or pattern(expression[0]).fullmatch(key[0])
    return bool(same) and belongs(key[1:], expression[1:])


# Model 2: the branching walk of the companion page, once for chunks and once for characters.


def tokens(chunk):
    return tuple(re.findall(r"\$\*|.", chunk))


@cache
def walk(a, b, any_of, one, both):
    """Return whether lists a and b intersect. `any_of` in a (and in b, if `both`) matches any items that `one` accepts."""
    if not a and not b:
        return True
    if a and a[0] == any_of:
        if walk(a[1:], b, any_of, one, both):
            return True
        if b and one(any_of, b[0]) and walk(a, b[1:], any_of, one, both):
            return True
    if both and b and b[0] == any_of:
        if walk(a, b[1:], any_of, one, both):
            return True
        if a and one(any_of, a[0]) and walk(a[1:], b, any_of, one, both):
            return True
    if not a or not b or any_of in (a[0], b[0]):
        return False
    return one(a[0], b[0]) and walk(a[1:], b[1:], any_of, one, both)


def same_character(a, b):
    return a == "$*" or a == b


def chunks_meet(a, b):
    if a[0] == "@" or b[0] == "@":
        return a == b
    return a in ("*", "**") or b == "*" or walk(tokens(a), tokens(b), "$*", same_character, True)


def chunk_covers(a, b):
    if a[0] == "@" or b[0] == "@":
        return a == b
    if a in ("*", "**"):
        return a == "**" or b != "**"
    return b not in ("*", "**") and walk(tokens(a), tokens(b), "$*", same_character, False)


def model_intersects(a, b):
    return walk(tuple(a.split("/")), tuple(b.split("/")), "**", chunks_meet, True)


def model_includes(a, b):
    return walk(tuple(a.split("/")), tuple(b.split("/")), "**", chunk_covers, False)


# Model 3: a table of all pairs of positions, for long expressions.


def table(a, b, one, both):
    """Fill the table from the end: entry [i][j] states whether a[i:] and b[j:] meet."""
    a, b = a.split("/"), b.split("/")
    below = []
    for i in range(len(a), -1, -1):
        row = [False] * (len(b) + 1)
        for j in range(len(b), -1, -1):
            if i == len(a) and j == len(b):
                row[j] = True
            elif i < len(a) and a[i] == "**":
                row[j] = below[j] or (j < len(b) and one("**", b[j]) and row[j + 1])
            if both and j < len(b) and b[j] == "**":
                row[j] = row[j] or row[j + 1] or (i < len(a) and one("**", a[i]) and below[j])
            elif i < len(a) and j < len(b) and a[i] != "**":
                row[j] = row[j] or (one(a[i], b[j]) and below[j + 1])
        below = row
    return below[0]


@st.composite
def long_pairs(draw):
    """Draw pieces that almost fit in many places of a text, and fit in some."""
    chunk = st.sampled_from(["a", "b", "*", "a$*", "$*b", "ab"])
    unit = draw(st.lists(chunk, min_size=1, max_size=4))
    end = draw(st.lists(chunk, max_size=2))
    text_unit = [draw(st.sampled_from([part, "ab", part.replace("$*", "x")])) for part in unit]
    text_end = [draw(st.sampled_from([part, "ab", "*"])) for part in end]
    a = ["**"]
    for _ in range(draw(st.integers(1, 2))):
        a += [*unit * draw(st.integers(10, 40)), *end, "**"]
    b = []
    for _ in range(draw(st.integers(1, 3))):
        b += [*text_unit * draw(st.integers(20, 90)), *text_end]
    if draw(st.booleans()):
        b.insert(draw(st.integers(0, len(b))), "**")
    assume(max(sum("$" in part for part in chunks) for chunks in (a, b)) <= 64)
    return canonize("/".join(a)), canonize("/".join(b))


class TestSeen:
    @pytest.mark.parametrize("case", SEEN["validity"], ids=lambda case: case["in"])
    def test_validity_and_canonical_form(self, case):
        text = case["in"]
        if "strict" in case:
            assert str(KeyExpr(text)) == case["strict"]
            validate(text)
        else:
            with pytest.raises(KeyExprError):
                KeyExpr(text)
        canonical = CRASHES.get(text, case.get("canon"))
        if canonical is None:
            with pytest.raises(KeyExprError):
                canonize(text)
        else:
            assert canonize(text) == str(KeyExpr.autocanonize(text)) == canonical

    @pytest.mark.parametrize("case", SEEN["pairs"], ids=lambda case: f"{case['a']} {case['b']}")
    def test_relations(self, case):
        if "error" in case:
            with pytest.raises(KeyExprError):
                KeyExpr(case["a"])
            return
        a, b = KeyExpr(case["a"]), KeyExpr(case["b"])
        assert a.intersects(b) is case["intersects"]
        assert b.intersects(a) is case["b_intersects_a"]
        assert a.includes(b) is case["a_includes_b"]
        assert b.includes(a) is case["b_includes_a"]
        assert a.relation_to(b) is SetIntersectionLevel[case["relation"]]


class TestModels:
    @given(expressions, expressions)
    def test_intersects_and_includes_as_the_branching_walk_does(self, a, b):
        assert intersects(a, b) is model_intersects(a, b)
        assert includes(a, b) is model_includes(a, b)

    @given(expressions)
    def test_every_small_key_belongs_as_it_should(self, expression):
        for key in KEYS:
            expected = belongs(key.split("/"), expression.split("/"))
            assert intersects(expression, key) is intersects(key, expression) is expected, key
            assert includes(expression, key) is expected, key

    @given(expressions, expressions)
    def test_relations_hold_for_every_small_key(self, a, b):
        of_a = {key for key in KEYS if belongs(key.split("/"), a.split("/"))}
        of_b = {key for key in KEYS if belongs(key.split("/"), b.split("/"))}
        if of_a & of_b:
            assert intersects(a, b)
        if includes(a, b):
            assert of_a >= of_b

    @given(valid)
    def test_canonical_form_keeps_the_keys(self, expression):
        canonical = canonize(expression)
        for key in KEYS:
            assert belongs(key.split("/"), expression.split("/")) == belongs(key.split("/"), canonical.split("/"))

    @settings(max_examples=40, deadline=None)
    @given(long_pairs())
    def test_long_expressions_relate_as_the_table_of_all_pairs_states(self, pair):
        a, b = pair
        meets, covers = cache(chunks_meet), cache(chunk_covers)
        assert intersects(a, b) is intersects(b, a) is table(a, b, meets, True)
        assert includes(a, b) is table(a, b, covers, False)


class TestProperties:
    @given(expressions, expressions)
    def test_relations_agree_with_each_other(self, a, b):
        level = relation(a, b)
        assert intersects(a, b) == intersects(b, a) == (level >= SetIntersectionLevel.INTERSECTS)
        assert includes(a, b) == (level >= SetIntersectionLevel.INCLUDES)
        assert (a == b) == (level is SetIntersectionLevel.EQUALS)
        assert a == b or not (includes(a, b) and includes(b, a))

    @given(expressions)
    def test_an_expression_includes_and_meets_itself(self, expression):
        assert intersects(expression, expression)
        assert includes(expression, expression)

    @given(expressions, expressions, expressions)
    def test_including_is_transitive(self, a, b, c):
        if includes(a, b) and includes(b, c):
            assert includes(a, c)

    @given(valid)
    def test_canonizing_is_idempotent(self, expression):
        canonical = canonize(expression)
        validate(canonical)
        assert canonize(canonical) == canonical

    @given(junk)
    def test_accepted_keys_are_canonical_and_refusals_have_a_reason(self, text):
        try:
            canonical = canonize(text)
        except KeyExprError:
            canonical = None
        if canonical == text:
            validate(text)
        else:
            with pytest.raises(KeyExprError, match=re.escape(f"`{canonical or text}`") if text else "empty"):
                validate(text)

    @given(st.text(max_size=20), st.text(max_size=20))
    def test_any_text_is_either_compared_or_refused(self, a, b):
        try:
            a, b = canonize(a), canonize(b)
        except KeyExprError:
            return
        assert intersects(a, b) is model_intersects(a, b)
        assert includes(a, b) is model_includes(a, b)

    @given(expressions, expressions)
    def test_text_and_utf8_are_the_same(self, a, b):
        assert relation(a.encode(), b) is relation(a, b.encode()) is relation(a, b)


class TestHostile:
    """A branching algorithm would never end. The time limit of the test is the assertion."""

    def test_many_doubles_that_almost_fit(self):
        expression = "**/" + "a/**/" * 150 + "b/**/a"
        assert not intersects(expression, "/".join("a" * 400))
        assert not includes(expression, "/".join("a" * 400))
        assert includes(expression.replace("b", "a"), "/".join("a" * 400))

    def test_many_doubles_on_both_sides(self):
        a, b = "**/" + "a/**/" * 300 + "b", "**/" + "b/**/" * 300 + "a/**/b"
        assert intersects(a, b)
        assert not includes(a, b)

    def test_many_dollars_that_almost_fit(self):
        expression = "a" + "$*a" * 150 + "$*b$*a"
        assert not intersects(expression, "a" * 1000)
        assert not includes(expression, "a" * 1000)
        assert includes(expression.replace("b", "a"), "a" * 1000)

    def test_many_dollars_on_both_sides(self):
        assert intersects("a" + "$*a" * 300, "a" + "$*b" * 300 + "$*a")
        assert not includes("a" + "$*a" * 300, "a" + "$*b" * 300 + "$*a")

    def test_both_changes_together(self):
        chunk = "a" + "$*a" * 20 + "$*b$*a"
        expression = "**/" + f"{chunk}/**/" * 20 + "c/**/d"
        assert not intersects(expression, "/".join(["a" * 40] * 40 + ["d"]))


SIZE = 65_535 if not keyexpr.__file__.endswith(".py") else 4_000  # an uncompiled comparison is about 100 times slower
HALF = SIZE // 2


def fill(unit, size=SIZE, before="", after=""):
    """Repeat chunks until an expression has a size in bytes."""
    return before + "/".join([unit] * ((size - len(before) - len(after)) // (len(unit) + 1))) + after


def row(chunk, size=SIZE, before="", after=""):
    """Repeat the chunks that a function returns for 0, 1, 2 ..., until an expression has a size in bytes."""
    chunks, left = [], size - len(before) - len(after)
    while left > len(chunk(len(chunks))):
        chunks.append(chunk(len(chunks)))
        left -= len(chunks[-1]) + 1
    return before + "/".join(chunks) + after


def limited(chunk, other, size=SIZE):
    """A piece with as many chunks with `$*` as an expression may have, then others, then one that does not occur."""
    dollars = "/".join(chunk(i) for i in range(60))
    return fill(other, size, f"**/{dollars}/", "/y$*/**")


WORST = {
    "doubles on both sides": (fill("x/**"), fill("x/**")),
    "doubles, literal": (fill("x/**", SIZE, "", "/y/**"), fill("x")),
    "one long piece": (fill("x", HALF, "**/", "/y/**"), fill("x")),
    "long piece with stars": (fill("x/*", HALF, "**/", "/y/**"), fill("x")),
    "longer piece with stars": (fill("x/*", SIZE * 3 // 4, "**/", "/y/**"), fill("x")),
    "stars only": (fill("*", HALF, "**/", "/y/**"), fill("x")),
    "stars on both sides": (fill("a/b", HALF, "**/", "/y/**"), fill("a/b/*/b")),
    "pieces of eight": (fill("x/x/x/x/x/x/*/x/**", SIZE - 9, "**/", "/y/**"), fill("x")),
    "pieces that fail": (fill("x/x/x/x/x/*/y/**", SIZE - 9, "**/", "/y/**"), fill("x")),
    "pieces of one": (fill("a/**/b/**", SIZE, "**/"), fill("a/b")),
    "dollars in a piece": (limited(lambda i: "a$*b", "acb", HALF), fill("acb")),
    "short dollars": (limited(lambda i: f"{chr(97 + i % 26)}$*", "a", HALF), fill("a")),
    "dollars in both": (limited(lambda i: "a$*", "ab", HALF), limited(lambda i: "a$*", "ab")),
    "dollars in the text": (row(lambda i: f"a{i:x}", HALF, "**/", "/y/**"), limited(lambda i: "a$*", "a")),
    "literals and dollars": (
        row(lambda i: f"a{i:x}", HALF, "**/", "/y$*/**"),
        row(lambda i: f"a{i:x}", SIZE - 200) + "/a$*" * 40,
    ),
    "stars and dollars": ("**/" + "*/" * (SIZE // 8) + "/".join(["a$*"] * 60) + "/y$*/**", fill("a")),
    "long dollars": (
        "**/" + "/".join("$*" + "a$*" * (SIZE // 300 + i % 40) for i in range(SIZE // 1092)) + "/y$*/**",
        fill("a" * 300),
    ),
    "dollars in one chunk": ("$*a" * (SIZE // 3 - 2) + "$*b$*", "a" * SIZE),
    "dollars in both chunks": ("$*a" * (SIZE // 3 - 2) + "$*b", "b" + "$*a" * (SIZE // 3 - 2)),
    "long segment": ("$*" + "a" * HALF + "b$*", "a" * SIZE),
    "long segments": ("$*" + ("a" * 300 + "b$*") * (SIZE // 310), "a" * SIZE),
    "long chunk, short keys": ("**/" + "$*a" * (SIZE // 4) + "$*/**", fill("x")),
    "long key, short chunks": ("**/" + "a" * (SIZE - 9) + "/**", limited(lambda i: "a$*b$*", "ab")),
    "different chunks that match": (
        limited(
            lambda i: "$*" + "$*".join(c for n, c in enumerate("abcdefgh") if (i % 255 + 1) >> n & 1) + "$*",
            "abcdefgh",
            HALF,
        ),
        row(lambda i: f"abcdefgh{i:x}"),
    ),
    "verbatim": (fill("@x/**/x"), fill("@x/x/**")),
}


class TestWorstPairs:
    """Performance: compiled and alone, each takes under 20 ms. The bound allows for load."""

    @pytest.mark.parametrize("name", WORST)
    def test_a_pair_of_65535_bytes_is_compared_quickly(self, name):
        a, b = (canonize(text).encode() for text in WORST[name])
        assert max(len(a), len(b)) <= SIZE
        for compare in (intersects, includes):
            for one, other in ((a, b), (b, a)):
                start = time.thread_time()
                compare(one, other)
                assert time.thread_time() - start < 0.2

    def test_more_chunks_with_dollars_than_can_be_compared_quickly_are_refused(self):
        """Without the limit, the first two expressions take a second to compare."""
        canonize("a$*/" * 63 + "a$*")
        for text in (fill("a$*"), row(lambda i: f"$*{i:x}", HALF, "**/", "/y$*/**"), "$*a/" * 64 + "$*a"):
            for check in (canonize, validate, KeyExpr):
                with pytest.raises(KeyExprError, match=r"has more than 64 chunks with `\$\*`: use `\*` or fewer"):
                    check(text)

    @pytest.mark.parametrize("text", ["$*$*" * 16_000, "**/*/" * 13_000 + "a", "$*/" * 21_000 + "a", "a#" * 32_000])
    def test_a_text_of_65535_bytes_is_checked_quickly(self, text):
        start = time.thread_time()
        for check in (canonize, validate):
            with contextlib.suppress(KeyExprError):
                check(text)
        assert time.thread_time() - start < 0.2


class TestKeyExpr:
    def test_it_is_its_text(self):
        key = KeyExpr("demo/é/*")
        assert str(key) == key == "demo/é/*"
        assert repr(key) == "ke`demo/é/*`"
        assert key.utf8 == "demo/é/*".encode()
        assert {"demo/é/*": 1}[key] == 1
        assert key != "demo"
        assert key != 5
        assert KeyExpr("a") != KeyExpr("b")

    def test_it_pickles_and_copies(self):
        key = KeyExpr("demo/é/*")
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(key, protocol)) == key
        assert copy.copy(key) == copy.deepcopy(key) == key

    def test_it_takes_no_new_attributes(self):
        with pytest.raises(AttributeError):
            KeyExpr("a").surprise = 1
        with pytest.raises(TypeError, match="invalid key expression of type int; expected str"):
            KeyExpr(5)

    def test_from_wire(self):
        assert KeyExpr.from_wire(memoryview("é/**".encode())) == "é/**"
        with pytest.raises(KeyExprError, match="not UTF-8"):
            KeyExpr.from_wire(b"a/\xff")
        with pytest.raises(KeyExprError, match="canonical"):
            KeyExpr.from_wire(b"**/**")

    def test_half_a_surrogate_pair_is_refused(self):
        with pytest.raises(KeyExprError, match="surrogate"):
            KeyExpr("a/\ud800")

    def test_a_subclass_of_str_is_a_str(self):
        class Name(str):
            pass

        assert KeyExpr(Name("a/b")).join(Name("c")) == KeyExpr.autocanonize(Name("a/b/c")) == "a/b/c"

    @pytest.mark.parametrize("method", ["intersects", "includes", "relation_to"])
    def test_the_other_may_be_text_but_not_junk(self, method):
        key = KeyExpr("a/*")
        assert getattr(key, method)("a/b") == getattr(key, method)(KeyExpr("a/b"))
        with pytest.raises(KeyExprError, match="canonical"):
            getattr(key, method)("a/**/*")
        with pytest.raises(TypeError):
            getattr(key, method)(5)

    def test_join_and_concat(self):
        key = KeyExpr("a/b")
        assert key.join("c") == key / "c" == key / KeyExpr("c") == "a/b/c"
        assert key / "**" / "*" == "a/b/*/**"
        assert key.concat("$*") == "a/b$*"
        assert key.concat("/c") == "a/b/c"
        for refused in (lambda: key.join("/c"), lambda: key.concat("*"), lambda: KeyExpr("a/*").concat("*")):
            with pytest.raises(KeyExprError):
                refused()
        with pytest.raises(TypeError):
            key / 5

    @pytest.mark.parametrize(
        ("text", "advice"),
        [
            ("", "`**` stands for every key"),
            ("a//b", "chunk 2, ``: chunks cannot be empty: remove"),
            ("/a", "chunk 1"),
            ("a/b*/c", "chunk 2, `b*`: `*` and `**` are whole chunks: to match part of a chunk, write `$*`"),
            ("a/***", "chunk 2, `***`"),
            ("a/b$c", "chunk 2, `b$c`: `$` is only allowed before `*`"),
            ("a?x=1", "chunk 1, `a?x=1`: `#` and `?` are not allowed"),
            ("a/**/*/b", "write `a/*/**/b`, or use KeyExpr.autocanonize"),
        ],
    )
    def test_errors_name_the_chunk_and_suggest_a_fix(self, text, advice):
        with pytest.raises(KeyExprError, match=re.escape(advice)):
            KeyExpr(text)
