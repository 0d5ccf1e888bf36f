# SPDX-License-Identifier: Apache-2.0
"""Payloads that the usual libraries encoded, and their values."""

import numpy
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from rosbags.typesys import Stores, get_typestore

ROS = get_typestore(Stores.ROS2_JAZZY)


def samples(payloads, keys=None):
    return pa.table({
        "key": pa.array(keys or ["k"] * len(payloads), pa.string()),
        "payload": pa.array(payloads, pa.binary()),
    })  # fmt: skip


def ros(name, **fields):
    return ROS.types[name](**fields)


def cdr(message, name):
    return bytes(ROS.serialize_cdr(message, name))


def ros_key(topic, name, hash_=None):
    package, kind, short = name.split("/")
    return f"0{topic}/{package}::{kind}::dds_::{short}_/{hash_ or ROS.hash_rihs01(name)}"


def laser_scan():
    stamp = ros("builtin_interfaces/msg/Time", sec=7, nanosec=4_000_000_000)
    return ros(
        "sensor_msgs/msg/LaserScan",
        header=ros("std_msgs/msg/Header", stamp=stamp, frame_id="base"),
        angle_min=-1.5, angle_max=1.5, angle_increment=0.5, time_increment=0.0, scan_time=0.125, range_min=0.0, range_max=8.0,
        ranges=numpy.array([1, 2.5, 8], numpy.float32), intensities=numpy.array([], numpy.float32),
    )  # fmt: skip


LASER_SCAN = {
    "header": {"stamp": {"sec": 7, "nanosec": 4_000_000_000}, "frame_id": "base"},
    "angle_min": -1.5, "angle_max": 1.5, "angle_increment": 0.5, "time_increment": 0.0, "scan_time": 0.125, "range_min": 0.0,
    "range_max": 8.0, "ranges": [1.0, 2.5, 8.0], "intensities": [],
}  # fmt: skip


def descriptors():
    """Return the output of protoc for a file with every kind of field."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="fleet.proto", package="fleet", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    mode = file.enum_type.add(name="Mode")
    for number, name in enumerate(("IDLE", "MOVING")):
        mode.value.add(name=name, number=number)
    point = file.message_type.add(name="Point")
    for number, name in enumerate(("x", "y"), 1):
        point.field.add(name=name, number=number, type=field.TYPE_DOUBLE, label=field.LABEL_OPTIONAL)
    state = file.message_type.add(name="State")

    def add(name, type_, label=field.LABEL_OPTIONAL, **more):
        state.field.add(name=name, number=len(state.field) + 1, type=type_, label=label, **more)

    add("robot", field.TYPE_STRING)
    add("seq", field.TYPE_UINT64)
    add("count", field.TYPE_UINT32)
    add("at", field.TYPE_MESSAGE, type_name=".fleet.Point")
    add("path", field.TYPE_MESSAGE, field.LABEL_REPEATED, type_name=".fleet.Point")
    add("mode", field.TYPE_ENUM, type_name=".fleet.Mode")
    add("time", field.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp")
    add("raw", field.TYPE_BYTES)
    add("parent", field.TYPE_MESSAGE, type_name=".fleet.State")
    entry = state.nested_type.add(name="TagsEntry", options=descriptor_pb2.MessageOptions(map_entry=True))
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=field.TYPE_INT32, label=field.LABEL_OPTIONAL)
    add("tags", field.TYPE_MESSAGE, field.LABEL_REPEATED, type_name=".fleet.State.TagsEntry")
    state.oneof_decl.add(name="_speed")
    add("speed", field.TYPE_FLOAT, proto3_optional=True, oneof_index=0)
    imported = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(imported)
    return descriptor_pb2.FileDescriptorSet(
        file=[file, imported]
    ).SerializeToString()  # imports last: order is not promised


def message_class(name):
    pool = descriptor_pool.DescriptorPool()
    for file in reversed(descriptor_pb2.FileDescriptorSet.FromString(descriptors()).file):
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
