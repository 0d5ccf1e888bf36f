# SPDX-License-Identifier: Apache-2.0
import copy
import pickle
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenlake.core.keyexpr import KeyExpr
from zenlake.core.selector import Parameters, Selector, TimeExpr, TimeRange
from zenlake.errors import InvalidValue, KeyExprError

HOUR = 3600 * 10**9
texts = st.text("ab=;|", max_size=12)
keys = st.text("abc", min_size=1, max_size=2)


class TestParameters:
    @pytest.mark.parametrize(
        ("text", "entries"),
        [  # companion selectors/parameters.md
            ("a=1;b=2", [("a", "1"), ("b", "2")]),
            ("a=1&b=2", [("a", "1&b=2")]),
            ("a", [("a", "")]),
            ("=x", [("", "x")]),
            ("a=1;a=2", [("a", "1"), ("a", "2")]),
            ("_time=[now(-1h)..now()];x", [("_time", "[now(-1h)..now()]"), ("x", "")]),
            ("a=b=c", [("a", "b=c")]),
            (";;a=1;;", [("a", "1")]),
            (" a = 1 ", [(" a ", " 1 ")]),
            ("", []),
        ],
    )
    def test_entries(self, text, entries):
        assert list(Parameters(text)) == entries

    def test_separators_at_the_end_go(self):  # asked of 1.10.2
        assert [str(Parameters(text)) for text in (";;a=1;;", "a=", "a=|", "a=b=;|", ";", "=")] == [
            ";;a=1",
            "a",
            "a",
            "a=b",
            "",
            "",
        ]

    def test_of_two_the_first_counts(self):
        parameters = Parameters("a=1;a=2;b")
        assert parameters.get("a") == parameters["a"] == "1"
        assert parameters.get("b") == ""
        assert parameters.get("c") is parameters["c"] is None
        assert parameters.get("c", "x") == "x"
        assert "b" in parameters
        assert "c" not in parameters

    def test_values(self):
        assert Parameters("a=1|2|3").values("a") == ["1", "2", "3"]
        assert Parameters("a").values("a") == [""]
        assert Parameters("a").values("b") == []

    @pytest.mark.parametrize(
        ("text", "change", "returned", "after"),
        [  # asked of 1.10.2
            ("a=1;b=2", lambda p: p.insert("a", "9"), "1", "b=2;a=9"),
            ("a=1;b=2;c;a=3", lambda p: p.insert("a", "9"), "1", "b=2;c;a=9"),
            ("a=1;b=2;c;a=3", lambda p: p.insert("z", "9"), None, "a=1;b=2;c;a=3;z=9"),
            (";;a=1;;b=2;", lambda p: p.insert("z", ""), None, "a=1;b=2;z"),
            ("a=1;b=2;c;a=3", lambda p: p.remove("a"), "1", "b=2;c"),
            (";a=1;;b", lambda p: p.remove("zz"), None, "a=1;b"),
            ("=x;a=1", lambda p: p.remove("a"), "1", ""),
            ("a=1;b=2;a=3", lambda p: p.extend("a=7;a=8;c"), None, "b=2;a=7;a=8;c"),
            ("b=1;a=2", lambda p: p.extend({"z": "1", "y": "2"}), None, "b=1;a=2;z=1;y=2"),
            ("a=1", lambda p: p.extend(""), None, "a=1"),
            ("=x;a=1", lambda p: p.extend("=y"), None, "a=1"),
        ],
    )
    def test_changes(self, text, change, returned, after):
        parameters = Parameters(text)
        assert change(parameters) == returned
        assert parameters == after

    def test_from_a_dict(self):
        assert str(Parameters({"b": "1", "a": "", "c": "x=y"})) == "b=1;a;c=x=y"

    @pytest.mark.parametrize("entry", [{"": "1"}, {"a;b": "1"}, {"a=b": "1"}, {"a": "1;2"}])
    def test_an_entry_that_would_be_read_as_another_is_refused(self, entry):
        with pytest.raises(InvalidValue, match="invalid parameter"):
            Parameters(entry)
        with pytest.raises(InvalidValue, match="invalid parameter"):
            Parameters().insert(*next(iter(entry.items())))

    def test_order_and_emptiness(self):
        assert Parameters("a=2;a=1;b").is_ordered()
        assert not Parameters("b;a").is_ordered()
        assert Parameters().is_empty()
        assert not Parameters(";")
        assert Parameters("a")

    @given(texts, st.dictionaries(keys, st.text("12", max_size=2), max_size=3))
    def test_after_extend_every_new_entry_is_there(self, text, more):
        parameters = Parameters(text)
        parameters.extend(more)
        assert all(parameters.get(key) == value for key, value in more.items())

    @given(texts)
    def test_they_pickle_and_copy_apart(self, text):
        parameters = Parameters(text)
        other = copy.copy(parameters)
        assert pickle.loads(pickle.dumps(parameters)) == other == parameters
        other.insert("new", "1")
        assert "new" not in parameters


