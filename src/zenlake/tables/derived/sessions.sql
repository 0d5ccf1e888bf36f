-- SPDX-License-Identifier: Apache-2.0
-- One transport session: who met whom, what they agreed on, how it ended, and how much each side said.
--
-- A session whose handshake was not recorded is a row of generation 0, with nothing agreed. On a multicast group every sender is
-- a session with an opener only. An encrypted session (TLS, QUIC) is a row without times and counts. Scouting is no session.
with
said as (
    select
        session,
        generation,
        min(received) as received,
        max(received) as last_received,
        count(case when direction = 0 and type not in ('FRAME', 'FRAGMENT') then 1 end) as opener_messages,
        count(case when direction = 1 and type not in ('FRAME', 'FRAGMENT') then 1 end) as acceptor_messages,
        cast(sum(case when direction = 0 and fragments is null then size else 0 end) as bigint) as opener_bytes,
        cast(sum(case when direction = 1 and fragments is null then size else 0 end) as bigint) as acceptor_bytes
    from messages
    where type not in ('SCOUT', 'HELLO')
    group by session, generation
),
hidden as (
    select distinct session from events where kind = 'capture encrypted'
),
met as (
    select session, generation from said
    union
    select session, cast(0 as int) as generation from hidden
),
-- The first of each kind: a handshake or a CLOSE may be repeated.
turns as (
    select
        session,
        generation,
        received,
        direction,
        detail,
        case when kind = 'closed' then 'closed' else 'opened' end as turn,
        row_number() over (
            partition by session, generation, case when kind = 'closed' then 'closed' else 'opened' end
            order by received_ns, file, packet, index, direction
        ) as place
    from events
    where kind in ('opened', 'joined', 'closed')
)
select
    said.received as received,  -- When its first message was received
    met.session as session,  -- Protocol and addresses, opener first; #2 and so on where the same addresses met again
    met.generation as generation,  -- Which handshake of these addresses, from 1; 0 if that was not recorded
    split_part(met.session, '/', 1) as protocol,  -- tcp, udp, multicast, tls or quic
    hidden.session is not null as encrypted,  -- Whether it could not be read
    opened.received as opened,  -- When the handshake was complete; null if that was not recorded
    closed.received as closed,  -- When the first CLOSE came; null if none was recorded
    case closed.direction when 0 then 'opener' when 1 then 'acceptor' end as closed_by,  -- Who sent that CLOSE
    closed.detail as reason,  -- The reason that it gave
    said.last_received as last_received,  -- When its last message was received
    get_json_object(opened.detail, '$.ends[0].zid') as opener_zid,  -- The node that opened
    get_json_object(opened.detail, '$.ends[0].whatami') as opener_role,  -- client, peer or router
    get_json_object(opened.detail, '$.ends[1].zid') as acceptor_zid,  -- The node that accepted
    get_json_object(opened.detail, '$.ends[1].whatami') as acceptor_role,  -- client, peer or router
    cast(get_json_object(opened.detail, '$.ends[0].lease_ms') as bigint) as opener_lease_ms,  -- After this silence of the opener, it is dead
    cast(get_json_object(opened.detail, '$.ends[1].lease_ms') as bigint) as acceptor_lease_ms,  -- The same of the acceptor
    cast(get_json_object(opened.detail, '$.version') as int) as version,  -- The protocol's version
    cast(get_json_object(opened.detail, '$.batch_size') as int) as batch_size,  -- The largest batch agreed on, in bytes
    cast(get_json_object(opened.detail, '$.qos') as boolean) as qos,  -- Whether each priority has lanes of its own
    cast(get_json_object(opened.detail, '$.low_latency') as boolean) as low_latency,  -- Whether messages travel without frames
    cast(get_json_object(opened.detail, '$.compression') as boolean) as compression,  -- Whether batches may be compressed
    coalesce(said.opener_messages, 0) as opener_messages,  -- Messages from the opener; frames and fragments, which only carry them, not counted
    coalesce(said.acceptor_messages, 0) as acceptor_messages,  -- The same from the acceptor
    coalesce(said.opener_bytes, 0) as opener_bytes,  -- Bytes from the opener, after decompression, without lengths and headers of the link
    coalesce(said.acceptor_bytes, 0) as acceptor_bytes  -- The same from the acceptor
from met
left join said on said.session = met.session and said.generation = met.generation
left join hidden on hidden.session = met.session
left join turns opened
    on opened.session = met.session and opened.generation = met.generation and opened.turn = 'opened' and opened.place = 1
left join turns closed
    on closed.session = met.session and closed.generation = met.generation and closed.turn = 'closed' and closed.place = 1
