-- SPDX-License-Identifier: Apache-2.0
-- One recorded hop of a publication, for `publications` and `deliveries`: one PUT or DEL, published or forwarded, in one session.
--
-- Hops with the same `publication` carry the same publication. Hops with a timestamp are the same publication if key, kind and
-- timestamp are equal, because a clock never issues a timestamp twice. A router stamps a publication that has no timestamp. The hop
-- before it is joined by order: of the samples with the same key, kind, value and source, the first without a timestamp is the first that
-- the receiving router stamped, and so on. If two nodes publish equal values on one key, or if some of the values were not forwarded, this
-- order is not decisive: `identified` then states `none`. Replies are not publications.
with
ends as (
    select
        log,
        writer,
        session,
        generation,
        max(get_json_object(detail, '$.ends[0].zid')) as opener,
        max(get_json_object(detail, '$.ends[1].zid')) as acceptor,
        max(get_json_object(detail, '$.ends[0].whatami')) as opener_role,
        max(get_json_object(detail, '$.ends[1].whatami')) as acceptor_role
    from events
    where kind in ('opened', 'joined')
    group by log, writer, session, generation
),
sent as (
    select
        samples.received as received,
        samples.received_ns as received_ns,
        samples.log as log,
        samples.writer as writer,
        samples.session as session,
        samples.generation as generation,
        samples.direction as direction,
        samples.file as file,
        samples.packet as packet,
        samples.index as index,
        samples.key as key,
        samples.unresolved_key as unresolved_key,
        samples.kind as kind,
        samples.payload_size as payload_size,
        samples.payload_sha256 as payload_sha256,
        samples.timestamp as timestamp,
        samples.ntp64 as ntp64,
        samples.timestamp_id as timestamp_id,
        samples.source_zid as source_zid,
        samples.source_eid as source_eid,
        samples.source_sn as source_sn,
        xxhash64(case
            when samples.timestamp_id is null then concat(
                coalesce(samples.log, ''), ' ', coalesce(samples.writer, ''), ' ', samples.session, ' ',
                cast(samples.generation as string), ' ', cast(samples.direction as string)
            )
            else concat('clock ', samples.timestamp_id)
        end) as leg,
        xxhash64(coalesce(
            samples.timestamp_id, case when samples.direction = 0 then ends.opener else ends.acceptor end,
            concat(samples.session, ' ', cast(samples.direction as string))
        )) as node,
        case when samples.direction = 0 then ends.opener else ends.acceptor end as sender,
        case when samples.direction = 0 then ends.opener_role else ends.acceptor_role end as sender_role,
        case when samples.direction = 0 then ends.acceptor else ends.opener end as receiver,
        case when samples.direction = 0 then ends.acceptor_role else ends.opener_role end as receiver_role,
        xxhash64(concat(
            coalesce(samples.key, ''), ' ', coalesce(samples.unresolved_key, ''), ' ', samples.kind, ' ',
            coalesce(cast(samples.payload_size as string), ''), ' ', coalesce(md5(
                coalesce(samples.payload, cast(samples.payload_sha256 as binary))
            ), ''), ' ',
            coalesce(samples.source_zid, ''), ' ', coalesce(cast(samples.source_eid as string), ''), ' ',
            coalesce(cast(samples.source_sn as string), '')
        )) as family,
        xxhash64(concat(
            coalesce(samples.key, ''), ' ', coalesce(samples.unresolved_key, ''), ' ', samples.kind, ' ',
            samples.timestamp_id, ' ', cast(samples.ntp64 as string)
        )) as stamp
    from samples
    left join ends
        on ends.log is not distinct from samples.log and ends.writer is not distinct from samples.writer
        and ends.session = samples.session and ends.generation = samples.generation
    where samples.request_id is null
),
-- Legs of a family: samples without a timestamp in one direction of a session, and timestamps of one clock. `node` sent the samples, or is the
-- clock. The length of a leg is the number of its publications.
steps as (
    select family, leg, timestamp_id is not null as is_stamped, min(node) as node, count(*) as samples
    from sent
    group by family, leg, timestamp_id, ntp64
),
legs as (
    select family, leg, is_stamped, min(node) as node, sum(case when is_stamped then 1 else samples end) as length
    from steps
    group by family, leg, is_stamped
),
-- Nodes that received samples of the family without a timestamp: forwarders, which may have stamped it. An unknown node may have been any.
forwarders as (
    select family, case when receiver is not null then xxhash64(receiver) end as node
    from sent
    where timestamp_id is null
    group by family, receiver
),
unknown as (
    select family, true as has_unknown from forwarders where node is null
),
-- Timestamps that a node issued which was no forwarder are apart: it published these samples itself.
judged as (
    select
        legs.family as family,
        legs.leg as leg,
        legs.length as length,
        legs.is_stamped and forwarders.node is null and unknown.has_unknown is null as is_apart,
        case when not legs.is_stamped and forwarders.node is null then legs.node end as origin
    from legs
    left join forwarders on forwarders.family = legs.family and forwarders.node = legs.node
    left join unknown on unknown.family = legs.family
),
-- The order is decisive if all legs have the same length and one node published.
decided as (
    select
        *,
        min(case when not is_apart then length end) over (partition by family) as least,
        max(case when not is_apart then length end) over (partition by family) as most,
        min(origin) over (partition by family) as first_origin,
        max(origin) over (partition by family) as last_origin
    from judged
),
ranked as (
    select
        *,
        dense_rank() over (
            partition by family, leg
            order by
                ntp64, case when ntp64 is null then received_ns end, case when ntp64 is null then file end,
                case when ntp64 is null then packet end, case when ntp64 is null then index end
        ) as place
    from sent
),
-- The publication of each hop. A null is a copy of one of several publications with equal values.
joined as (
    select
        ranked.*,
        decided.is_apart as is_apart,
        case
            when is_apart then stamp
            when first_origin = last_origin or most = 1 and source_sn is not null then xxhash64(concat(
                cast(ranked.family as string), ' ', cast(place as string)
            ))
            when timestamp_id is null and (first_origin is null or origin is not null) then xxhash64(concat(
                cast(ranked.family as string), ' ', cast(place as string), ' ', cast(node as string)
            ))
        end as own_publication,
        case
            when unresolved_key is not null then 'none'
            when timestamp_id is not null and (
                is_apart or most = 1 and source_sn is not null or first_origin = last_origin and least = most
            ) then 'timestamp'
            when timestamp_id is null and most = 1 and source_sn is not null then 'source'
            when timestamp_id is null and first_origin = last_origin and least = most then 'order'
            else 'none'
        end as identified
    from ranked
    join decided on decided.family = ranked.family and decided.leg = ranked.leg
),
-- Equal timestamps are one publication, also if one of the recordings has redacted the value.
unified as (
    select
        *,
        case
            when timestamp_id is null then own_publication
            else coalesce(max(case when not is_apart then own_publication end) over (partition by stamp), own_publication)
        end as publication
    from joined
)
select
    *,  -- The columns of the sample and of the nodes at both ends
    coalesce(publication, stamp) as copy,  -- The publication, or the timestamp of a copy of one of several publications
    row_number() over first_first as turn,  -- The number of the hop among those of the publication, the first recorded one is 1
    count(*) over (partition by publication) as hops,  -- Number of recorded hops
    min(timestamp) over (partition by publication) as stamped,  -- HLC time, from any hop
    case when publication is not null and identified <> 'none' then min(received) over (partition by publication) end as published,  -- When the first recorded hop was received; null if the hops cannot be joined
    case
        when publication is not null then first_value(case
            when source_zid is not null then source_zid
            when sender_role = 'client' then sender
            when sender_role = 'peer' and coalesce(timestamp_id, sender) = sender then sender
        end) over first_first
    end as publisher  -- The node that published it; null if the recording does not show it
from unified
window first_first as (
    partition by publication
    order by timestamp_id is not null, received_ns, log, writer, file, packet, index, session, direction
)
