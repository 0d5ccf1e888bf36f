-- SPDX-License-Identifier: Apache-2.0
-- One run of missing sequence numbers: of frames in a lane, or of samples of one publisher. A run with several causes has a row for each.
--
-- A missing number in a lane is a frame with any number of messages, including zero. Messages that a congested sender drops before
-- numbering leave no gap. Real Zenoh skips one number after each fragmented message. This number has a row of its own with the cause skip,
-- marked harmless, also if frames next to it were lost. A sender with a fragmented message and no gap after it does not skip numbers. The
-- gaps of a publisher are known only if samples carry their source. Publications that were filtered out on the way, such as those of keys
-- without a local subscriber, appear as missing too. Missing numbers before the first recorded one cannot be detected.
--
-- Only the causes network, sender and router are losses. The same loss may appear as a gap of a lane and as gaps of a publisher, there and on
-- each later hop. `repeated` is true for all of these rows but the first, so that each loss can be counted once. Streams such as TCP deliver
-- every frame that they number, so their gaps are those of the recording. On a datagram link, frames of which only the beginning was captured
-- are missing in the recording. A further gap is unknown if the recording may lack other packets or batches of the session.
with
-- Fragments. In older lakes, only the last one of a complete message is marked.
pieces as (
    select
        log,
        writer,
        session,
        generation,
        direction,
        priority,
        reliable,
        sn,
        max(received_ns) as received_ns,
        max(case when detail like '%first%' then 1 else 0 end) = 1 as is_first,
        max(case when fragments is not null or detail like '%last%' then 1 else 0 end) = 1 as is_last
    from messages
    where (type = 'FRAGMENT' or fragments is not null) and sn is not null and coalesce(accepted, true)
    group by log, writer, session, generation, direction, priority, reliable, sn
),
-- Senders that skip no number: no gap begins after a fragmented message, although others follow in its lane. After the numbers that are
-- excluded, counting may begin again at 0.
gapless as (
    select distinct ended.log, ended.writer, ended.session, ended.generation, ended.direction, true as is_gapless
    from (
        select
            *,
            max(received_ns) over (partition by log, writer, session, generation, direction, priority, reliable) as last_ns
        from pieces
    ) as ended
    left join events
        on events.log is not distinct from ended.log and events.writer is not distinct from ended.writer
        and events.session = ended.session and events.generation = ended.generation
        and events.direction = ended.direction and events.priority = ended.priority
        and events.reliable = ended.reliable and events.sn = ended.sn + 1 and events.kind = 'gap'
    where ended.is_last and ended.received_ns < ended.last_ns and events.sn is null
        and ended.sn not in (127, 16383, 268435455)
),
-- Recordings, and sessions in them, that lack an unknown number of frames.
incomplete as (
    select distinct
        log,
        writer,
        case when kind in ('capture incomplete', 'capture skipped', 'capture undecodable') then session end as session,
        true as is_incomplete
    from events
    where kind in (
        'capture dropped', 'capture limit', 'capture missing', 'capture skipped', 'capture undecodable', 'capture unreadable',
        'log cut', 'log lost', 'log torn', 'log unreadable'
    ) or kind = 'capture incomplete' and sn is null
),
-- Frames of which only the beginning was captured, in the gap that contains them.
runs as (
    select
        *,
        max(case when kind = 'gap' then sn end) over (
            partition by log, writer, session, direction, priority, reliable
            order by sn, kind desc rows between unbounded preceding and current row
        ) as gap_sn
    from events
    where kind in ('gap', 'capture incomplete') and sn is not null
),
begun as (
    select log, writer, session, direction, priority, reliable, gap_sn, sum(count) as frames
    from runs
    where kind = 'capture incomplete'
    group by log, writer, session, direction, priority, reliable, gap_sn
),
-- A datagram may hold frames of both reliabilities. Those behind the captured part are not known.
mixed as (
    select distinct log, writer, session, direction, priority, not reliable as reliable, true as is_mixed
    from begun
),
-- Zenoh skips a number after each fragmented message. The message ended before the gap, or in it if no further fragment follows.
skips as (
    select
        events.*,
        case
            when coalesce(gapless.is_gapless, false) then 0
            when earlier.is_last or earlier.sn is not null and coalesce(later.is_first, later.sn is null) then 1
            else 0
        end as skipped
    from events
    left join gapless
        on gapless.log is not distinct from events.log and gapless.writer is not distinct from events.writer
        and gapless.session = events.session and gapless.generation = events.generation
        and gapless.direction = events.direction
    left join pieces as earlier
        on earlier.log is not distinct from events.log and earlier.writer is not distinct from events.writer
        and earlier.session = events.session and earlier.generation = events.generation
        and earlier.direction = events.direction and earlier.priority = events.priority
        and earlier.reliable = events.reliable and earlier.sn = events.sn - 1
    left join pieces as later
        on later.log is not distinct from events.log and later.writer is not distinct from events.writer
        and later.session = events.session and later.generation = events.generation
        and later.direction = events.direction and later.priority = events.priority
        and later.reliable = events.reliable and later.sn = events.sn + events.count
    where events.kind = 'gap'
),
lanes as (
    select
        skips.*,
        least(coalesce(begun.frames, 0), skips.count - skips.skipped) as known,
        split_part(skips.session, '/', 1) not in ('udp', 'multicast') as is_stream,
        coalesce(recordings.is_incomplete, sessions.is_incomplete, mixed.is_mixed, false) as is_doubtful
    from skips
    left join begun
        on begun.log is not distinct from skips.log and begun.writer is not distinct from skips.writer
        and begun.session = skips.session and begun.direction = skips.direction and begun.priority = skips.priority
        and begun.reliable = skips.reliable and begun.gap_sn = skips.sn
    left join mixed
        on mixed.log is not distinct from skips.log and mixed.writer is not distinct from skips.writer
        and mixed.session = skips.session and mixed.direction = skips.direction and mixed.priority = skips.priority
        and mixed.reliable = skips.reliable
    left join incomplete as recordings
        on recordings.log is not distinct from skips.log and recordings.writer is not distinct from skips.writer
        and recordings.session is null
    left join incomplete as sessions
        on sessions.log is not distinct from skips.log and sessions.writer is not distinct from skips.writer
        and sessions.session = skips.session
),
causes as (
    select
        *,
        count - skipped - known as missing,
        case
            when is_stream then 'recording'
            when is_doubtful then 'unknown'
            else 'network'
        end as cause
    from lanes
    where skipped + known < count
    union all
    select *, skipped as missing, 'skip' as cause
    from lanes
    where skipped > 0
    union all
    select *, known as missing, 'recording' as cause
    from lanes
    where known > 0
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
-- With each sample, the number of frames before it that its lane lacks, by cause.
laned as (
    select
        *,
        coalesce(sum(case when lane_cause = 'network' then frames end) over (
            partition by log, writer, session, generation, direction, priority, reliable
            order by sn, source_sn nulls first rows between unbounded preceding and current row
        ), 0) as network,
        coalesce(sum(case when lane_cause = 'recording' then frames end) over (
            partition by log, writer, session, generation, direction, priority, reliable
            order by sn, source_sn nulls first rows between unbounded preceding and current row
        ), 0) as recording,
        coalesce(sum(case when lane_cause = 'unknown' then frames end) over (
            partition by log, writer, session, generation, direction, priority, reliable
            order by sn, source_sn nulls first rows between unbounded preceding and current row
        ), 0) as unknown
    from (
        select *, cast(null as string) as lane_cause, cast(null as bigint) as frames from counted
        union all
        select
            log, writer, session, generation, direction, cast(null as string) as source_zid, cast(null as bigint) as source_eid,
            cast(null as bigint) as source_sn, received, cast(null as string) as key, priority, reliable, sn, cause, missing
        from causes
    ) as ordered
),
stepped as (
    select
        *,
        lag(source_sn) over of_publisher as before,
        lag(sn) over of_publisher as sn_before,
        lag(key) over of_publisher as key_before,
        network > lag(network) over of_publisher as is_network,
        recording > lag(recording) over of_publisher as is_recording,
        unknown > lag(unknown) over of_publisher as is_unknown
    from laned
    where source_sn is not null
    window of_publisher as (
        partition by log, writer, session, generation, direction, source_zid, source_eid order by source_sn
    )
),
crossed as (
    select
        stepped.*,
        case when stepped.direction = 0 then ends.opener else ends.acceptor end as sender,
        case when stepped.direction = 0 then ends.acceptor else ends.opener end as receiver
    from stepped
    left join session_nodes as ends
        on ends.log is not distinct from stepped.log and ends.writer is not distinct from stepped.writer
        and ends.session = stepped.session and ends.generation = stepped.generation
),
-- What each node received of a publisher. `place` counts its samples.
arrivals as (
    select
        receiver, source_zid, source_eid, source_sn,
        row_number() over (partition by receiver, source_zid, source_eid order by source_sn) as place
    from crossed
    where receiver is not null
    group by receiver, source_zid, source_eid, source_sn
),
-- Gaps of publishers. `arrived` is the number of missing samples that the sending node had received: null if that hop was not recorded.
jumps as (
    select
        crossed.*,
        crossed.source_sn - crossed.before - 1 as missing,
        crossed.is_network or crossed.is_recording or crossed.is_unknown as is_in_lane,
        later.place - earlier.place - 1 as arrived
    from crossed
    left join arrivals as earlier
        on earlier.receiver = crossed.sender and earlier.source_zid = crossed.source_zid
        and earlier.source_eid = crossed.source_eid and earlier.source_sn = crossed.before
    left join arrivals as later
        on later.receiver = crossed.sender and later.source_zid = crossed.source_zid
        and later.source_eid = crossed.source_eid and later.source_sn = crossed.source_sn
    where crossed.source_sn > crossed.before + 1
),
decided as (
    select
        *,
        case
            when is_in_lane and not is_recording and not is_unknown then 'network'
            when is_in_lane and not is_network and not is_unknown then 'recording'
            when is_in_lane then 'unknown'
            when arrived = missing then 'router'
            when sender = source_zid and key = key_before and sn > sn_before then 'sender'
            else 'unknown'
        end as cause
    from jumps
),
before_it as (
    select receiver, source_zid, source_eid, before, source_sn, max(cause) as cause
    from decided
    group by receiver, source_zid, source_eid, before, source_sn
),
missing as (
    select
        received, log, writer, session, generation, direction, 'lane' as scope, priority, reliable,
        cast(null as string) as source_zid,
        cast(null as bigint) as source_eid,
        sn as first_sn,
        missing,
        cause = 'skip' as harmless,
        cause,
        false as repeated
    from causes
    union all
    select
        received, log, writer, session, generation, direction, 'source' as scope,
        cast(null as tinyint) as priority,
        cast(null as boolean) as reliable,
        source_zid,
        source_eid,
        before + 1 as first_sn,
        case when is_in_lane then missing else coalesce(arrived, missing) end as missing,
        false as harmless,
        case when arrived > 0 and not is_in_lane then 'router' else cause end as cause,
        is_in_lane as repeated
    from decided
    where is_in_lane or coalesce(arrived, missing) > 0
    union all
    select
        decided.received, decided.log, decided.writer, decided.session, decided.generation, decided.direction, 'source' as scope,
        cast(null as tinyint) as priority,
        cast(null as boolean) as reliable,
        decided.source_zid,
        decided.source_eid,
        decided.before + 1 as first_sn,
        decided.missing - decided.arrived as missing,
        false as harmless,
        coalesce(before_it.cause, 'unknown') as cause,
        true as repeated
    from decided
    left join before_it
        on before_it.receiver = decided.sender and before_it.source_zid = decided.source_zid
        and before_it.source_eid = decided.source_eid and before_it.before = decided.before
        and before_it.source_sn = decided.source_sn
    where not decided.is_in_lane and decided.arrived < decided.missing
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
    first_sn as first_sn,  -- The first missing number of the run
    cast(missing as bigint) as missing,  -- The number of missing numbers of this cause in the run
    harmless as harmless,  -- True for the number that Zenoh skips after a fragmented message. It is not a loss
    cause as cause,  -- network, sender (the publishing node did not send them), router (a forwarding node received them and did not send them), recording, skip (harmless), or unknown
    repeated as repeated  -- True for a gap of a publisher whose loss has a row of the lane too, or of an earlier hop. It is the same loss
from missing
