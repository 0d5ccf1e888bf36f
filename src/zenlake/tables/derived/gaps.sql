-- SPDX-License-Identifier: Apache-2.0
-- One run of missing sequence numbers: of frames in a lane, or of samples of one publisher.
--
-- A missing number in a lane is a frame with any number of messages, including zero. Messages that a congested sender drops before
-- numbering leave no gap. Real Zenoh (1.10) skips one number after each fragmented message. Such a gap is marked harmless. The gaps of a
-- publisher are known only if samples carry their source. Publications that were filtered out on the way, such as those of keys
-- without a local subscriber, appear as missing too. Missing numbers before the first recorded one cannot be detected.
--
-- Only the causes network, sender and router are losses. A gap of a publisher in which the lane has a gap too is the same loss:
-- `repeated` is true, so that each loss can be counted once. Streams such as TCP deliver every frame that they number, so their gaps are those of the recording. A gap on a
-- datagram link is unknown if packets, parts of packets or batches are missing in the recording.
with
rejoined as (
    select distinct log, writer, session, generation, direction, priority, reliable, sn
    from messages
    where fragments is not null
),
ends as (
    select
        log,
        writer,
        session,
        generation,
        max(get_json_object(detail, '$.ends[0].zid')) as opener,
        max(get_json_object(detail, '$.ends[1].zid')) as acceptor
    from events
    where kind in ('opened', 'joined')
    group by log, writer, session, generation
),
incomplete as (
    select distinct log, writer, true as is_incomplete
    from events
    where kind in (
        'capture cut', 'capture dropped', 'capture fragments', 'capture limit', 'capture missing', 'capture skipped',
        'capture undecodable', 'capture unfinished', 'capture unreadable', 'log cut', 'log lost', 'log torn', 'log unreadable'
    )
),
counted as (
    select
        log, writer, session, generation, direction, source_zid, source_eid, source_sn,
        min(received) as received,
        min(key) as key,
        min(priority) as priority,
        min(reliable) as reliable,
        min(sn) as sn
    from samples
    where source_sn is not null and request_id is null
    group by log, writer, session, generation, direction, source_zid, source_eid, source_sn
),
stepped as (
    select
        *,
        lag(source_sn) over (
            partition by log, writer, session, generation, direction, source_zid, source_eid order by source_sn
        ) as before,
        lag(sn) over (
            partition by log, writer, session, generation, direction, source_zid, source_eid order by source_sn
        ) as sn_before,
        lag(key) over (
            partition by log, writer, session, generation, direction, source_zid, source_eid order by source_sn
        ) as key_before
    from counted
),
jumps as (
    select
        stepped.*,
        case when stepped.direction = 0 then ends.opener else ends.acceptor end as sender
    from stepped
    left join ends
        on ends.log is not distinct from stepped.log and ends.writer is not distinct from stepped.writer
        and ends.session = stepped.session and ends.generation = stepped.generation
    where stepped.source_sn > stepped.before + 1
),
-- Gaps of publishers in which the lane has a gap too.
same_loss as (
    select distinct
        jumps.log as log, jumps.writer as writer, jumps.session as session, jumps.generation as generation,
        jumps.direction as direction, jumps.source_zid as source_zid, jumps.source_eid as source_eid,
        jumps.source_sn as source_sn
    from jumps
    join events
        on events.log is not distinct from jumps.log and events.writer is not distinct from jumps.writer
        and events.session = jumps.session and events.generation = jumps.generation
        and events.direction = jumps.direction and events.priority = jumps.priority
        and events.reliable = jumps.reliable
    left join rejoined
        on rejoined.log is not distinct from events.log and rejoined.writer is not distinct from events.writer
        and rejoined.session = events.session and rejoined.generation = events.generation
        and rejoined.direction = events.direction and rejoined.priority = events.priority
        and rejoined.reliable = events.reliable and rejoined.sn = events.sn - 1
    where events.kind = 'gap' and events.sn > jumps.sn_before and events.sn < jumps.sn
        and (events.count > 1 or rejoined.sn is null)
),
-- Missing samples that the sending node had received.
arrived as (
    select
        jumps.log as log, jumps.writer as writer, jumps.session as session, jumps.generation as generation,
        jumps.direction as direction, jumps.source_zid as source_zid, jumps.source_eid as source_eid,
        jumps.source_sn as source_sn,
        count(distinct counted.source_sn) as samples
    from jumps
    join counted on counted.source_zid = jumps.source_zid and counted.source_eid = jumps.source_eid
    join ends
        on ends.log is not distinct from counted.log and ends.writer is not distinct from counted.writer
        and ends.session = counted.session and ends.generation = counted.generation
    where counted.source_sn > jumps.before and counted.source_sn < jumps.source_sn
        and case when counted.direction = 0 then ends.acceptor else ends.opener end = jumps.sender
    group by
        jumps.log, jumps.writer, jumps.session, jumps.generation, jumps.direction, jumps.source_zid, jumps.source_eid,
        jumps.source_sn
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
        events.count = 1 and rejoined.sn is not null as harmless,
        case
            when events.count = 1 and rejoined.sn is not null then 'skip'
            when split_part(events.session, '/', 1) not in ('udp', 'multicast') then 'recording'
            when incomplete.is_incomplete then 'unknown'
            else 'network'
        end as cause,
        false as repeated
    from events
    left join incomplete
        on incomplete.log is not distinct from events.log and incomplete.writer is not distinct from events.writer
    left join rejoined
        on rejoined.log is not distinct from events.log and rejoined.writer is not distinct from events.writer
        and rejoined.session = events.session and rejoined.generation = events.generation
        and rejoined.direction = events.direction and rejoined.priority = events.priority
        and rejoined.reliable = events.reliable and rejoined.sn = events.sn - 1
    where events.kind = 'gap'
    union all
    select
        jumps.received,
        jumps.log,
        jumps.writer,
        jumps.session,
        jumps.generation,
        jumps.direction,
        'source' as scope,
        cast(null as tinyint) as priority,
        cast(null as boolean) as reliable,
        jumps.source_zid,
        jumps.source_eid,
        jumps.before + 1 as first_sn,
        jumps.source_sn - jumps.before - 1 as missing,
        false as harmless,
        case
            when same_loss.source_sn is not null and split_part(jumps.session, '/', 1) not in ('udp', 'multicast') then 'recording'
            when same_loss.source_sn is not null and incomplete.is_incomplete then 'unknown'
            when same_loss.source_sn is not null then 'network'
            when arrived.samples = jumps.source_sn - jumps.before - 1 then 'router'
            when jumps.sender = jumps.source_zid and jumps.key = jumps.key_before and jumps.sn > jumps.sn_before then 'sender'
            else 'unknown'
        end as cause,
        same_loss.source_sn is not null as repeated
    from jumps
    left join incomplete
        on incomplete.log is not distinct from jumps.log and incomplete.writer is not distinct from jumps.writer
    left join same_loss
        on same_loss.log is not distinct from jumps.log and same_loss.writer is not distinct from jumps.writer
        and same_loss.session = jumps.session and same_loss.generation = jumps.generation
        and same_loss.direction = jumps.direction and same_loss.source_zid = jumps.source_zid
        and same_loss.source_eid = jumps.source_eid and same_loss.source_sn = jumps.source_sn
    left join arrived
        on arrived.log is not distinct from jumps.log and arrived.writer is not distinct from jumps.writer
        and arrived.session = jumps.session and arrived.generation = jumps.generation
        and arrived.direction = jumps.direction and arrived.source_zid = jumps.source_zid
        and arrived.source_eid = jumps.source_eid and arrived.source_sn = jumps.source_sn
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
    harmless as harmless,  -- True for the number that Zenoh skips after a fragmented message. It is not a loss
    cause as cause,  -- network, sender (the publishing node did not send them), router (a forwarding node received them and did not send them), recording, skip (harmless), or unknown
    repeated as repeated  -- True for a gap of a publisher in which the lane has a gap too. It is the same loss
from missing
