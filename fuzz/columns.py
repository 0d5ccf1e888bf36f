# SPDX-License-Identifier: Apache-2.0
# Any batch gives valid tables. The fast path and the decoder of single fields give the same rows and the same errors.
"""Batches to columns, the input of `Decoder`."""

import pyarrow as pa
from tests.columns.traffic import OPENER, as_rows

from fuzz import batch
from zenlake.columns import TABLES, Decoder
from zenlake.core.encoding import Encoding
from zenlake.core.identifiers import Timestamp
from zenlake.wire.declare import Declare, DeclareKeyExpr
from zenlake.wire.network import Push
from zenlake.wire.transport import Frame
from zenlake.wire.zenoh_body import Put

EVERYTHING = dict.fromkeys(TABLES)
STAMP = Timestamp.from_wire(1 << 62 | 1, bytes(range(1, 17)))

PUBLICATIONS = [
    Put(payload=b"12345678", timestamp=STAMP),
    Put(payload=bytes(200), timestamp=STAMP, encoding=Encoding("text/plain;utf-8"), source=batch.SOURCE),
    Put(payload=b"", attachment=bytes(130), encoding=Encoding("application/json")),
    Put(payload=b"1", timestamp=STAMP, encoding=Encoding("text/plain;utf-8"), source=batch.SOURCE, attachment=b"12"),
]
KEYS = [(1, True, None), (200, True, None), (0, True, "fleet/2")]
DECLARED = Frame(sn=0).encode() + Declare(body=DeclareKeyExpr(id=1, key="fleet/1")).encode()
CORPUS = batch.CORPUS + [
    DECLARED + b"".join(Push(key=key, qos=13, body=put).encode() * 6 for put in (*order, PUBLICATIONS[0]))
    for key in KEYS
    for order in (PUBLICATIONS, PUBLICATIONS[::-1], PUBLICATIONS[1:])
]


def decoder(usual: bool) -> Decoder:
    made = Decoder(EVERYTHING, rows=64)
    made.uses_fast_path = usual
    made.files = ["fuzz"]
    return made


FAST_PATH, BY_FIELD = decoder(True), decoder(False)


def tables(decoder: Decoder, rows: pa.RecordBatch) -> dict[str, list[pa.RecordBatch]]:
    decoder.sessions.clear()
    decoder.decode(rows)
    done, rest = decoder.take(), decoder.finish()
    return {name: done[name] + rest[name] for name in EVERYTHING}


def check(data: bytes) -> None:
    rows = as_rows([(OPENER, data)])
    found = tables(FAST_PATH, rows)
    assert found == tables(BY_FIELD, rows)
    for batches in found.values():
        for each in batches:
            each.validate(full=True)
