# SPDX-License-Identifier: Apache-2.0
"""Conversion of Python objects to Arrow columns, one column at a time.

A decoder returns one object per payload: an instance of a generated class, a Protobuf message, a ROS message or a
tuple. A shape describes how to extract its fields. Extracting one field of all objects is several times faster than
building a dict per object.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa

Objects = list[Any]


class Leaf:
    """Objects that are values of the Arrow type, or that `convert` converts to it."""

    def __init__(self, type_: pa.DataType, convert: Callable[[Any], Any] | None = None) -> None:
        self.type: pa.DataType = type_
        self.convert = convert

    def array(self, objects: Objects) -> pa.Array:
        if self.convert is not None:
            objects = [None if each is None else self.convert(each) for each in objects]
        return pa.array(objects, self.type)


class Struct:
    """Objects with fields, each with a getter."""

    def __init__(self, fields: Sequence[tuple[str, Callable[[Any], Any], "Shape"]]) -> None:
        self.fields = fields
        self.type: pa.DataType = pa.struct([pa.field(name, shape.type) for name, _, shape in fields])

    def array(self, objects: Objects) -> pa.Array:
        missing = [each is None for each in objects]
        if not any(missing):
            columns = [shape.array(list(map(get, objects))) for _, get, shape in self.fields]
            return pa.StructArray.from_arrays(columns, fields=list(self.type))
        columns = [
            shape.array([None if each is None else get(each) for each in objects]) for _, get, shape in self.fields
        ]
        return pa.StructArray.from_arrays(columns, fields=list(self.type), mask=pa.array(missing, pa.bool_()))


class List:
    """Objects that are sequences."""

    def __init__(self, item: "Shape") -> None:
        self.item = item
        self.type: pa.DataType = pa.list_(item.type)

    def array(self, objects: Objects) -> pa.Array:
        items = self.item.array(list(chain.from_iterable(each for each in objects if each is not None)))
        return pa.ListArray.from_arrays(offsets(objects), items, type=self.type)


class Map:
    """Objects that are mappings."""

    def __init__(self, key: "Shape", item: "Shape") -> None:
        self.key, self.item = key, item
        self.type: pa.DataType = pa.map_(key.type, item.type)

    def array(self, objects: Objects) -> pa.Array:
        there = [each for each in objects if each is not None]
        keys = self.key.array([key for each in there for key in each])
        items = self.item.array([each[key] for each in there for key in each])
        return pa.MapArray.from_arrays(offsets(objects), keys, items, type=self.type)


Shape = Leaf | Struct | List | Map


def offsets(objects: Objects) -> pa.Array:
    """Return the offsets of each object's items; null for a missing object."""
    starts = list(accumulate((0 if each is None else len(each) for each in objects), initial=0))
    end = starts.pop()
    return pa.array(
        [*(None if each is None else at for each, at in zip(objects, starts, strict=True)), end], pa.int32()
    )
