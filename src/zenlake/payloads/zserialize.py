# SPDX-License-Identifier: Apache-2.0
"""The z_serialize format, decoded into an Arrow type. A struct is read from a tuple, a list from a sequence, a map from a dict.

The format stores no types, so a schema is required. Unsigned types of the schema (`pa.uint32()`) become the next wider
signed type, because Spark and other Parquet readers lack them.
"""

import struct
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyarrow import types

from zenlake.core.zserialize import ByteReader
from zenlake.errors import InvalidValue
from zenlake.payloads.object_columns import Leaf, List, Map, Shape, Struct

Read = Callable[[ByteReader], Any]

WIDER = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0)}

_NUMBERS = {
    pa.int8(): "b", pa.int16(): "h", pa.int32(): "i", pa.int64(): "q",
    pa.uint8(): "B", pa.uint16(): "H", pa.uint32(): "I", pa.uint64(): "Q", pa.float32(): "f", pa.float64(): "d",
}  # fmt: skip


def decoder(type_: pa.DataType) -> tuple[Callable[[bytes], Any], Shape]:
    read, shape, _ = make_reader(type_)

    def decode(payload: bytes) -> Any:
        reader = ByteReader(payload)
        value = read(reader)
        reader.close()
        return value

    return decode, shape


def make_reader(type_: pa.DataType) -> tuple[Read, Shape, int]:
    """Return reader, shape and minimum size of a type."""
    if type_ in _NUMBERS:
        return make_number_reader(type_)
    if types.is_boolean(type_):
        return ByteReader.flag, Leaf(type_), 1
    if types.is_string(type_):
        return ByteReader.text, Leaf(type_), 1
    if types.is_binary(type_):
        return ByteReader.blob, Leaf(type_), 1
    if types.is_list(type_):
        return make_sequence_reader(type_)
    if types.is_map(type_):
        return make_map_reader(type_)
    if types.is_struct(type_) and type_.num_fields:
        return make_record_reader(type_)
    raise InvalidValue(f"schema: z_serialize does not support {type_}")


def make_number_reader(type_: pa.DataType) -> tuple[Read, Shape, int]:
    packed = struct.Struct(f"<{_NUMBERS[type_]}")
    size, unpack = packed.size, packed.unpack_from

    def read(reader: ByteReader) -> Any:
        return unpack(reader.data, reader.skip(size))[0]

    return read, Leaf(WIDER.get(type_, type_)), size


def make_sequence_reader(type_: pa.DataType) -> tuple[Read, Shape, int]:
    item, shape, least = make_reader(type_.value_type)
    if type_.value_type in _NUMBERS:
        letter = _NUMBERS[type_.value_type]

        def read(reader: ByteReader) -> Any:
            count = reader.count(least)
            return struct.unpack_from(f"<{count}{letter}", reader.data, reader.skip(count * least))
    else:

        def read(reader: ByteReader) -> Any:
            return [item(reader) for _ in range(reader.count(least))]

    return read, List(shape), 1


def make_map_reader(type_: pa.DataType) -> tuple[Read, Shape, int]:
    key, key_shape, key_least = make_reader(type_.key_type)
    item, item_shape, item_least = make_reader(type_.item_type)

    def read(reader: ByteReader) -> Any:
        return {key(reader): item(reader) for _ in range(reader.count(key_least + item_least))}

    return read, Map(key_shape, item_shape), 1


def make_record_reader(type_: pa.DataType) -> tuple[Read, Shape, int]:
    inner = [make_reader(field.type) for field in type_]
    least = sum(each for _, _, each in inner)
    fields = [
        (name, itemgetter(at), shape) for at, (name, (_, shape, _)) in enumerate(zip(type_.names, inner, strict=True))
    ]
    if all(field.type in _NUMBERS for field in type_):
        unpack = struct.Struct("<" + "".join(_NUMBERS[field.type] for field in type_)).unpack_from

        def read(reader: ByteReader) -> Any:
            return unpack(reader.data, reader.skip(least))
    else:
        reads = [each for each, _, _ in inner]

        def read(reader: ByteReader) -> Any:
            return [each(reader) for each in reads]

    return read, Struct(fields), least
