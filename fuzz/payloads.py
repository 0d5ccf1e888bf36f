# SPDX-License-Identifier: Apache-2.0
# Any payload decodes to a value of the column's type or to one line of text that says why not. Other rows are not affected.
"""Payload decoders: JSON, CBOR, text, Protobuf, ROS 2 CDR and zenoh's own serialization."""

import json

import cbor2
import pyarrow as pa
from tests.payloads.fixtures import cdr, descriptors, laser_scan

from zenlake.ext import Float32, Int16, z_serialize
from zenlake.payloads import make_plan

TYPE = pa.struct([
    ("x", pa.float64()), ("n", pa.int32()), ("name", pa.string()), ("at", pa.timestamp("us", "UTC")), ("raw", pa.binary()),
    ("list", pa.list_(pa.int64())), ("map", pa.map_(pa.string(), pa.float32())), ("money", pa.decimal128(9, 2)),
])  # fmt: skip
BOX = pa.map_(pa.string(), pa.struct([("x", pa.float32()), ("y", pa.list_(pa.int16()))]))
OPTIONS = {
    "json": {"schema": TYPE},
    "cbor": {"schema": TYPE},
    "text": {},
    "serialized": {"schema": BOX},
    "protobuf": {"descriptors": descriptors(), "type": "fleet.Point"},
    "cdr": {"type": "sensor_msgs/msg/LaserScan"},
}
PLANS = {name: make_plan(name, lambda rows: [], options) for name, options in OPTIONS.items()}
VALUE = {"x": 1.5, "n": -1, "name": "a", "list": [1], "map": {"k": 1.0}}
CORPUS = [bytes([number]) + data for number, data in enumerate((
    json.dumps({**VALUE, "at": "2026-01-01T00:00:00Z", "raw": "AAE=", "money": "1.25"}).encode(),
    cbor2.dumps({**VALUE, "raw": b"\x00\x01"}),
    "text é".encode(),
    bytes(z_serialize({"a": (Float32(1), [Int16(2)])})),
    bytes.fromhex("09000000000000f03f11000000000000f03f"),
    cdr(laser_scan(), "sensor_msgs/msg/LaserScan"),
))]  # fmt: skip


def check(data: bytes) -> None:
    names = list(PLANS)
    name = names[data[0] % len(names)] if data else "json"
    payload = data[1:]
    value, why = PLANS[name].decode(pa.array([payload, b"", payload], pa.binary()))
    value.validate(full=True)
    assert len(value) == len(why) == 3
    for row in (0, 2):
        assert why[row].as_py() is None or value[row].as_py() is None
        assert why[row].as_py() is None or "\n" not in why[row].as_py()
    assert why[0] == why[2]
