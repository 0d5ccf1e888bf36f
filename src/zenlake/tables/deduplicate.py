# SPDX-License-Identifier: Apache-2.0
"""Deduplicate samples that were recorded several times: by redundant taps, or on the way into and out of a router.

`tables/derived/recorded_hops.sql` identifies the publication of each sample, also where the publisher's hop has no timestamp.
The row that was received first is kept. A row with a redacted payload is kept only if no other row has the payload.
"""

from collections.abc import Sequence

import pyarrow as pa

from zenlake.tables.derived import definition
from zenlake.tables.duckdb_engine import connect

__all__ = ["NEEDS", "deduplicate"]

NEEDS = definition("recorded_hops").needs
"""The columns of each decoded table that are necessary."""

SQL = """
with kept as (
    select *, row_number() over (
        partition by publication
        order by is_redacted, received_ns, log, writer, session, packet, index
    ) as best
    from recorded_hops
    join lines using (line)
    where publication is not null
)
select {columns}
from samples
join kept using (session, direction, packet, index)
where kept.best = 1
    and kept.log is not distinct from samples.log and kept.writer is not distinct from samples.writer
    and kept.generation is not distinct from samples.generation and kept.file is not distinct from samples.file
    and samples.request_id is null
order by samples.received_ns, samples.log, samples.writer, samples.session, samples.packet, samples.index
"""


def deduplicate(samples: pa.Table, events: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return these columns of `samples`, one row per publication. The inputs also have the columns in NEEDS."""
    names = ", ".join(f'samples."{name}"' for name in columns)
    with connect({"samples": samples, "events": events}, ["lines", "recorded_hops"]) as engine:
        found: pa.Table = engine.sql(SQL.format(columns=names)).to_arrow_table()
    return found.cast(pa.schema([samples.schema.field(name) for name in columns], samples.schema.metadata))
