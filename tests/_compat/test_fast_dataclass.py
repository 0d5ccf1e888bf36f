# SPDX-License-Identifier: Apache-2.0
"""Our `dataclass` against the standard library's: the same class made by both behaves the same."""

import copy
import dataclasses
import inspect
import pickle

import pytest

from zenlake._compat import fast_dataclass


def made(module, **options):
    @module.dataclass(**options)
    class Point:
        """Where."""

        x: int
        y: int = 2
        tags: list = module.field(default_factory=list)
        secret: bytes = module.field(default=b"x", repr=False)

        def norm(self):
            return self.x + self.y

    return Point


@fast_dataclass.dataclass(frozen=True, slots=True)
class Kept:
    name: str
    size: int = 3


each_kind = pytest.mark.parametrize(
    "options",
    [{}, {"slots": True}, {"frozen": True}, {"frozen": True, "slots": True}, {"eq": False}, {"kw_only": True}],
    ids=str,
)


def shown(cls, *arguments, **named):
    """What can be seen of an instance, or which error there was."""
    try:
        one = cls(*arguments, **named)
    except TypeError as error:
        return str(error).partition("()")[2]
    found = [repr(one).rpartition(".")[2], one == cls(*arguments, **named), one == 1, one.norm(), one.tags]
    found += [dataclasses.astuple(one), dataclasses.replace(one, x=7).x, hasattr(one, "__dict__")]
    for act in (lambda: hash(one) == hash(cls(*arguments, **named)), lambda: setattr(one, "x", 9), lambda: one.x):
        try:
            found.append(act())
        except Exception as error:
            found.append(type(error))
    return found


def test_the_standard_fields_are_made_once():
    point = made(fast_dataclass)
    assert point.__dataclass_fields__ is point(1).__dataclass_fields__ is point.__dataclass_fields__


@each_kind
def test_it_is_as_the_standard_one(options):
    ours, theirs = made(fast_dataclass, **options), made(dataclasses, **options)
    if not options.get("frozen"):  # a list has no hash
        assert (ours.__hash__ is None) == (theirs.__hash__ is None)
    for arguments, named in (((1,), {}), ((1, 5), {}), ((), {"x": 1, "tags": [3]}), ((), {}), ((1, 2, [], b"", 5), {})):
        assert shown(ours, *arguments, **named) == shown(theirs, *arguments, **named)
    assert inspect.signature(ours).parameters.keys() == inspect.signature(theirs).parameters.keys()
    assert ours.__match_args__ == theirs.__match_args__
    assert ours.__doc__ == "Where."
    assert [each.name for each in dataclasses.fields(ours)] == ["x", "y", "tags", "secret"]
    if not options.get("kw_only"):
        assert ours(1).tags is not ours(1).tags  # each has its own


def test_it_pickles_and_copies():
    one = Kept("a", 4)
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one
    assert hash(one) == hash(Kept("a", 4))
