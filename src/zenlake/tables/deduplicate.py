# SPDX-License-Identifier: Apache-2.0
"""Deduplicate samples that were recorded several times: by redundant taps, or on the way into and out of a router.

Sample identity is the key and HLC time (`ntp64` and `timestamp_id`: a clock never issues the same timestamp twice). Without
a timestamp it is the publisher's sequence number (`source_zid`, `source_eid`, `source_sn`). Samples with neither are not
deduplicated. The row that was received first is kept. A row with a redacted payload is kept only if no other row has the
payload.
"""

from collections.abc import Sequence

import pyarrow as pa

from zenlake.tables.duckdb_engine import import_duckdb

__all__ = ["NEEDS", "deduplicate"]

NEEDS = (
    "received_ns", "log", "writer", "session", "direction", "file", "packet", "index", "key", "unresolved_key", "kind",
    "ntp64", "timestamp_id", "source_zid", "source_eid", "source_sn", "request_id", "payload_sha256",
)  # fmt: skip

SQL = """
select {columns}
from samples
where request_id is null
qualify row_number() over (
    partition by
        key, unresolved_key, kind, ntp64, timestamp_id,
        case when timestamp_id is null then {{'zid': source_zid, 'eid': source_eid, 'sn': source_sn}} end,
        case when timestamp_id is null and source_zid is null
            then {{'log': log, 'writer': writer, 'session': session, 'direction': direction, 'file': file,
                   'packet': packet, 'index': index}} end
    order by payload_sha256 is not null, received_ns, log, writer, session, packet, index
) = 1
order by received_ns, log, writer, session, packet, index
"""


def deduplicate(samples: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return these columns of `samples`, one row per publication. The input also has the columns in NEEDS."""
    names = ", ".join(f'"{name}"' for name in columns)
    with import_duckdb().connect() as engine:
        engine.execute("set TimeZone = 'UTC'")
        engine.register("samples", samples)
        found: pa.Table = engine.sql(SQL.format(columns=names)).to_arrow_table()
    return found.cast(pa.schema([samples.schema.field(name) for name in columns], samples.schema.metadata))
