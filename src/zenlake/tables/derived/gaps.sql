-- SPDX-License-Identifier: Apache-2.0
-- One run of missing sequence numbers: of frames in a lane, or of samples of one publisher.
--
-- A missing number in a lane is a frame with any number of messages, including zero. Messages that a congested sender drops before
-- numbering leave no gap. Real Zenoh (1.10) skips one number after each fragmented message. Such a gap is marked harmless. The gaps of a
-- publisher are known only if samples carry their source. Publications that were filtered out on the way, such as those of keys
-- without a local subscriber, appear as missing too. Missing numbers before the first recorded one cannot be detected.
with
rejoined as (
    select distinct log, writer, session, generation, direction, priority, reliable, sn
    from messages
    where fragments is not null
),
counted as (
    select
        log, writer, session, generation, direction, source_zid, source_eid, source_sn, min(received) as received
    from samples
    where source_sn is not null and request_id is null
    group by log, writer, session, generation, direction, source_zid, source_eid, source_sn
),
stepped as (
    select
        *,
        lag(source_sn) over (
            partition by log, writer, session, generation, direction, source_zid, source_eid order by source_sn
        ) as before
    from counted
),
missing as (
    select
        events.received as received,
        events.log as log,
        events.writer as writer,
        events.session as session,
        events.generation as generation,
        events.direction as direction,
        'lane' as scope,
        events.priority as priority,
        events.reliable as reliable,
        cast(null as string) as source_zid,
        cast(null as bigint) as source_eid,
        events.sn as first_sn,
        events.count as missing,
        events.count = 1 and rejoined.sn is not null as harmless
    from events
    left join rejoined
        on rejoined.log is not distinct from events.log and rejoined.writer is not distinct from events.writer
        and rejoined.session = events.session and rejoined.generation = events.generation
        and rejoined.direction = events.direction and rejoined.priority = events.priority
        and rejoined.reliable = events.reliable and rejoined.sn = events.sn - 1
    where events.kind = 'gap'
    union all
    select
        received,
        log,
        writer,
        session,
        generation,
        direction,
        'source' as scope,
        cast(null as tinyint) as priority,
        cast(null as boolean) as reliable,
        source_zid,
        source_eid,
        before + 1 as first_sn,
        source_sn - before - 1 as missing,
        false as harmless
    from stepped
    where source_sn > before + 1
)
select
    received as received,  -- When the message after the gap was received
    log as log,  -- The identity of the log; null in a capture
    writer as writer,  -- The writer of the log; null in a capture
    session as session,  -- The session in which the gap was found
    generation as generation,  -- The number of the handshake in that session
    direction as direction,  -- 0 = missing from the side that opened the session, 1 = from the side that accepted it
    scope as scope,  -- lane (frames) or source (samples of one publisher)
    priority as priority,  -- The lane's priority; null for a source
    reliable as reliable,  -- The lane's reliability; null for a source
    source_zid as source_zid,  -- The publisher's node; null for a lane
    source_eid as source_eid,  -- The entity id of the publisher in that node; null for a lane
    first_sn as first_sn,  -- The first missing number
    missing as missing,  -- The number of missing numbers, starting with first_sn
    harmless as harmless  -- True for the number that Zenoh skips after a fragmented message. It is not a loss
from missing
