# SPDX-License-Identifier: Apache-2.0
# Types of sample.py, which Cython compiles. tests/static/test_static_types.py compares both.
from typing import Any, final

from typing_extensions import Buffer

from zenlake.api.timestamp_stack import TimestampStack
from zenlake.api.zbytes import ZBytes
from zenlake.core.encoding import Encoding
from zenlake.core.enums import CongestionControl, Priority, SampleKind
from zenlake.core.identifiers import SourceInfo, Timestamp
from zenlake.core.keyexpr import KeyExpr

__all__ = ["Sample", "read_payload", "make_sample"]

@final
class Sample:
    def __init__(
        self,
        key_expr: KeyExpr,
        payload: ZBytes | str | Buffer = b"",
        kind: SampleKind = ...,
        encoding: Encoding | None = None,
        timestamp: Timestamp | None = None,
        congestion_control: CongestionControl = ...,
        priority: Priority = ...,
        express: bool = False,
        attachment: ZBytes | bytes | None = None,
        source_info: SourceInfo | None = None,
        timestamp_stack: TimestampStack | None = None,
    ) -> None: ...
    @property
    def key_expr(self) -> KeyExpr: ...
    @property
    def payload(self) -> ZBytes: ...
    @property
    def kind(self) -> SampleKind: ...
    @property
    def encoding(self) -> Encoding: ...
    @property
    def timestamp(self) -> Timestamp | None: ...
    @property
    def congestion_control(self) -> CongestionControl: ...
    @property
    def priority(self) -> Priority: ...
    @property
    def express(self) -> bool: ...
    @property
    def attachment(self) -> ZBytes | None: ...
    @property
    def source_info(self) -> SourceInfo | None: ...
    @property
    def timestamp_stack(self) -> TimestampStack | None: ...

def new_sample(key_expr: KeyExpr, is_put: bool, qos: int) -> Sample: ...
def read_clock(data: Any, at: int, size: int) -> bytes: ...
def read_payload(blob: Any) -> ZBytes: ...
def make_sample(key_expr: KeyExpr, put: Any, delete: Any, is_put: bool, qos: int, stack: Any) -> Sample: ...
