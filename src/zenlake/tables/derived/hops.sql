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
-- Each hop with the node that issued its timestamp, or sent it without one. Further rows (`forwards`) name the nodes that received samples of
-- the family without a timestamp: forwarders, which may have stamped it. An unknown node may have been any of them.
nodes as (
    select
        *,
        coalesce(timestamp_id, sender, concat(session, ' ', cast(direction as string))) as node,
        case
            when timestamp_id is null then concat(
                coalesce(log, ''), ' ', coalesce(writer, ''), ' ', session, ' ', cast(generation as string), ' ', cast(direction as string)
            )
            else concat('clock ', timestamp_id)
        end as leg,
        0 as forwards
    from sent
    union all
    select *, receiver as node, cast(null as string) as leg, 1 as forwards
    from sent
    where timestamp_id is null
),
known as (
    select
        *,
        max(forwards) over (partition by family, node) = 1 as is_forwarder,
        max(case when node is null then 1 else 0 end) over (partition by family) = 1 as has_unknown
    from nodes
),
-- Legs of a family: samples without a timestamp in one direction of a session, and timestamps that a forwarder issued.
legs as (
    select
        *,
        timestamp_id is not null and not is_forwarder and not has_unknown as is_apart,
        case
            when timestamp_id is not null then dense_rank() over (partition by family, leg order by ntp64)
            else row_number() over (partition by family, leg order by received_ns, file, packet, index)
        end as place
    from known
    where forwards = 0
),
-- The order is decisive if all legs have the same length and one node published.
lengths as (
    select
        *,
        max(place) over (partition by family, leg) as length,
        case when timestamp_id is null and not is_forwarder then node end as origin
    from legs
),
families as (
    select
        *,
        min(case when not is_apart then length end) over (partition by family) as least,
        max(case when not is_apart then length end) over (partition by family) as most,
        min(origin) over (partition by family) as first_origin,
        max(origin) over (partition by family) as last_origin
    from lengths
),
decided as (
    select
        *,
        first_origin is not null and first_origin = last_origin as is_single,
        most = 1 and source_sn is not null as is_sourced
    from families
),
-- The publication of each hop. A null is a copy of one of several publications with equal values.
joined as (
    select
        *,
        case
            when is_apart then stamp
            when is_single or is_sourced then xxhash64(concat(cast(family as string), ' ', cast(place as string)))
            when timestamp_id is null and (first_origin is null or origin is not null) then xxhash64(concat(
                cast(family as string), ' ', cast(place as string), ' ', node
            ))
        end as own_publication,
        case
            when unresolved_key is not null then 'none'
            when timestamp_id is not null and (is_apart or is_sourced or is_single and least = most) then 'timestamp'
            when timestamp_id is null and is_sourced then 'source'
            when timestamp_id is null and is_single and least = most then 'order'
            else 'none'
        end as identified
    from decided
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
),
placed as (
    select
        *,
        coalesce(publication, stamp) as copy,
        row_number() over (
            partition by publication
            order by timestamp_id is not null, received_ns, log, writer, file, packet, index, session, direction
        ) as turn,
        count(*) over (partition by publication) as hops,
        min(timestamp) over (partition by publication) as stamped
    from unified
)
select
    *,  -- The columns of the sample and of the nodes at both ends
    case when publication is not null then max(case
        when turn > 1 then null
        when source_zid is not null then source_zid
        when sender_role = 'client' then sender
        when sender_role = 'peer' and coalesce(timestamp_id, sender) = sender then sender
    end) over (partition by publication) end as publisher  -- The node that published it; null if the recording does not show it
from placed
