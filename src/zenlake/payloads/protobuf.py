# SPDX-License-Identifier: Apache-2.0
"""Protobuf messages by descriptors, from `protoc --include_imports --descriptor_set_out=robots.pb`.

Types are those of Spark's `from_protobuf` where Arrow has them. Enums become their names, and unsigned 64-bit numbers become
decimals. A google.protobuf.Timestamp becomes a timestamp. A field with presence is null when unset. From the second level on, a
recursive message becomes its JSON.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import pyarrow as pa

from zenlake.errors import InvalidValue
from zenlake.payloads.object_columns import Leaf, List, Map, Shape, Struct

TIMESTAMP = "google.protobuf.Timestamp"


def decoder(descriptors: bytes, name: str) -> tuple[Callable[[bytes], Any], Shape]:
    from google.protobuf.message_factory import GetMessageClass

    descriptor = find_message(descriptors, name)
    return GetMessageClass(descriptor).FromString, message_shape(descriptor, ())


def find_message(descriptors: bytes, name: str) -> Any:
    """Return the descriptor of a message. Raise with the known names."""
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.descriptor_pool import DescriptorPool
    except ImportError:
        raise ImportError("Protobuf needs the package protobuf: pip install 'zenlake[values]'") from None
    try:
        files = FileDescriptorSet.FromString(descriptors).file
    except Exception as error:
        raise InvalidValue(
            f"descriptors: {error}; create them with protoc --include_imports --descriptor_set_out=FILE"
        ) from None
    pool = DescriptorPool()
    try:
        for file in in_order(files):
            pool.Add(file)
        return pool.FindMessageTypeByName(name)
    except KeyError:
        names = sorted(f"{file.package}.{each.name}".lstrip(".") for file in files for each in file.message_type)
        raise InvalidValue(f"type: unknown message {name!r}; expected one of {', '.join(names)}") from None
    except TypeError as error:
        raise InvalidValue(f"descriptors: {' '.join(str(error).split())}; run protoc with --include_imports") from None


def in_order(files: Any) -> list[Any]:
    """Return the files in the order of their imports, as a pool requires."""
    by_name = {file.name: file for file in files}
    ordered: dict[str, Any] = {}

    def add(file: Any, above: frozenset[str]) -> None:
        for name in file.dependency:
            if name in by_name and name not in above:
                add(by_name[name], above | {name})
        ordered.setdefault(file.name, file)

    for file in files:
        add(file, frozenset({file.name}))
    return list(ordered.values())


def message_shape(descriptor: Any, above: tuple[str, ...]) -> Shape:
    if descriptor.full_name in above:
        return Leaf(pa.string(), as_json)
    if descriptor.full_name == TIMESTAMP:
        return Leaf(pa.timestamp("us", tz="UTC"), lambda time: time.seconds * 1_000_000 + time.nanos // 1000)
    if not descriptor.fields:
        return Leaf(pa.string(), as_json)  # an empty struct is not a valid column type
    inside = (*above, descriptor.full_name)
    return Struct([(field.name, getter(field), field_shape(field, inside)) for field in descriptor.fields])


def field_shape(field: Any, above: tuple[str, ...]) -> Shape:
    entry = field.message_type if field.message_type is not None and field.message_type.GetOptions().map_entry else None
    if entry is not None:
        key, item = entry.fields_by_name["key"], entry.fields_by_name["value"]
        return Map(value_shape(key, above), value_shape(item, above))
    shape = value_shape(field, above)
    return List(shape) if field.is_repeated else shape


def value_shape(field: Any, above: tuple[str, ...]) -> Shape:
    if field.message_type is not None:
        return message_shape(field.message_type, above)
    if field.enum_type is not None:
        names = field.enum_type.values_by_number
        return Leaf(pa.string(), lambda number: names[number].name if number in names else str(number))
    return Leaf(_TYPES[field.cpp_type] if field.type != field.TYPE_BYTES else pa.binary())


def getter(field: Any) -> Callable[[Any], Any]:
    name = field.name
    if not field.has_presence:
        return attrgetter(name) if name.isidentifier() else lambda message: getattr(message, name)
    return lambda message: getattr(message, name) if message.HasField(name) else None


def as_json(message: Any) -> str:
    from google.protobuf.json_format import MessageToJson

    return str(MessageToJson(message, indent=None))


# By FieldDescriptor.CPPTYPE_*: the numbers are part of Protobuf's interface.
_TYPES = {
    1: pa.int32(), 2: pa.int64(), 3: pa.int64(), 4: pa.decimal128(20, 0), 5: pa.float64(), 6: pa.float32(), 7: pa.bool_(),
    9: pa.string(),
}  # fmt: skip
