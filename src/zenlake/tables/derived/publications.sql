-- SPDX-License-Identifier: Apache-2.0
-- One PUT or DEL that an application published, at its first recorded hop. Replies are not included.
--
-- A publication that is forwarded is recorded once in each session that it crosses. These hops are joined by timestamp, else by
-- source and sequence number, else by order: of the samples with the same key, kind, size and checksum, the first without a timestamp is
-- the first that the receiving router stamped, and so on. The order is not decisive if the hops have different numbers of such samples, or if
-- several nodes published equal values on the key. The number of rows is still right then, but `identified` states `none`.
select
    hops.received as received,  -- When the first recorded hop was received
    lines.log as log,  -- The identity of the log; null in a capture
    lines.writer as writer,  -- The writer of the log; null in a capture
    lines.session as session,  -- The session of the first recorded hop
    lines.generation as generation,  -- The number of the handshake in that session
    lines.direction as direction,  -- 0 = sent by the side that opened the session, 1 = by the side that accepted it
    lines.file as file,  -- The capture file; null in a log
    hops.packet as packet,  -- The packet; in a log, the number of the batch
    hops.index as index,  -- The message's number inside its packet, from 0; in a log, inside its batch
    lines.key as key,  -- The key expression; null if the declaration of its id was not recorded
    lines.unresolved_key as unresolved_key,  -- Id and suffix of a key whose declaration was not recorded
    lines.kind as kind,  -- put or del
    hops.payload_size as payload_size,  -- Size of the payload in bytes; null for a del and for shared memory
    hops.stamped as timestamp,  -- HLC time, from any hop; null if no recorded hop has a timestamp
    lines.publisher as publisher,  -- ZenohID of the publishing node; null if the recording does not show it
    lines.sender_role as sender_role,  -- Sender of the first recorded hop: client, peer (published it, or forwarded it for a node whose session was not recorded), router (the publisher's hop was not recorded); null if the handshake was not recorded
    cast(hops.hops as bigint) as hops,  -- Number of recorded hops
    hops.identified as identified  -- How its hops were joined: timestamp, source, order, or none if the recording does not allow a decision
from recorded_hops as hops
join lines on lines.line = hops.line
where hops.turn = 1 and hops.publication is not null
