# SPDX-License-Identifier: Apache-2.0
"""Encodings of payloads: a registered number or a custom name, and an optional schema.

The text form is `name` or `name;schema`. On the wire it is a small number and the bytes of the schema. The registry was
measured on the wire (companion encodings.md). A custom name is sent as the schema of number 65535. Unknown numbers of
newer peers are preserved.
"""

from __future__ import annotations  # 53 annotated constants: the types are not needed at run time

from typing import Any, ClassVar

from zenlake.errors import InvalidValue

__all__ = ["Encoding"]

CUSTOM = 0xFFFF
MAX_SCHEMA = 255  # the length is one byte; a longer schema makes the 1.10.2 sender panic


def _find_registered(number: int, name: str) -> Any:
    """Return the number and name of a constant, which `_constants` replaces by an `Encoding`."""
    return number, name


class Encoding:
    """The encoding of a payload: `Encoding("text/plain;utf-8")`, `Encoding.APPLICATION_JSON.with_schema("...")`.

    Encodings are equal if `id` and `schema` are equal. An encoding also equals its text.

    Args:
        encoding: Text of the form `name` or `name;schema`.

    Attributes:
        id: Registered number of the name; 0 for names that are not registered.
        schema: The part after `;`, or None.

    Raises:
        TypeError: The argument is not a str.
        InvalidValue: The schema has more than 255 bytes.
    """

    __slots__ = ("_id", "_schema")

    ZENOH_BYTES: ClassVar[Encoding] = _find_registered(0, "zenoh/bytes")
    ZENOH_STRING: ClassVar[Encoding] = _find_registered(1, "zenoh/string")
    ZENOH_SERIALIZED: ClassVar[Encoding] = _find_registered(2, "zenoh/serialized")
    APPLICATION_OCTET_STREAM: ClassVar[Encoding] = _find_registered(3, "application/octet-stream")
    TEXT_PLAIN: ClassVar[Encoding] = _find_registered(4, "text/plain")
    APPLICATION_JSON: ClassVar[Encoding] = _find_registered(5, "application/json")
    TEXT_JSON: ClassVar[Encoding] = _find_registered(6, "text/json")
    APPLICATION_CDR: ClassVar[Encoding] = _find_registered(7, "application/cdr")
    APPLICATION_CBOR: ClassVar[Encoding] = _find_registered(8, "application/cbor")
    APPLICATION_YAML: ClassVar[Encoding] = _find_registered(9, "application/yaml")
    TEXT_YAML: ClassVar[Encoding] = _find_registered(10, "text/yaml")
    TEXT_JSON5: ClassVar[Encoding] = _find_registered(11, "text/json5")
    APPLICATION_PYTHON_SERIALIZED_OBJECT: ClassVar[Encoding] = _find_registered(
        12, "application/python-serialized-object"
    )
    APPLICATION_PROTOBUF: ClassVar[Encoding] = _find_registered(13, "application/protobuf")
    APPLICATION_JAVA_SERIALIZED_OBJECT: ClassVar[Encoding] = _find_registered(14, "application/java-serialized-object")
    APPLICATION_OPENMETRICS_TEXT: ClassVar[Encoding] = _find_registered(15, "application/openmetrics-text")
    IMAGE_PNG: ClassVar[Encoding] = _find_registered(16, "image/png")
    IMAGE_JPEG: ClassVar[Encoding] = _find_registered(17, "image/jpeg")
    IMAGE_GIF: ClassVar[Encoding] = _find_registered(18, "image/gif")
    IMAGE_BMP: ClassVar[Encoding] = _find_registered(19, "image/bmp")
    IMAGE_WEBP: ClassVar[Encoding] = _find_registered(20, "image/webp")
    APPLICATION_XML: ClassVar[Encoding] = _find_registered(21, "application/xml")
    APPLICATION_X_WWW_FORM_URLENCODED: ClassVar[Encoding] = _find_registered(22, "application/x-www-form-urlencoded")
    TEXT_HTML: ClassVar[Encoding] = _find_registered(23, "text/html")
    TEXT_XML: ClassVar[Encoding] = _find_registered(24, "text/xml")
    TEXT_CSS: ClassVar[Encoding] = _find_registered(25, "text/css")
    TEXT_JAVASCRIPT: ClassVar[Encoding] = _find_registered(26, "text/javascript")
    TEXT_MARKDOWN: ClassVar[Encoding] = _find_registered(27, "text/markdown")
    TEXT_CSV: ClassVar[Encoding] = _find_registered(28, "text/csv")
    APPLICATION_SQL: ClassVar[Encoding] = _find_registered(29, "application/sql")
    APPLICATION_COAP_PAYLOAD: ClassVar[Encoding] = _find_registered(30, "application/coap-payload")
    APPLICATION_JSON_PATCH_JSON: ClassVar[Encoding] = _find_registered(31, "application/json-patch+json")
    APPLICATION_JSON_SEQ: ClassVar[Encoding] = _find_registered(32, "application/json-seq")
    APPLICATION_JSONPATH: ClassVar[Encoding] = _find_registered(33, "application/jsonpath")
    APPLICATION_JWT: ClassVar[Encoding] = _find_registered(34, "application/jwt")
    APPLICATION_MP4: ClassVar[Encoding] = _find_registered(35, "application/mp4")
    APPLICATION_SOAP_XML: ClassVar[Encoding] = _find_registered(36, "application/soap+xml")
    APPLICATION_YANG: ClassVar[Encoding] = _find_registered(37, "application/yang")
    AUDIO_AAC: ClassVar[Encoding] = _find_registered(38, "audio/aac")
    AUDIO_FLAC: ClassVar[Encoding] = _find_registered(39, "audio/flac")
    AUDIO_MP4: ClassVar[Encoding] = _find_registered(40, "audio/mp4")
    AUDIO_OGG: ClassVar[Encoding] = _find_registered(41, "audio/ogg")
    AUDIO_VORBIS: ClassVar[Encoding] = _find_registered(42, "audio/vorbis")
    VIDEO_H261: ClassVar[Encoding] = _find_registered(43, "video/h261")
    VIDEO_H263: ClassVar[Encoding] = _find_registered(44, "video/h263")
    VIDEO_H264: ClassVar[Encoding] = _find_registered(45, "video/h264")
    VIDEO_H265: ClassVar[Encoding] = _find_registered(46, "video/h265")
    VIDEO_H266: ClassVar[Encoding] = _find_registered(47, "video/h266")
    VIDEO_MP4: ClassVar[Encoding] = _find_registered(48, "video/mp4")
    VIDEO_OGG: ClassVar[Encoding] = _find_registered(49, "video/ogg")
    VIDEO_RAW: ClassVar[Encoding] = _find_registered(50, "video/raw")
    VIDEO_VP8: ClassVar[Encoding] = _find_registered(51, "video/vp8")
    VIDEO_VP9: ClassVar[Encoding] = _find_registered(52, "video/vp9")

    def __init__(self, encoding: str | None = None) -> None:
        if not (encoding is None or isinstance(encoding, str)):
            raise TypeError(f"invalid encoding {encoding!r}; expected a str such as application/json")
        name, _, schema = (encoding or "zenoh/bytes").partition(";")
        number = _IDS.get(name, CUSTOM)
        if number == CUSTOM:
            schema = encoding or ""
        self._id = number
        self._schema = _check(schema.encode()) if schema else None  # `text/plain;` has no schema

    @classmethod
    def from_wire(cls, id: int, schema: bytes | None = None) -> Encoding:
        """Create from number and schema bytes. `b""` is a schema, None is not."""
        if schema is None and id < len(_CONSTANTS):
            return _CONSTANTS[id]
        self = cls.__new__(cls)
        self._id = id
        self._schema = schema
        return self

    @property
    def id(self) -> int:
        return self._id

    @property
    def schema(self) -> bytes | None:
        return self._schema

    def with_schema(self, /, schema: str) -> Encoding:
        """Return this encoding with another schema.

        Args:
            schema: The schema, at most 255 bytes.
        """
        if self._id == CUSTOM:
            name = (self._schema or b"").partition(b";")[0]
            return Encoding.from_wire(CUSTOM, _check(b";".join(filter(None, (name, schema.encode())))))
        return Encoding.from_wire(self._id, _check(schema.encode()))

    def __str__(self) -> str:
        name = _NAMES[self._id] if self._id < len(_NAMES) else f"unknown({self._id})"
        if self._schema is None:
            return name
        schema = self._schema.decode(errors="replace")
        return schema if self._id == CUSTOM else f"{name};{schema}"

    def __repr__(self) -> str:
        return f"Encoding({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            try:
                other = Encoding(other)
            except ValueError:  # an invalid text is not equal to any encoding
                return False
        elif not isinstance(other, Encoding):
            return NotImplemented
        return self._id == other._id and self._schema == other._schema

    def __hash__(self) -> int:
        return hash(str(self))  # an Encoding and its text have the same hash

    def __reduce__(self) -> tuple[object, ...]:
        return Encoding.from_wire, (self._id, self._schema)


def _check(schema: bytes) -> bytes:
    if len(schema) > MAX_SCHEMA:
        raise InvalidValue(f"schema of an encoding has {len(schema)} bytes; expected at most {MAX_SCHEMA}")
    return schema


def _constants() -> tuple[list[str], list[Encoding]]:
    names, constants = [], []
    for constant, entry in list(vars(Encoding).items()):
        if constant.isupper():
            number, name = entry
            encoding = Encoding.__new__(Encoding)
            encoding._id = number
            encoding._schema = None
            setattr(Encoding, constant, encoding)
            names.append(name)
            constants.append(encoding)
    return names, constants


_NAMES, _CONSTANTS = _constants()  # both indexed by number: the registry has no gaps
_IDS = {name: number for number, name in enumerate(_NAMES)}
