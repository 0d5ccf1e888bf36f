-- SPDX-License-Identifier: Apache-2.0
-- One publication that reached one receiving node, at the hop into that node.
--
-- A hop into a router is not a delivery. A peer may be a subscriber and forward as well: `forwarded` is then true, and the recording
-- does not show whether the peer itself subscribes. A multicast group, and a session whose handshake was not recorded, has a row
-- without a subscriber. The hop is recorded where the recorder is, so the age does not include the way from there, and no queue behind it.
with
reached as (
    select
        *,
        row_number() over (
            partition by copy, coalesce(receiver_node, leg), case when copy is null then packet end, case when copy is null then index end
            order by received_ns, line, packet, index
        ) as arrival
    from recorded_hops as hops
    where not is_to_router
),
-- The previous hop: into the node that sent this one. Most publications have one relay only, and need no join.
relays as (
    select publication, receiver_node as node, min(sender_node) as previous
    from recorded_hops as hops
    where first_relay <> last_relay and receiver_node is not null
    group by publication, receiver_node
),
-- Senders that may also be receiving nodes of deliveries. Clients do not forward, and hops into routers are not deliveries.
forwarders as (
    select distinct hops.copy as copy, hops.sender_node as node
    from recorded_hops as hops
    join lines on lines.line = hops.line
    where hops.copy is not null and coalesce(lines.sender_role, 'peer') = 'peer'
)
select
    reached.received as received,  -- When it was received, by the recorder's clock
    lines.log as log,  -- The identity of the log; null in a capture
    lines.writer as writer,  -- The writer of the log; null in a capture
    lines.session as session,  -- The session of the hop into the receiving node
    lines.generation as generation,  -- The number of the handshake in that session
    lines.direction as direction,  -- 0 = sent by the side that opened the session, 1 = by the side that accepted it
    lines.file as file,  -- The capture file; null in a log
    reached.packet as packet,  -- The packet; in a log, the number of the batch
    reached.index as index,  -- The message's number inside its packet, from 0; in a log, inside its batch
    lines.key as key,  -- The key expression; null if the declaration of its id was not recorded
    lines.unresolved_key as unresolved_key,  -- Id and suffix of a key whose declaration was not recorded
    lines.kind as kind,  -- put or del
    reached.payload_size as payload_size,  -- Size of the payload in bytes; null for a del and for shared memory
    reached.timestamp as timestamp,  -- HLC time; null if the sample has no timestamp
    lines.timestamp_id as timestamp_id,  -- The ZenohID of the clock that issued the timestamp
    case when reached.publication is not null and reached.identified <> 'none' then reached.published end as published,  -- When the first recorded hop of the publication was received; null if the hops cannot be joined
    coalesce(case when reached.publication is not null then firsts.publisher end, lines.source_zid) as publisher,  -- ZenohID of the publishing node; null if the recording does not show it
    lines.receiver as subscriber,  -- ZenohID of the receiving node; null if the recording does not show it
    lines.receiver_role as subscriber_role,  -- Mode of the receiving node: client or peer; null if the handshake was not recorded
    case
        when reached.timestamp is not null then unix_micros(reached.received) - unix_micros(reached.timestamp)
        when reached.turn > 1 and reached.publication is not null and reached.identified <> 'none'
            then unix_micros(reached.received) - unix_micros(reached.published)
    end as age,  -- Microseconds since the timestamp, or since the first recorded hop if it has no timestamp; null if there is neither
    coalesce(case when clocks.youngest < 0 or clocks.youngest > 1000000 then clocks.youngest end, 0) as clock_offset,  -- Microseconds to subtract from the age: the age of the youngest sample of that clock, if it is negative or above one second; else 0
    case
        when reached.publication is null then null
        when reached.first_relay is null then 1
        when reached.first_relay = reached.last_relay then case when reached.sender_node = reached.first_relay then 2 else 1 end
        when relays.node is null then 1
        when earlier.node is null then 2
        else 3
    end as hops,  -- Number of recorded hops on its way, this one included; 3 means three or more; null if its way is not known
    forwarders.node is not null as forwarded,  -- Whether the receiving node sent it on
    reached.identified as identified  -- How it was joined to its publication: timestamp, source, order, or none if the recording does not allow a decision
from reached
join lines on lines.line = reached.line
join lines as firsts on firsts.line = reached.first_line
left join relays on relays.publication = reached.publication and relays.node = reached.sender_node
left join relays as earlier on earlier.publication = relays.publication and earlier.node = relays.previous
left join clocks on clocks.timestamp_id = lines.timestamp_id
left join forwarders on forwarders.copy = reached.copy and forwarders.node = reached.receiver_node
where reached.arrival = 1
