# SPDX-License-Identifier: Apache-2.0
# Any text is refused with a ZenlakeError, or gives a value whose text gives the same value again.
"""Parsers of text: configurations, endpoints, selectors, parameters, encodings, timestamps, time ranges."""

import json
from collections.abc import Callable
from typing import Any

from zenlake.config import Config
from zenlake.core import json5
from zenlake.core.encoding import Encoding
from zenlake.core.endpoint import EndPoint
from zenlake.core.identifiers import Timestamp, ZenohId
from zenlake.core.selector import Parameters, Selector, TimeRange
from zenlake.errors import ZenlakeError

PARSERS: list[Callable[[str], Any]] = [
    json5.loads, Config.from_json5, EndPoint, Selector, Parameters, Encoding, Timestamp.parse, TimeRange.parse, ZenohId.parse,
]  # fmt: skip
TEXTS = (
    "{a: [1, -0x1F, .5e3, +Infinity], 'b': \"\\u00e9\\n\", /* c */ c: null, // d\n}",
    "{mode: 'peer', connect: {endpoints: ['tcp/127.0.0.1:7447']}, transport: {link: {tls: {connect_private_key: 'x'}}}}",
    "tls/[::1]:7447?prio=1-3;rel=1#iface=lo;so_rcvbuf=1",
    "a/*/b?_time=[now(-2s)..now()];x=1|2;_anyke",
    "a=1;b;c=d=e",
    "text/plain;utf-8",
    "2026-01-01T00:00:00.123456789Z/33",
    "[2026-01-01T00:00:00Z..;3.5h[",
    "2f1a",
)
CORPUS = [bytes([number]) + text.encode() for number, text in enumerate(TEXTS)]


def check(data: bytes) -> None:
    parse = PARSERS[data[0] % len(PARSERS)] if data else PARSERS[0]
    try:
        text = data[1:].decode()
        value = parse(text)
    except (ZenlakeError, UnicodeDecodeError):
        return
    if parse is json5.loads:
        again = json5.loads(json.dumps(value))
    elif isinstance(value, Config):
        assert value.get_json("mode")
        return
    else:
        again = parse(str(value))
    assert again == value or value != value or "NaN" in repr(value) or "nan" in repr(value)
