-- SPDX-License-Identifier: Apache-2.0
-- One REQUEST in one session, with all that was answered there.
--
-- A query that a router forwards is a row in each session that it crosses, with an id of its own in each. Ids are used again, so
-- answers belong to the last request with their id in the same session and generation. Answers to a request that was not recorded
-- make no row. Messages that receivers ignore as duplicates do not count.
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
            partition by session, generation, asker, id
            order by received_ns, file, packet, index
            rows between unbounded preceding and current row
        ) as turn
    from spoken
),
answered as (
    select
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
    group by session, generation, asker, id, turn
),
closed as (
    select distinct session, generation from events where kind in ('closed', 'disconnected')
),
-- What a recording router noted: the nth time that it used an id for a request is the nth request with that id.
hops as (
    select
        session as from_session,
        sn as from_request_id,
        regexp_extract(detail, '"to_session": "([^"]*)"', 1) as session,
        cast(nullif(regexp_extract(detail, '"to_direction": ([01])', 1), '') as int) as asker,
        cast(nullif(regexp_extract(detail, '"to_id": ([0-9]+)', 1), '') as bigint) as id,
        row_number() over (
            partition by regexp_extract(detail, '"to_session": .*', 0)
            order by received_ns, packet, index
        ) as turn
    from events
    where kind = 'forwarded'
)
select
    answered.received as received,  -- When the request was received
    answered.session as session,  -- The session in which it was asked
    answered.generation as generation,  -- Which handshake of that session
    cast(answered.asker as tinyint) as direction,  -- Who asked: 0 = the side that opened the session, 1 = the side that accepted it
    answered.id as request_id,  -- The request's id, which the asker may use again later
    answered.file as file,  -- The capture file of the request; null in a log
    answered.packet as packet,  -- The packet of the request; in a log, the number of the batch
    answered.key as key,  -- The key expression asked for; null if its id's declaration was not seen
    answered.unresolved_key as unresolved_key,  -- Id and suffix of a key whose declaration was not seen
    answered.parameters as parameters,  -- The parameters, as they were given; null if there are none
    answered.target as target,  -- Whom it asks: best_matching, all or all_complete
    answered.consolidation as consolidation,  -- auto, none, monotonic or latest
    answered.timeout_ms as timeout_ms,  -- How long it may take; null if it does not say
    answered.payload_size as payload_size,  -- Bytes of the value that the query carries; null if it carries none
    answered.replies as replies,  -- How many replies came
    answered.errors as errors,  -- How many errors came
    answered.reply_bytes as reply_bytes,  -- Bytes of value in the replies
    answered.first_reply as first_reply,  -- When the first reply was received; null if there was none
    answered.last_reply as last_reply,  -- When the last reply was received
    answered.final as final,  -- When the end of the answers was received; null if it was not
    (answered.first_reply_ns - answered.received_ns) / 1e6 as first_reply_ms,  -- From the request to the first reply, in milliseconds
    (answered.final_ns - answered.received_ns) / 1e6 as final_ms,  -- From the request to the end, in milliseconds
    hops.from_session as from_session,  -- The session that a recording router passed it on from; null if none noted that
    hops.from_request_id as from_request_id,  -- The request's id in that session
    answered.error as error,  -- The text of an error; of several the first by alphabet
    case
        when answered.final is null and closed.session is not null then 'lost'
        when answered.final is null then 'open'
        when answered.timeouts > 0 then 'timeout'
        when answered.errors > 0 then 'error'
        when answered.replies > 0 then 'answered'
        else 'empty'
    end as outcome  -- answered, empty (an end but no reply), error, timeout (a router gave up), lost (the session closed first), open (so did the recording)
from answered
left join closed on closed.session = answered.session and closed.generation = answered.generation
left join hops on
    hops.session = answered.session
    and hops.asker = answered.asker
    and hops.id = answered.id
    and hops.turn = answered.turn
