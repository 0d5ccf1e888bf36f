-- SPDX-License-Identifier: Apache-2.0
-- One REQUEST in one session, with its replies in that session.
--
-- A query that a router forwards has a row in each session that it crosses, with a different id in each. Ids are reused, so a reply
-- belongs to the last request with its id in the same session and generation. Replies to a request that was not recorded have no
-- row. Messages that receivers ignore as duplicates are not counted.
with
spoken as (
    select
        *,
        case when type = 'REQUEST' then direction else 1 - direction end as asker
    from messages
    where type in ('REQUEST', 'RESPONSE', 'RESPONSE_FINAL') and coalesce(accepted, true)
),
turns as (
    select
        *,
        count(case when type = 'REQUEST' then 1 end) over (
            partition by log, writer, session, generation, asker, id
            order by received_ns, file, packet, index
            rows between unbounded preceding and current row
        ) as turn
    from spoken
),
answered as (
    select
        log,
        writer,
        session,
        generation,
        asker,
        id,
        turn,
        min(case when type = 'REQUEST' then received end) as received,
        min(case when type = 'REQUEST' then received_ns end) as received_ns,
        min(case when type = 'REQUEST' then file end) as file,
        min(case when type = 'REQUEST' then packet end) as packet,
        min(case when type = 'REQUEST' then key end) as key,
        min(case when type = 'REQUEST' then unresolved_key end) as unresolved_key,
        min(case when type = 'REQUEST' then detail end) as parameters,
        min(case when type = 'REQUEST' then target end) as target,
        min(case when type = 'REQUEST' then consolidation end) as consolidation,
        min(case when type = 'REQUEST' then timeout_ms end) as timeout_ms,
        min(case when type = 'REQUEST' then payload_size end) as payload_size,
        count(case when body = 'REPLY' then 1 end) as replies,
        count(case when body = 'ERR' then 1 end) as errors,
        count(case when body = 'ERR' and detail = 'Timeout' and key is null then 1 end) as timeouts,
        cast(sum(case when body = 'REPLY' then coalesce(payload_size, 0) else 0 end) as bigint) as reply_bytes,
        min(case when body = 'REPLY' then received end) as first_reply,
        max(case when body = 'REPLY' then received end) as last_reply,
        min(case when body = 'REPLY' then received_ns end) as first_reply_ns,
        min(case when type = 'RESPONSE_FINAL' then received end) as final,
        min(case when type = 'RESPONSE_FINAL' then received_ns end) as final_ns,
        min(case when body = 'ERR' then detail end) as error
    from turns
    where turn > 0
    group by log, writer, session, generation, asker, id, turn
),
closed as (
    select distinct log, writer, session, generation from events where kind in ('closed', 'disconnected')
),
-- Events of a recording router: its nth use of an id for a request is the nth request with that id.
forwards as (
    select
        log,
        writer,
        session as from_session,
        sn as from_request_id,
        regexp_extract(detail, '"to_session": "([^"]*)"', 1) as session,
        try_cast(nullif(regexp_extract(detail, '"to_direction": ([01])', 1), '') as int) as asker,
        try_cast(nullif(regexp_extract(detail, '"to_id": ([0-9]+)', 1), '') as bigint) as id,
        row_number() over (
            partition by log, writer, regexp_extract(detail, '"to_session": .*', 0)
            order by received_ns, packet, index
        ) as turn
    from events
    where kind = 'forwarded'
)
select
    answered.received as received,  -- When the request was received
    answered.log as log,  -- The identity of the log; null in a capture
    answered.writer as writer,  -- The writer of the log; null in a capture
    answered.session as session,  -- The session of the request
    answered.generation as generation,  -- The number of the handshake in that session
    cast(answered.asker as tinyint) as direction,  -- Sender of the request: 0 = the side that opened the session, 1 = the side that accepted it
    answered.id as request_id,  -- The request id. The sender may reuse it later
    answered.file as file,  -- The capture file of the request; null in a log
    answered.packet as packet,  -- The packet of the request; in a log, the number of the batch
    answered.key as key,  -- The key expression of the query; null if the declaration of its id was not recorded
    answered.unresolved_key as unresolved_key,  -- Id and suffix of a key whose declaration was not recorded
    answered.parameters as parameters,  -- The parameters of the selector; null if not given
    answered.target as target,  -- Target queryables: best_matching, all or all_complete
    answered.consolidation as consolidation,  -- Consolidation mode: auto, none, monotonic or latest
    answered.timeout_ms as timeout_ms,  -- Timeout of the query in milliseconds; null if not given
    answered.payload_size as payload_size,  -- Size of the query's payload in bytes; null if it has no payload
    answered.replies as replies,  -- Number of replies
    answered.errors as errors,  -- Number of error replies
    answered.reply_bytes as reply_bytes,  -- Total payload size of the replies in bytes
    answered.first_reply as first_reply,  -- When the first reply was received; null without replies
    answered.last_reply as last_reply,  -- When the last reply was received; null without replies
    answered.final as final,  -- When RESPONSE_FINAL was received; null if it was not
    (answered.first_reply_ns - answered.received_ns) / 1e6 as first_reply_ms,  -- Time from the request to the first reply, in milliseconds
    (answered.final_ns - answered.received_ns) / 1e6 as final_ms,  -- Time from the request to RESPONSE_FINAL, in milliseconds
    forwards.from_session as from_session,  -- The session from which a recording router forwarded the query; null if not recorded
    forwards.from_request_id as from_request_id,  -- The request id in that session
    answered.error as error,  -- The text of an error; the alphabetically first of several
    case
        when answered.final is null and closed.session is not null then 'lost'
        when answered.final is null then 'open'
        when answered.timeouts > 0 then 'timeout'
        when answered.errors > 0 then 'error'
        when answered.replies > 0 then 'answered'
        else 'empty'
    end as outcome  -- answered, empty (complete without replies), error, timeout (of a router), lost (the session closed first), open (the recording ended first)
from answered
left join closed on
    closed.log is not distinct from answered.log
    and closed.writer is not distinct from answered.writer
    and closed.session = answered.session
    and closed.generation = answered.generation
left join forwards on
    forwards.log is not distinct from answered.log
    and forwards.writer is not distinct from answered.writer
    and forwards.session = answered.session
    and forwards.asker = answered.asker
    and forwards.id = answered.id
    and forwards.turn = answered.turn