class TestSelector:
    @pytest.mark.parametrize(
        ("selector", "key_expr", "parameters"),
        [
            (Selector("a/b"), "a/b", ""),
            (Selector("a/b?x=1"), "a/b", "x=1"),
            (Selector("a/**?x?y"), "a/**", "x?y"),
            (Selector("a/b?"), "a/b", ""),
            (Selector("a/b", "x=1"), "a/b", "x=1"),
            (Selector(KeyExpr("a/b"), {"x": "1"}), "a/b", "x=1"),
            (Selector("a/b", Parameters("x=1")), "a/b", "x=1"),
            (Selector("a", ""), "a", ""),
        ],
    )
    def test_its_two_parts(self, selector, key_expr, parameters):
        assert isinstance(selector.key_expr, KeyExpr)
        assert (selector.key_expr, selector.parameters) == (key_expr, parameters)
        assert str(selector) == (f"{key_expr}?{parameters}" if parameters else key_expr)
        assert repr(selector) == f'sel"{selector}"'
        assert pickle.loads(pickle.dumps(selector)) == selector

    @pytest.mark.parametrize("arguments", [("a//b?x",), ("?x",), ("a/b?y=2", "x=1"), ("a#b?x",), ("a/**/*?x",)])
    def test_an_invalid_key_expression_is_refused(self, arguments):
        with pytest.raises(KeyExprError):
            Selector(*arguments)

    def test_its_parts_can_be_changed(self):
        selector = Selector("a?x=1")
        before = copy.copy(selector)
        selector.key_expr = "b"
        selector.parameters.insert("y", "2")
        assert str(selector) == "b?x=1;y=2"
        selector.parameters = {"z": "3"}
        assert str(selector) == "b?z=3"
        assert str(before) == "a?x=1"


class TestTimeRange:
    @pytest.mark.parametrize(
        ("text", "inside", "outside"),
        [  # offsets from now, in hours
            ("[now(-1h)..now()]", [-1, -0.5, 0], [-1.1, 0.1]),
            ("]now(-1h)..now()[", [-0.5], [-1, 0]),
            ("[now(-1h)..now()[", [-1], [0]),
            ("]now(-1h)..now()]", [0], [-1]),
            ("[..now()]", [-1000, 0], [0.1]),
            ("[now(-60m)..]", [-1, 1000], [-1.1]),
            ("[..]", [-1000, 1000], []),
            ("[now(-2h);90m]", [-2, -0.5], [-2.1, -0.4]),
            ("[now(-1.5h)..now(1800)]", [-1.5, 0.5], [-1.6, 0.6]),
        ],
    )
    def test_contains(self, text, inside, outside):
        now = 1_700_000_000 * 10**9
        for range in (TimeRange.parse(text), TimeRange.parse(str(TimeRange.parse(text)))):
            assert all(range.contains(now + round(hours * HOUR), now) for hours in inside)
            assert not any(range.contains(now + round(hours * HOUR), now) for hours in outside)

    def test_instants(self):
        range = TimeRange.parse("[2026-01-01T00:00:00Z..2026-01-01T00:00:00.5Z[")
        assert range.start == TimeExpr(1767225600 * 10**9)
        assert range.end == TimeExpr(1767225600 * 10**9 + 500_000_000)
        assert not range.includes_end
        assert str(range) == "[2026-01-01T00:00:00.000000000Z..2026-01-01T00:00:00.500000000Z["

    @pytest.mark.parametrize(
        ("text", "ns"),
        [
            ("1u", 1000),
            ("1ms", 10**6),
            ("0.000000001s", 1),
            ("2.5s", 2_500_000_000),
            ("3", 3 * 10**9),
            ("1m", 60 * 10**9),
            ("-1h", -HOUR),
            ("+1d", 24 * HOUR),
            ("1w", 168 * HOUR),
        ],
    )
    def test_durations(self, text, ns):
        time = TimeExpr.parse(f"now({text})")
        assert time == TimeExpr(ns, relative=True)
        assert TimeExpr.parse(str(time)) == time
        assert time.resolve(5) == 5 + ns

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "[]",
            "now()..now()",
            "(now()..]",
            "[now..now()]",
            "[now(1y)..]",
            "[now(1 h)..]",
            "[now(inf)..]",
            "[now(1e3)..]",
            "[;5m]",
            "[now();]",
            "[2026-01-01..]",
            "[2026-01-01T00:00:00Z;9999999w]",
        ],
    )
    def test_odd_ranges_are_refused(self, text):
        with pytest.raises(InvalidValue):
            TimeRange.parse(text)

    def test_the_one_of_a_selector(self):
        parameters = Selector("a?x;_time=[now(-1h)..]").parameters
        assert parameters.time_range() == TimeRange.parse("[now(-1h)..]")
        assert Parameters("x").time_range() is None
        with pytest.raises(InvalidValue, match=re.escape("[now(-1h)..now()]")):
            Parameters("_time=yesterday").time_range()


def test_a_time_range_is_parsed_in_linear_time() -> None:
    """A peer chooses the text. A regular expression needed 18 s for 64 kB."""
    start = time.thread_time()
    for text in ("[" + ".." * 30_000, "[" + ";" * 60_000, "[now(" + "-1s" * 20_000):
        with pytest.raises(InvalidValue):
            TimeRange.parse(text)
    assert time.thread_time() - start < 1.0
