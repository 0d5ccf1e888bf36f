-- SPDX-License-Identifier: Apache-2.0
-- One transport session: its nodes, negotiated parameters, end, and the traffic of each side.
--
-- A session whose handshake was not recorded has generation 0 and no negotiated parameters. On a multicast group, every sender is a
-- session with an opener only. An encrypted session (TLS, QUIC) has no times and counts. Scouting is not included.
with
traffic as (
    select
        log, writer, session, generation, direction, received, received_ns, type, size, fragments,
        cast(null as string) as kind,
        cast(null as string) as detail
    from messages
    where type not in ('SCOUT', 'HELLO')
    union all
    select
        log, writer, session, coalesce(generation, 0) as generation, direction, received, received_ns,
        cast(null as string) as type,
        cast(null as bigint) as size,
        cast(null as int) as fragments,
        kind, detail
    from events
    where kind in ('opened', 'joined', 'closed', 'capture encrypted')
),
met as (
    select
        log,
        writer,
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
    from traffic
    group by log, writer, session, generation
)
select
    received as received,  -- When the first message was received
    log as log,  -- The identity of the log; null in a capture
    writer as writer,  -- The writer of the log; null in a capture
    session as session,  -- Protocol and addresses, opener first; #2 and so on for further sessions of the same addresses
    generation as generation,  -- The number of the handshake of these addresses, from 1; 0 if it was not recorded
    split_part(session, '/', 1) as protocol,  -- tcp, udp, multicast, tls or quic
    encrypted as encrypted,  -- Whether the session is encrypted and therefore not decoded
    opened as opened,  -- When the handshake was complete; null if it was not recorded
    closed as closed,  -- When the first CLOSE was received; null if it was not recorded
    case closed_by when 0 then 'opener' when 1 then 'acceptor' end as closed_by,  -- Sender of the first CLOSE: opener or acceptor
    reason as reason,  -- The reason in the first CLOSE
    last_received as last_received,  -- When the last message was received
    get_json_object(agreed, '$.ends[0].zid') as opener_zid,  -- ZenohID of the node that opened the session
    get_json_object(agreed, '$.ends[0].whatami') as opener_role,  -- Mode of the opener: client, peer or router
    get_json_object(agreed, '$.ends[1].zid') as acceptor_zid,  -- ZenohID of the node that accepted the session
    get_json_object(agreed, '$.ends[1].whatami') as acceptor_role,  -- Mode of the acceptor: client, peer or router
    try_cast(get_json_object(agreed, '$.ends[0].lease_ms') as bigint) as opener_lease_ms,  -- Lease of the opener: the session expires after this silence, in milliseconds
    try_cast(get_json_object(agreed, '$.ends[1].lease_ms') as bigint) as acceptor_lease_ms,  -- Lease of the acceptor, in milliseconds
    try_cast(get_json_object(agreed, '$.version') as int) as version,  -- Version of the protocol
    try_cast(get_json_object(agreed, '$.batch_size') as int) as batch_size,  -- Negotiated maximum size of a batch, in bytes
    try_cast(get_json_object(agreed, '$.qos') as boolean) as qos,  -- Whether each priority has its own lanes
    try_cast(get_json_object(agreed, '$.low_latency') as boolean) as low_latency,  -- Whether messages are sent without frames
    try_cast(get_json_object(agreed, '$.compression') as boolean) as compression,  -- Whether batches may be compressed
    opener_messages as opener_messages,  -- Number of messages from the opener, without frames and fragments
    acceptor_messages as acceptor_messages,  -- Number of messages from the acceptor, without frames and fragments
    opener_bytes as opener_bytes,  -- Bytes from the opener, after decompression, without length prefixes and link headers
    acceptor_bytes as acceptor_bytes,  -- Bytes from the acceptor, after decompression, without length prefixes and link headers
    get_json_object(agreed, '$.ends[0].release') as opener_release,  -- Likely Zenoh release of the opener, such as `1.6 to 1.9`, inferred from its handshake; null if it shows none
    get_json_object(agreed, '$.ends[1].release') as acceptor_release  -- Likely Zenoh release of the acceptor
from met
