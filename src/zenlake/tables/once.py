# SPDX-License-Identifier: Apache-2.0
"""Each publication once, however often it was recorded: by two taps for safety, or on its way into a router and out again.

A sample is known by its key and HLC time (`ntp64` and `timestamp_id`: no clock stamps twice alike), and if it was not stamped, by
its publisher's own count (`source_zid`, `source_eid`, `source_sn`). One that has neither cannot be told from another like it, and
is given as often as it was recorded. Of several rows the one that was received first is given; one of which the recorder was told
not to keep the value only if no other has it.
"""

from collections.abc import Sequence

import pyarrow as pa

from zenlake.tables.derive import import_duckdb

__all__ = ["NEEDS", "each_once"]

NEEDS = (
    "received_ns", "session", "direction", "file", "packet", "index", "key", "unresolved_key", "kind", "ntp64", "timestamp_id",
    "source_zid", "source_eid", "source_sn", "request_id", "payload_sha256",
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
            then {{'session': session, 'direction': direction, 'file': file, 'packet': packet, 'index': index}} end
    order by payload_sha256 is not null, received_ns, session, packet, index
) = 1
order by received_ns, session, packet, index
"""


def each_once(samples: pa.Table, columns: Sequence[str]) -> pa.Table:
    """These columns of the rows of `samples`, which has those in NEEDS too: of each publication one."""
    names = ", ".join(f'"{name}"' for name in columns)
    with import_duckdb().connect() as engine:
        engine.execute("set TimeZone = 'UTC'")
        engine.register("samples", samples)
        found: pa.Table = engine.sql(SQL.format(columns=names)).to_arrow_table()
    return found.cast(pa.schema([samples.schema.field(name) for name in columns], samples.schema.metadata))
