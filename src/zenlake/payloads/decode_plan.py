# SPDX-License-Identifier: Apache-2.0
"""Decoding plan for payloads: a user's validated options, executed on Arrow arrays.

A plan is created once, on the driver, and pickled to the tasks. A decoding error affects only its row: the value is
null and the reason is in the other column.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from zenlake.errors import InvalidValue
from zenlake.payloads import protobuf, ros2, zserialize
from zenlake.payloads.object_columns import Shape

SAMPLE = 1000  # rows for schema inference
MAX_REASON = 300

# The options of each format, besides the common ones.
FORMATS: dict[str, tuple[str, ...]] = {
    "json": ("schema",),
    "cbor": ("schema",),
    "text": (),
    "serialized": ("schema",),
    "protobuf": ("type", "descriptors"),
    "cdr": ("type", "definitions", "distro"),
}

Rows = Iterable[tuple[bytes, str | None]]  # payloads and their keys


@dataclass(frozen=True)
class DecodePlan:
    """A format with its options. `type` is the type of the values."""

    format: str
    type: pa.DataType
    given: pa.DataType | None = None
    name: str = ""
    descriptors: bytes = b""
    definitions: tuple[tuple[str, str], ...] = ()
    distro: str = ros2.DISTRO

    def decode(self, payloads: pa.Array, keys: pa.Array | None = None) -> tuple[pa.Array, pa.Array]:
        """Return the values of payloads, and the error of each undecodable one."""
        whys: list[str | None] = [None] * len(payloads)
        if self.format == "cdr" and keys is not None:
            whys = self._objections(keys)
        if self.format == "text":
            return _texts(payloads, whys)
        decode, shape = _decoder(self)
        objects: list[Any] = []
        for row, payload in enumerate(payloads.to_pylist()):
            try:
                objects.append(None if payload is None or whys[row] is not None else decode(payload))
            except Exception as error:  # any exception of the library concerns this payload
                objects.append(None)
                whys[row] = _describe_error(error)
        return _columns(objects, whys, shape)

    def _objections(self, keys: pa.Array) -> list[str | None]:
        """Return the mismatch between each key and this type. Each distinct key is checked once."""
        encoded = keys.dictionary_encode()
        ours = ros2.hash_of(self.name, self.distro, self.definitions)
        objections = [
            None if parts is None else _objection(self.name, ours, parts["type"], parts["hash"])
            for parts in ros2.split(encoded.dictionary).to_pylist()
        ]
        return [None if code is None else objections[code] for code in encoded.indices.to_pylist()]


def make_plan(format: str, sample: Callable[[int], Rows], options: Mapping[str, Any]) -> DecodePlan:
    """Create the plan. `sample` returns the first rows if they are needed."""
    if format not in FORMATS:
        near = get_close_matches(str(format).lower(), FORMATS, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InvalidValue(f"unknown format {format!r}; {hint}expected one of {', '.join(FORMATS)}")
    asked = {name: value for name, value in options.items() if value is not None}
    for name in asked:
        if name not in FORMATS[format]:
            takes = ", ".join(FORMATS[format]) or "no further argument"
            raise InvalidValue(f"{name} does not apply to format {format!r}; expected {takes}")
    return _PLANNERS[format](sample, **asked)


def _document_planner(format: str) -> Callable[..., DecodePlan]:
    def make(sample: Callable[[int], Rows], schema: pa.DataType | pa.Schema | None = None) -> DecodePlan:
        documents = _documents()
        type_ = _type(schema) if schema is not None else documents.infer_type(_parse_schema(format, sample(SAMPLE)))
        _, shape = documents.make_converter(type_)
        return DecodePlan(format, shape.type, type_)

    return make


def _parse_schema(format: str, rows: Rows) -> list[Any]:
    documents = _documents()
    parse = documents.json if format == "json" else documents.cbor()
    found, first = [], ""
    for payload, _ in rows:
        try:
            found.append(parse(payload))
        except Exception as error:  # undecodable documents do not contribute to a schema
            first = first or _describe_error(error)
    if not found:
        why = f"none of the first payloads is {format.upper()} ({first})" if first else "there is no payload"
        raise InvalidValue(f"the schema cannot be inferred: {why}; pass schema=")
    return found


def _documents() -> Any:
    try:
        from zenlake.payloads import json_cbor as documents
    except ImportError:
        raise ImportError("JSON and CBOR need the package msgspec: pip install 'zenlake[values]'") from None
    return documents


def _plan_text(sample: Callable[[int], Rows]) -> DecodePlan:
    return DecodePlan("text", pa.string())


def _plan_serialized(sample: Callable[[int], Rows], schema: pa.DataType | pa.Schema | None = None) -> DecodePlan:
    if schema is None:
        raise InvalidValue(
            "schema: the z_serialize format stores no types; pass schema=, for example pa.list_(pa.int32())"
        )
    type_ = _type(schema)
    _, shape = zserialize.decoder(type_)
    return DecodePlan("serialized", shape.type, type_)


def _plan_protobuf(sample: Callable[[int], Rows], type: str | None = None, descriptors: Any = None) -> DecodePlan:
    if type is None or descriptors is None:
        raise InvalidValue(
            "protobuf needs type= (package.Message) and descriptors= (a file of protoc --descriptor_set_out)"
        )
    data = Path(descriptors).read_bytes() if isinstance(descriptors, str | os.PathLike) else bytes(descriptors)
    _, shape = protobuf.decoder(data, type)
    return DecodePlan("protobuf", shape.type, name=type, descriptors=data)


def _plan_cdr(
    sample: Callable[[int], Rows],
    type: str | None = None,
    definitions: Mapping[str, str] | None = None,
    distro: str = ros2.DISTRO,
) -> DecodePlan:
    name = type if type is not None else _types_by_keys(sample(SAMPLE))
    given = tuple(sorted((definitions or {}).items()))
    _, shape = ros2.decoder(name, distro, given)
    return DecodePlan("cdr", shape.type, name=name, definitions=given, distro=distro)


def _types_by_keys(rows: Rows) -> str:
    keys = pa.array(sorted({key for _, key in rows if key is not None}), pa.string())
    named = sorted({parts["type"] for parts in ros2.split(keys).to_pylist() if parts is not None})
    if len(named) == 1:
        return str(named[0])
    found = f"the keys name {', '.join(named)}" if named else "no key names one"
    raise InvalidValue(f"the type cannot be inferred: {found}; pass type=, for example 'geometry_msgs/msg/Pose'")


_PLANNERS: dict[str, Callable[..., DecodePlan]] = {
    "json": _document_planner("json"),
    "cbor": _document_planner("cbor"),
    "text": _plan_text,
    "serialized": _plan_serialized,
    "protobuf": _plan_protobuf,
    "cdr": _plan_cdr,
}


@cache
def _decoder(plan: DecodePlan) -> tuple[Callable[[bytes], Any], Shape]:
    """Return the decoder, which is created once per process."""
    if plan.format in ("json", "cbor"):
        documents = _documents()
        make = documents.json_decoder if plan.format == "json" else documents.cbor_decoder
        decoder: tuple[Callable[[bytes], Any], Shape] = make(plan.given)
        return decoder
    if plan.format == "serialized":
        return zserialize.decoder(plan.given)
    if plan.format == "protobuf":
        return protobuf.decoder(plan.descriptors, plan.name)
    return ros2.decoder(plan.name, plan.distro, plan.definitions)


def _columns(objects: list[Any], whys: list[str | None], shape: Shape) -> tuple[pa.Array, pa.Array]:
    try:
        values = shape.array(objects)
    except Exception:  # a value is out of range for its column: find its row
        for row, each in enumerate(objects):
            try:
                shape.array([each])
            except Exception as error:
                objects[row] = None
                whys[row] = _describe_error(error)
        values = shape.array(objects)
    return values, pa.array(whys, pa.string())


def _texts(payloads: pa.Array, whys: list[str | None]) -> tuple[pa.Array, pa.Array]:
    try:
        return payloads.cast(pa.string()), pa.array(whys, pa.string())
    except pa.ArrowInvalid:
        texts: list[str | None] = []
        for row, payload in enumerate(payloads.to_pylist()):
            try:
                texts.append(None if payload is None else payload.decode())
            except UnicodeDecodeError as error:
                texts.append(None)
                whys[row] = _describe_error(error)
        return pa.array(texts, pa.string()), pa.array(whys, pa.string())


def _objection(ours: str, our_hash: str, theirs: str, their_hash: str) -> str | None:
    if ours.removesuffix("_Request").removesuffix("_Response") != theirs:
        return f"the key has type {theirs}, not {ours}"
    if ours == theirs and their_hash.startswith("RIHS01_") and their_hash != our_hash:
        return (
            f"the hash of the key belongs to another definition of {ours}: {their_hash}; pass definitions= or distro="
        )
    return None


def _describe_error(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "nested too deep"
    cause = f": {error.__cause__}" if error.__cause__ is not None else ""
    reason = " ".join(f"{error}{cause}".split()) or type(error).__name__
    return reason if len(reason) <= MAX_REASON else f"{reason[:MAX_REASON]}..."


def _type(schema: pa.DataType | pa.Schema) -> pa.DataType:
    if isinstance(schema, pa.Schema):
        return pa.struct(list(schema))
    if isinstance(schema, pa.DataType):
        return schema
    raise InvalidValue(f"invalid schema {schema!r}; expected a pyarrow type or schema")
