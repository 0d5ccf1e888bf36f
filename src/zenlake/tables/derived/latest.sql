-- SPDX-License-Identifier: Apache-2.0
-- The newest value of a key that was published; a key whose newest sample is a del has no row.
--
-- Newest by HLC time, then by the clock's id; a sample without a timestamp counts as stamped when it was received. Replies are
-- not publications. A key expression with wildcards stands for itself, not for the keys that it matches.
with
ranked as (
    select
        *,
        row_number() over (
            partition by key
            order by
                coalesce(timestamp, received) desc, ntp64 desc, timestamp_id desc,
                received_ns desc, file desc, packet desc, sn desc, index desc, session, direction
        ) as place
    from samples
    where key is not null and request_id is null
)
select
    received as received,  -- When it was received
    key as key,  -- The key
    payload as payload,  -- The value; null if it lies in shared memory or was not kept
    payload_size as payload_size,  -- Bytes of the value, also if it was not kept; null for shared memory
    payload_sha256 as payload_sha256,  -- SHA-256 of a value that was not kept, in hex; null otherwise
    encoding as encoding,  -- The content type as text
    schema as schema,  -- The encoding's schema, as bytes; null if it has none
    attachment as attachment,  -- The attachment; null if there is none
    timestamp as timestamp,  -- HLC time; null if it was not stamped
    timestamp_id as timestamp_id,  -- The node whose clock stamped it
    source_zid as source_zid,  -- The node that published it; null unless it says so
    session as session,  -- The session in which it was seen
    file as file,  -- The capture file; null in a log
    packet as packet  -- The packet; in a log, the number of the batch
from ranked
where place = 1 and kind = 'put'
