-- SPDX-License-Identifier: Apache-2.0
-- One subscriber that an application declared, in one session.
--
-- Declarations by which routers forward a subscription are not included. A subscription whose declaration was not recorded has no
-- row, for example in a capture that began later. It ends with its undeclaration, or with its session.
with
closes as (
    select log, writer, session, generation, min(received) as closed
    from events
    where kind in ('closed', 'disconnected')
    group by log, writer, session, generation
),
-- A redeclared id is another subscription.
turns as (
    select
        *,
        count(case when action = 'declare' then 1 end) over (
            partition by log, writer, session, generation, direction, id
            order by received_ns, file, packet, index
            rows between unbounded preceding and current row
        ) as turn
    from declarations
    where kind = 'subscriber' and id is not null
),
spans as (
    select
        log,
        writer,
        session,
        generation,
        direction,
        id,
        turn,
        min(case when action = 'declare' then received end) as received,
        min(case when action = 'declare' then key end) as key,
        min(case when action = 'declare' then unresolved_key end) as unresolved_key,
        min(case when action = 'undeclare' then received end) as undeclared
    from turns
    where turn > 0
    group by log, writer, session, generation, direction, id, turn
)
select
    spans.received as received,  -- When the declaration was received
    spans.log as log,  -- The identity of the log; null in a capture
    spans.writer as writer,  -- The writer of the log; null in a capture
    spans.session as session,  -- The session of the declaration
    spans.generation as generation,  -- The number of the handshake in that session
    spans.direction as direction,  -- Sender of the declaration: 0 = the side that opened the session, 1 = the side that accepted it
    spans.id as id,  -- The id of the subscriber in that session
    spans.key as key,  -- The key expression; null if the declaration of its id was not recorded
    spans.unresolved_key as unresolved_key,  -- Id and suffix of a key whose declaration was not recorded
    case when spans.direction = 0 then ends.opener else ends.acceptor end as subscriber,  -- ZenohID of the subscribing node; null if the handshake was not recorded
    case when spans.direction = 0 then ends.opener_role else ends.acceptor_role end as subscriber_role,  -- Mode of that node: client or peer; null if the handshake was not recorded
    coalesce(spans.undeclared, closes.closed) as ended,  -- When the subscription or its session ended; null if it did not
    case
        when spans.undeclared is not null then 'undeclared'
        when closes.closed is not null then 'session'
    end as ended_by  -- undeclared, or session (it was closed, or it broke); null if it did not end
from spans
left join session_nodes as ends
    on ends.log is not distinct from spans.log and ends.writer is not distinct from spans.writer
    and ends.session = spans.session and ends.generation = spans.generation
left join closes
    on closes.log is not distinct from spans.log and closes.writer is not distinct from spans.writer
    and closes.session = spans.session and closes.generation = spans.generation
where coalesce(case when spans.direction = 0 then ends.opener_role else ends.acceptor_role end, '') <> 'router'
