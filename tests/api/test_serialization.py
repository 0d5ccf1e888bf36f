# SPDX-License-Identifier: Apache-2.0
"""`z_serialize` returns the same bytes as eclipse-zenoh."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import zenlake
from zenlake.ext import Float32, Int8, Int128, UInt16, UInt64, ZDeserializeError, z_deserialize, z_serialize

VALUES = [
    ("True", "bool"),
    ("-42", "int"),
    ("Int8(-1)", "Int8"),
    ("UInt16(65535)", "UInt16"),
    ("Int128(-(1 << 100))", "Int128"),
    ("UInt128(1 << 127)", "UInt128"),
    ("1.5", "float"),
    ("Float32(0.25)", "Float32"),
    ("'grüße'", "str"),
    ("b'a' * 300", "bytes"),
    ("[1, 2, 3]", "list[int]"),
    ("(1, 'a')", "tuple[int, str]"),
    ("{'k': [True]}", "dict[str, list[bool]]"),
    ("[(0.5, Float32(2))]", "list[tuple[float, Float32]]"),
    ("frozenset({7})", "frozenset[int]"),
]
THEIRS = """
import json, sys
from zenoh.ext import *
print(json.dumps([z_serialize(eval(value)).to_bytes().hex() for value in json.load(sys.stdin)]))
"""


@pytest.mark.interop
def test_the_same_bytes():
    texts = [value for value, _ in VALUES]
    done = subprocess.run(
        [sys.executable, "-c", THEIRS], input=json.dumps(texts), capture_output=True, text=True, timeout=60
    )
    ours = [bytes(z_serialize(eval(text, vars(zenlake.ext)))).hex() for text in texts]
    assert ours == json.loads(done.stdout)


@pytest.mark.parametrize(("value", "kind"), VALUES)
def test_there_and_back(value, kind):
    made = eval(value, vars(zenlake.ext))
    assert z_deserialize(eval(kind, vars(zenlake.ext)), z_serialize(made)) == made


@given(st.dictionaries(st.text(), st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.booleans()))))
def test_nested_values_come_back(value):
    assert z_deserialize(dict[str, list[tuple[int, bool]]], z_serialize(value)) == value


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data):
    try:
        value = z_deserialize(list[tuple[str, UInt64]], zenlake.ZBytes(data))
    except ZDeserializeError:
        return
    assert z_deserialize(list[tuple[str, UInt64]], z_serialize(value)) == value


MIXED = [
    "[1, 'a']",
    "[1, 2.0]",
    "[1, True]",
    "{1: 'a', 'b': 2}",
    "{'a': 1, 'b': 'x'}",
    "{1, 'a'}",
    "frozenset([1, b'a'])",
    "[Int8(1), Int16(2)]",
    "[1, Int32(1)]",
    "[b'a', bytearray(b'b')]",
    "[[1], (1,)]",
    "([1, 'a'],)",
]
ALIKE = ["[[1], ['a']]", "[[], [1]]", "[(1, 'a'), ('b', 2)]", "[{1: 2}, {'a': 'b'}]", "[]", "{}"]
REFUSED_BY_THEM = """
import json, sys
from zenoh.ext import *
def refused(text):
    try:
        z_serialize(eval(text))
    except ValueError:
        return True
    return False
print(json.dumps([refused(text) for text in json.load(sys.stdin)]))
"""


@pytest.mark.parametrize("text", MIXED)
def test_items_of_several_types_are_refused(text):
    with pytest.raises(ValueError, match=r"items of types \w+ and \w+ in one list"):
        z_serialize(eval(text, vars(zenlake.ext)))


@pytest.mark.interop
def test_items_of_several_types_are_refused_by_the_real_one_too():
    texts = json.dumps([*MIXED, *ALIKE])
    done = subprocess.run(
        [sys.executable, "-c", REFUSED_BY_THEM], input=texts, capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout) == [True] * len(MIXED) + [False] * len(ALIKE)
    for text in ALIKE:
        z_serialize(eval(text))


def test_values_out_of_range_are_refused():
    with pytest.raises(ValueError, match="out of range"):
        Int8(128)
    with pytest.raises(ValueError, match="Int64"):
        z_serialize(1 << 31)
    with pytest.raises(TypeError, match="list\\[int\\]"):
        z_deserialize(list, z_serialize([1]))
    with pytest.raises(TypeError, match="object"):
        z_serialize(object())
    with pytest.raises(ZDeserializeError, match="2 bytes expected"):
        z_deserialize(UInt16, zenlake.ZBytes(b"1"))
    assert (Int128(-1), Float32(1)) == (-1, 1.0)
