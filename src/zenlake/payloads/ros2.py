# SPDX-License-Identifier: Apache-2.0
"""ROS 2 over rmw_zenoh: keys, and messages (CDR) by type name.

A key is `<domain>/<topic>/<type>/<hash>`, for example
`0/robot1/scan/sensor_msgs::msg::dds_::LaserScan_/RIHS01_64c1...`. The hash identifies the definition of the type.
Decoding with another definition would give wrong values.
"""

from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zenlake.errors import InvalidValue
from zenlake.payloads.object_columns import Leaf, List, Shape, Struct, offsets
from zenlake.payloads.zserialize import WIDER

KEY = r"^(?P<domain>[0-9]{1,9})/(?P<topic>.+)/(?P<type>[^/]+::dds_::[^/]+_)/(?P<hash>[^/]+)$"

PARTS = pa.struct([
    pa.field("domain", pa.int32()), pa.field("topic", pa.string()), pa.field("type", pa.string()), pa.field("hash", pa.string()),
])  # fmt: skip

DISTRO = "jazzy"


def split(keys: pa.Array) -> pa.Array:
    """Return domain, topic, type and hash of each key. Null for keys of other systems."""
    found = pc.extract_regex(keys, KEY)
    missing = found.is_null()
    # A key without a match is an empty text here.
    domain = pc.if_else(missing, None, pc.struct_field(found, "domain")).cast(pa.int32())
    topic = pc.binary_join_element_wise("", pc.struct_field(found, "topic"), "/")
    type_ = pc.replace_substring(pc.struct_field(found, "type"), "::dds_::", "/")
    type_ = pc.replace_substring(pc.utf8_slice_codeunits(type_, 0, -1), "::", "/")
    columns = [domain, topic, type_, pc.struct_field(found, "hash")]
    return pa.StructArray.from_arrays(columns, fields=list(PARTS), mask=missing)


@cache
def types(distro: str, definitions: tuple[tuple[str, str], ...]) -> Any:
    """Return the message types of a ROS distribution, with the user's definitions."""
    try:
        from rosbags.typesys import Stores, get_types_from_msg, get_typestore
    except ImportError:
        raise ImportError("ROS messages need the package rosbags: pip install 'zenlake[values]'") from None
    known = {store.value.removeprefix("ros2_"): store for store in Stores if store.value.startswith("ros2_")}
    if distro not in known:
        raise InvalidValue(f"distro: unknown ROS 2 distribution {distro!r}; expected one of {', '.join(known)}")
    store = get_typestore(known[distro])
    for name, definition in definitions:
        try:
            store.register(get_types_from_msg(definition, name))
        except Exception as error:
            raise InvalidValue(f"definitions: {name}: {' '.join(str(error).split())}") from None
    return store


def decoder(name: str, distro: str, definitions: tuple[tuple[str, str], ...]) -> tuple[Callable[[bytes], Any], Shape]:
    store = types(distro, definitions)
    if name not in store.fielddefs:
        near = [each for each in store.fielddefs if each.rpartition("/")[2] == name.rpartition("/")[2]]
        hint = f"is it {' or '.join(near)}?" if near else "pass its text: definitions={'pkg/msg/Name': 'float64 x'}"
        raise InvalidValue(f"type: ROS 2 {distro} has no {name!r}; {hint}")
    return lambda payload: store.deserialize_cdr(payload, name), message_shape(store, name)


def hash_of(name: str, distro: str, definitions: tuple[tuple[str, str], ...]) -> str:
    return str(types(distro, definitions).hash_rihs01(name))


def message_shape(store: Any, name: str) -> Shape:
    _, fields = store.fielddefs[name]
    return Struct([(field, attrgetter(field), field_shape(store, kind)) for field, kind in fields])


def field_shape(store: Any, kind: tuple[Any, Any]) -> Shape:
    node, about = kind
    if node.name == "BASE":
        return Leaf(_BASE[about[0]])
    if node.name == "NAME":
        return message_shape(store, about)
    item = about[0]
    if item[0].name == "BASE" and item[1][0] in ("uint8", "octet"):
        return Leaf(pa.binary(), bytes)
    if item[0].name == "BASE" and item[1][0] != "string" and item[1][0] != "wstring":
        return NumberArray(_BASE[item[1][0]])
    return List(field_shape(store, item))


class NumberArray(List):
    """Convert number sequences, which rosbags returns as NumPy arrays, by concatenation."""

    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(Leaf(type_))

    def array(self, objects: list[Any]) -> pa.Array:
        import numpy

        there = [each for each in objects if each is not None]
        joined = pa.array(numpy.concatenate(there)) if there else pa.array([], self.item.type)
        return pa.ListArray.from_arrays(offsets(objects), joined.cast(self.item.type), type=self.type)


_BASE: Mapping[str, pa.DataType] = {
    "bool": pa.bool_(), "float32": pa.float32(), "float64": pa.float64(), "string": pa.string(), "wstring": pa.string(),
    "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(), "char": WIDER[pa.uint8()],
    "byte": WIDER[pa.uint8()], "octet": WIDER[pa.uint8()], "uint8": WIDER[pa.uint8()], "uint16": WIDER[pa.uint16()],
    "uint32": WIDER[pa.uint32()], "uint64": WIDER[pa.uint64()],
}  # fmt: skip
