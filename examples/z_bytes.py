# SPDX-License-Identifier: Apache-2.0
"""Convert values to bytes and back: text, JSON, buffers, and the serialization that all Zenoh bindings share."""

import array
import json

import zenlake
from zenlake.ext import Float32, UInt8, z_deserialize, z_serialize

payload = zenlake.ZBytes("text")
assert payload.to_string() == "text"
assert payload.to_bytes() == b"text"

payload = zenlake.ZBytes(json.dumps({"a": 1}))
assert json.loads(payload.to_string()) == {"a": 1}

payload = zenlake.ZBytes(array.array("d", [1.0, 2.0]))  # any object with the buffer protocol
assert array.array("d", bytes(payload)).tolist() == [1.0, 2.0]

value = {"left": [1, 2], "right": [3]}
assert z_deserialize(dict[str, list[int]], z_serialize(value)) == value
mixed = (UInt8(1), Float32(0.5), "x")
assert z_deserialize(tuple[UInt8, Float32, str], z_serialize(mixed)) == mixed
print("all came back as they were")
