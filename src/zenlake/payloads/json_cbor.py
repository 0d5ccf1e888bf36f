# SPDX-License-Identifier: Apache-2.0
"""JSON and CBOR documents, decoded into a schema that is given or inferred.

A document matches if each field of the schema has the right type, is null, or is absent. Other fields are ignored. An integer
matches a floating-point field. Every value matches a text field, as its JSON. Inference uses text where documents disagree.

msgspec validates and converts while it parses, with a class that is created for the schema.
"""

import datetime
import decimal
import re
from collections.abc import Callable, Iterable
from functools import partial
from operator import attrgetter
from types import GenericAlias
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from pyarrow import types

from zenlake.errors import InvalidValue
from zenlake.payloads.object_columns import Leaf, List, Map, Shape, Struct

DEEPEST = 32  # levels of an inferred schema; deeper values become JSON text
WIDEST = 1000  # fields of an inferred struct; objects with more different keys become JSON text

_NO_NAME = re.compile(r'[\x00-\x1f"\\]')

# Tags by which a small document represents a large one (references), or runs Python code.
_REFUSED_TAGS = {25: "string reference", 28: "shared value", 29: "shared value", 256: "string reference", 35: "regular expression",
                 36: "MIME message"}  # fmt: skip


def json_decoder(type_: pa.DataType) -> tuple[Callable[[bytes], Any], Shape]:
    python, shape = make_converter(type_)
    return msgspec.json.Decoder(python | None).decode, shape


def cbor_decoder(type_: pa.DataType) -> tuple[Callable[[bytes], Any], Shape]:
    python, shape = make_converter(type_)
    loads = cbor()
    kept = (bytes, datetime.datetime, datetime.date, decimal.Decimal)

    def decode(payload: bytes) -> Any:
        return msgspec.convert(loads(payload), python | None, builtin_types=kept, str_keys=False)

    return decode, shape


def json(payload: bytes) -> Any:
    return msgspec.json.decode(payload)


def cbor() -> Callable[[bytes], Any]:
    try:
        import cbor2
    except ImportError:
        raise ImportError("CBOR needs the package cbor2: pip install 'zenlake[values]'") from None

    def refuse(what: str) -> Callable[[Any], Any]:
        def raise_error(*_: Any) -> Any:
            raise ValueError(f"unsupported CBOR: a {what} is refused, because payloads are untrusted")

        return raise_error

    decoders = {tag: refuse(what) for tag, what in _REFUSED_TAGS.items()}
    return partial(cbor2.loads, semantic_decoders=decoders, tag_hook=_untag)


def _untag(_: Any, tag: Any) -> Any:
    """Return the value of an unknown tag, without the tag."""
    return tag.value


def make_converter(type_: pa.DataType) -> tuple[Any, Shape]:
    """Return the type for msgspec, and the shape of its objects."""
    if types.is_boolean(type_):
        return bool, Leaf(type_)
    if types.is_signed_integer(type_):
        edge = 1 << type_.bit_width - 1
        return Annotated[int, msgspec.Meta(ge=-edge, le=edge - 1)], Leaf(type_)
    if types.is_floating(type_):
        return float, Leaf(type_)
    if types.is_string(type_):
        return Any, TextColumn()
    if types.is_binary(type_):
        return bytes, Leaf(type_)
    if types.is_timestamp(type_):
        return datetime.datetime, Leaf(type_, utc)
    if types.is_date32(type_):
        return datetime.date, Leaf(type_)
    if types.is_decimal(type_):
        return decimal.Decimal, Leaf(type_)
    if types.is_list(type_):
        python, shape = make_converter(type_.value_type)
        return GenericAlias(list, (python | None,)), List(shape)
    if types.is_map(type_) and types.is_string(type_.key_type):
        python, shape = make_converter(type_.item_type)
        return GenericAlias(dict, (str, python | None)), Map(Leaf(pa.string()), shape)
    if types.is_struct(type_) and type_.num_fields:
        wrong = [name for name in type_.names if not _is_a_name(name)]
        if wrong:
            raise InvalidValue(
                f"schema: invalid field name {wrong[0]!r}; it has a quote, backslash or control character"
            )
        inner = [make_converter(field.type) for field in type_]
        slots = [f"f{number}" for number in range(len(inner))]
        made = msgspec.defstruct(
            "Document",
            [(slot, python | None, None) for slot, (python, _) in zip(slots, inner, strict=True)],
            rename=dict(zip(slots, type_.names, strict=True)),
            gc=False,  # no document contains itself
        )
        fields = zip(type_.names, map(attrgetter, slots), (shape for _, shape in inner), strict=True)
        return made, Struct(list(fields))
    raise InvalidValue(f"schema: JSON and CBOR do not support the type {type_}")


class TextColumn(Leaf):
    """Return texts unchanged, and other values as JSON."""

    def __init__(self) -> None:
        super().__init__(pa.string())

    def array(self, objects: list[Any]) -> pa.Array:
        if not set(map(type, objects)) <= {str, type(None)}:
            objects = [each if each is None or type(each) is str else text(each) for each in objects]
        return pa.array(objects, self.type)


def text(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


def utc(time: datetime.datetime) -> datetime.datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)


def infer_type(documents: Iterable[Any]) -> pa.DataType:
    """Return the narrowest type that all documents match."""
    return _type(list(documents), DEEPEST)


def _type(values: list[Any], depth: int) -> pa.DataType:
    kinds = {_kind(value) for value in values} - {"null"}
    if kinds == {"struct"} and depth:
        names = dict.fromkeys(name for value in values if value is not None for name in value)
        if 0 < len(names) <= WIDEST and all(map(_is_a_name, names)):
            return pa.struct([
                pa.field(name, _type([value.get(name) for value in values if value is not None], depth - 1))
                for name in names
            ])  # fmt: skip
    if kinds == {"list"} and depth:
        return pa.list_(_type([item for value in values if value is not None for item in value], depth - 1))
    if kinds == {"int", "float"}:
        return pa.float64()
    return _SCALARS.get(kinds.pop(), pa.string()) if len(kinds) == 1 else pa.string()


def _is_a_name(key: Any) -> bool:
    """Return whether a key can name a field: msgspec refuses quotes, backslashes and control characters."""
    return isinstance(key, str) and not _NO_NAME.search(key)


_SCALARS = {
    "bool": pa.bool_(),
    "int": pa.int64(),
    "float": pa.float64(),
    "bytes": pa.binary(),
    "time": pa.timestamp("us", tz="UTC"),
}


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int" if -(1 << 63) <= value < 1 << 63 else "float"
    for kind, python in (
        ("float", float), ("text", str), ("bytes", bytes), ("struct", dict), ("list", list), ("time", datetime.datetime),
    ):  # fmt: skip
        if isinstance(value, python):
            return kind
    return "text"
