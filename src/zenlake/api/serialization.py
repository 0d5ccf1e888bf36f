# SPDX-License-Identifier: Apache-2.0
"""`z_serialize` and `z_deserialize`: the serialization format of all Zenoh bindings.

`zenlake.core.zserialize` implements the format. This module maps Python types: a plain int has 32 bits, and a plain float has 64.
"""

import struct
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any, Self, TypeVar

from zenlake.api.zbytes import ZBytes
from zenlake.core.zserialize import ByteReader, write_length
from zenlake.errors import DecodeError, InvalidValue

__all__ = [
    "Int8", "Int16", "Int32", "Int64", "Int128", "UInt8", "UInt16", "UInt32", "UInt64", "UInt128", "Float32", "Float64",
    "ZDeserializeError", "z_serialize", "z_deserialize",
]  # fmt: skip

T = TypeVar("T")


class ZDeserializeError(InvalidValue):
    """The bytes are not a value of the requested type."""


class _Int(int):
    bits = 64
    signed = True

    def __new__(cls, i: int = 0) -> Self:
        number = int.__new__(cls, i)
        low, high = (-(1 << cls.bits - 1), 1 << cls.bits - 1) if cls.signed else (0, 1 << cls.bits)
        if not low <= number < high:
            raise InvalidValue(f"{i} is out of range for {cls.__name__}; expected {low} to {high - 1}")
        return number


class Int8(_Int):
    """A signed number of 8 bits."""

    bits = 8


class UInt8(_Int):
    """An unsigned number of 8 bits."""

    bits = 8
    signed = False


class Int16(_Int):
    """A signed number of 16 bits."""

    bits = 16


class UInt16(_Int):
    """An unsigned number of 16 bits."""

    bits = 16
    signed = False


class Int32(_Int):
    """A signed number of 32 bits."""

    bits = 32


class UInt32(_Int):
    """An unsigned number of 32 bits."""

    bits = 32
    signed = False


class Int64(_Int):
    """A signed number of 64 bits."""

    bits = 64


class UInt64(_Int):
    """An unsigned number of 64 bits."""

    signed = False


class Int128(_Int):
    """A signed number of 128 bits."""

    bits = 128


class UInt128(_Int):
    """An unsigned number of 128 bits."""

    bits = 128
    signed = False


class Float32(float):
    """A 32-bit floating-point number."""


class Float64(float):
    """A 64-bit floating-point number."""


def z_serialize(obj: Any) -> ZBytes:
    """Serialize a value.

    Args:
        obj: A bool, int, float, str, bytes, ZBytes, list, tuple, dict, set or frozenset, or a type of `zenlake.ext`.

    Returns:
        The bytes.

    Raises:
        TypeError: The type is not supported.
        InvalidValue: A number is out of range, or the items of a collection have different types.

    Example:
        ```python
        payload = z_serialize([1, 2, 3])
        assert z_deserialize(list[int], payload) == [1, 2, 3]
        ```
    """
    out = bytearray()
    _write(obj, out)
    return ZBytes(bytes(out))


def _write(obj: Any, out: bytearray) -> None:
    if isinstance(obj, bool):
        out.append(obj)
    elif isinstance(obj, _Int):
        out += obj.to_bytes(obj.bits // 8, "little", signed=obj.signed)
    elif isinstance(obj, int):
        try:
            out += obj.to_bytes(4, "little", signed=True)
        except OverflowError:
            raise InvalidValue(
                f"{obj} is out of range for a plain int (32 bits); wrap it in Int64, UInt64 or Int128"
            ) from None
    elif isinstance(obj, Float32):
        out += struct.pack("<f", obj)
    elif isinstance(obj, float):
        out += struct.pack("<d", obj)
    elif isinstance(obj, str):
        _write_bytes(obj.encode(), out)
    elif isinstance(obj, (bytes, bytearray, memoryview, ZBytes)):
        _write_bytes(bytes(obj), out)
    elif isinstance(obj, tuple):
        for item in obj:
            _write(item, out)
    elif isinstance(obj, (list, set, frozenset)):
        write_length(len(obj), out)
        for item in obj:
            _write(item, out)
        _check_alike(obj)
    elif isinstance(obj, dict):
        write_length(len(obj), out)
        for key, value in obj.items():
            _write(key, out)
            _write(value, out)
        _check_alike(obj)
        _check_alike(obj.values())
    else:
        raise TypeError(f"z_serialize does not support the type {type(obj).__name__!r}")


def _check_alike(items: Iterable[Any]) -> None:
    """Refuse items of different types: the format stores no types, so a reader expects one."""
    kinds = {type(item) for item in items}
    if len(kinds) > 1:
        names = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise InvalidValue(
            f"z_serialize: items of types {names} in one list, set or dict; use items of one type, or a tuple"
        )


def _write_bytes(data: bytes, out: bytearray) -> None:
    write_length(len(data), out)
    out += data


def z_deserialize(tp: type[T], zbytes: ZBytes) -> T:
    """Deserialize a value. Bytes after it are ignored, as in zenoh-python.

    Args:
        tp: Type of the value, for example `int`, `list[str]` or `tuple[int, Float32]`.
        zbytes: The bytes.

    Returns:
        The value.

    Raises:
        ZDeserializeError: The bytes are not a value of this type.
        TypeError: The type is not supported.
    """
    try:
        return typing.cast(T, _ValueReader(bytes(ZBytes(zbytes))).read(tp))
    except DecodeError as error:
        raise ZDeserializeError(str(error)) from None


class _ValueReader(ByteReader):
    """Reader of values by Python type."""

    def read(self, tp: Any) -> Any:
        simple = _SIMPLE.get(tp)
        if simple is not None:
            return simple(self)
        if isinstance(tp, type) and issubclass(tp, _Int):
            return tp(int.from_bytes(self.take(tp.bits // 8), "little", signed=tp.signed))
        origin, arguments = typing.get_origin(tp) or tp, typing.get_args(tp)
        if origin is tuple and arguments:
            return tuple(self.read(each) for each in arguments)
        if origin in (list, set, frozenset) and len(arguments) == 1:
            return origin(self.items(lambda: self.read(arguments[0])))
        if origin is dict and len(arguments) == 2:
            return dict(self.items(lambda: (self.read(arguments[0]), self.read(arguments[1]))))
        hint = f"; add the item type, as in {_name(tp)}[int]" if origin in (list, set, frozenset, dict, tuple) else ""
        raise TypeError(f"z_deserialize does not support the type {_name(tp)}{hint}")

    def items(self, one: Callable[[], T]) -> Iterable[T]:
        return [one() for _ in range(self.count(1))]


_SIMPLE: dict[Any, Callable[[_ValueReader], Any]] = {
    bool: _ValueReader.flag,
    int: lambda reader: int.from_bytes(reader.take(4), "little", signed=True),
    float: lambda reader: struct.unpack("<d", reader.take(8))[0],
    Float64: lambda reader: Float64(struct.unpack("<d", reader.take(8))[0]),
    Float32: lambda reader: Float32(struct.unpack("<f", reader.take(4))[0]),
    str: _ValueReader.text,
    bytes: _ValueReader.blob,
    bytearray: lambda reader: bytearray(reader.blob()),
    ZBytes: lambda reader: ZBytes(reader.blob()),
}


def _name(tp: Any) -> str:
    return tp.__name__ if isinstance(tp, type) and not isinstance(tp, types.GenericAlias) else str(tp)
