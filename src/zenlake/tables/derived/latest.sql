-- SPDX-License-Identifier: Apache-2.0
-- The newest published value of a key. A key whose newest sample is a del has no row.
--
-- Samples are ordered by HLC time, then by the id of the clock. For a sample without a timestamp, the received time is used. Replies
-- are not publications. A key expression with wildcards is treated as one key, not as the keys that it matches.
with
ranked as (
    select
        *,
        row_number() over (
            partition by key
            order by
                coalesce(timestamp, received) desc, ntp64 desc, timestamp_id desc,
                received_ns desc, file desc, packet desc, sn desc, index desc, log, writer, session, direction
        ) as place
    from samples
    where key is not null and request_id is null
)
select
    received as received,  -- When it was received
    key as key,  -- The key
    payload as payload,  -- The payload; null if it is in shared memory or was redacted
    payload_size as payload_size,  -- Size of the payload in bytes, also if it was redacted; null for shared memory
    payload_sha256 as payload_sha256,  -- SHA-256 of a redacted payload, in hex; null otherwise
    encoding as encoding,  -- The content type as text
    schema as schema,  -- The schema of the encoding, as bytes; null if not given
    attachment as attachment,  -- The attachment; null if not given
    timestamp as timestamp,  -- HLC time; null if the sample has no timestamp
    timestamp_id as timestamp_id,  -- The ZenohID of the clock that issued the timestamp
    source_zid as source_zid,  -- The ZenohID of the publishing node; null if not given
    log as log,  -- The identity of the log; null in a capture
    writer as writer,  -- The writer of the log; null in a capture
    session as session,  -- The session in which the sample was recorded
    file as file,  -- The capture file; null in a log
    packet as packet  -- The packet; in a log, the number of the batch
from ranked
where place = 1 and kind = 'put'
