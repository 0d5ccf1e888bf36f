# SPDX-License-Identifier: Apache-2.0
"""Key expressions against what 1.10.2 was seen to answer, then against two models written for clarity, not speed."""

import copy
import json
import pickle
import re
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenlake.errors import KeyExprError
from zenlake.keyexpr import KeyExpr, canonize, includes, intersects, relation, validate
from zenlake.values import SetIntersectionLevel

SEEN = json.loads((Path(__file__).parent / "vectors/data/keyexpr.json").read_text())
CRASHES = {"a$*$*b": "a$*b"}  # 1.10.2 panics on these; what it should have said

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
    """Whether lists a and b meet, where `any_of` in a (and in b, if `both`) swallows what `one` lets it."""
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
    def test_canonizing_twice_changes_nothing(self, expression):
        canonical = canonize(expression)
        validate(canonical)
        assert canonize(canonical) == canonical

    @given(junk)
    def test_what_is_not_refused_is_canonical_and_the_rest_is_explained(self, text):
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
    """Branching would take longer than the universe lasts; the test's time limit is the assertion."""

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

    def test_both_at_once(self):
        chunk = "a" + "$*a" * 20 + "$*b$*a"
        expression = "**/" + f"{chunk}/**/" * 20 + "c/**/d"
        assert not intersects(expression, "/".join(["a" * 40] * 40 + ["d"]))


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
        with pytest.raises(TypeError, match="a key expression is a str, not int"):
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
    def test_errors_name_the_chunk_and_say_how_to_mend_it(self, text, advice):
        with pytest.raises(KeyExprError, match=re.escape(advice)):
            KeyExpr(text)
