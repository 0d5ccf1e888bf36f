-- SPDX-License-Identifier: Apache-2.0
-- One transport session: who met whom, what they agreed on, how it ended, and how much each side said.
--
-- A session whose handshake was not recorded is a row of generation 0, with nothing agreed. On a multicast group every sender is
-- a session with an opener only. An encrypted session (TLS, QUIC) is a row without times and counts. Scouting is no session.
with
told as (
    select
        session, generation, direction, received, received_ns, type, size, fragments,
        cast(null as string) as kind,
        cast(null as string) as detail
    from messages
    where type not in ('SCOUT', 'HELLO')
    union all
    select
        session, coalesce(generation, 0) as generation, direction, received, received_ns,
        cast(null as string) as type,
        cast(null as bigint) as size,
        cast(null as int) as fragments,
        kind, detail
    from events
    where kind in ('opened', 'joined', 'closed', 'capture encrypted')
),
met as (
    select
        session,
        generation,
        min(received) as received,
        max(received) as last_received,
        count(case when kind = 'capture encrypted' then 1 end) > 0 as encrypted,
        min(case when kind in ('opened', 'joined') then received end) as opened,
        min(case when kind in ('opened', 'joined') then detail end) as agreed,
        min(case when kind = 'closed' then received end) as closed,
        min_by(direction, case when kind = 'closed' then received_ns * 2 + direction end) as closed_by,
        min_by(detail, case when kind = 'closed' then received_ns * 2 + direction end) as reason,
        count(case when direction = 0 and type not in ('FRAME', 'FRAGMENT') then 1 end) as opener_messages,
        count(case when direction = 1 and type not in ('FRAME', 'FRAGMENT') then 1 end) as acceptor_messages,
        cast(sum(case when direction = 0 and fragments is null then coalesce(size, 0) else 0 end) as bigint) as opener_bytes,
        cast(sum(case when direction = 1 and fragments is null then coalesce(size, 0) else 0 end) as bigint) as acceptor_bytes
    from told
    group by session, generation
)
select
    received as received,  -- When its first message was received
    session as session,  -- Protocol and addresses, opener first; #2 and so on where the same addresses met again
    generation as generation,  -- Which handshake of these addresses, from 1; 0 if that was not recorded
    split_part(session, '/', 1) as protocol,  -- tcp, udp, multicast, tls or quic
    encrypted as encrypted,  -- Whether it could not be read
    opened as opened,  -- When the handshake was complete; null if that was not recorded
    closed as closed,  -- When the first CLOSE came; null if none was recorded
    case closed_by when 0 then 'opener' when 1 then 'acceptor' end as closed_by,  -- Who sent that CLOSE
    reason as reason,  -- The reason that it gave
    last_received as last_received,  -- When its last message was received
    get_json_object(agreed, '$.ends[0].zid') as opener_zid,  -- The node that opened
    get_json_object(agreed, '$.ends[0].whatami') as opener_role,  -- client, peer or router
    get_json_object(agreed, '$.ends[1].zid') as acceptor_zid,  -- The node that accepted
    get_json_object(agreed, '$.ends[1].whatami') as acceptor_role,  -- client, peer or router
    cast(get_json_object(agreed, '$.ends[0].lease_ms') as bigint) as opener_lease_ms,  -- After this silence of the opener, it is dead
    cast(get_json_object(agreed, '$.ends[1].lease_ms') as bigint) as acceptor_lease_ms,  -- The same of the acceptor
    cast(get_json_object(agreed, '$.version') as int) as version,  -- The protocol's version
    cast(get_json_object(agreed, '$.batch_size') as int) as batch_size,  -- The largest batch agreed on, in bytes
    cast(get_json_object(agreed, '$.qos') as boolean) as qos,  -- Whether each priority has lanes of its own
    cast(get_json_object(agreed, '$.low_latency') as boolean) as low_latency,  -- Whether messages travel without frames
    cast(get_json_object(agreed, '$.compression') as boolean) as compression,  -- Whether batches may be compressed
    opener_messages as opener_messages,  -- Messages from the opener; frames and fragments, which only carry them, not counted
    acceptor_messages as acceptor_messages,  -- The same from the acceptor
    opener_bytes as opener_bytes,  -- Bytes from the opener, after decompression, without lengths and headers of the link
    acceptor_bytes as acceptor_bytes  -- The same from the acceptor
from met
