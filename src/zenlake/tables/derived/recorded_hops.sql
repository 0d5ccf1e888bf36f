-- SPDX-License-Identifier: Apache-2.0
-- One recorded hop of a publication, for `publications` and `deliveries`: one PUT or DEL, published or forwarded, in one session.
--
-- Hops with the same `publication` carry the same publication. Hops with a timestamp are the same publication if key, kind and
-- timestamp are equal, because a clock never issues a timestamp twice. A router stamps a publication that has no timestamp. The hop
-- before it is joined by order: of the samples with the same key, kind, value and source, the first without a timestamp is the first that
-- the receiving router stamped, and so on. If two nodes publish equal values on one key, or if some of the values were not forwarded, this
-- order is not decisive: `identified` then states `none`. Replies are not publications. Values in shared memory are not known, so all
-- values of such a key count as equal.
--
-- All samples are sorted four times or more, so their rows are narrow: their texts are in `lines`, and nodes are hashes.
with
-- A family is all samples with the same key, kind, value and source.
sent as (
    select
        samples.line as line,
        samples.received as received,
        samples.received_ns as received_ns,
        samples.packet as packet,
        samples.index as index,
        samples.payload_size as payload_size,
        samples.payload_sha256 is not null as is_redacted,
        samples.timestamp as timestamp,
        samples.ntp64 as ntp64,
        samples.source_eid as source_eid,
        samples.source_sn as source_sn,
        lines.unresolved_key is not null as is_unresolved,
        lines.leg as leg,
        lines.topic as topic,
        lines.sender_role is not distinct from 'client' as is_client,
        coalesce(lines.receiver_role, '') <> 'client' as is_relay,
        coalesce(lines.receiver_role, '') = 'router' as is_to_router,
        case when lines.sender is not null then xxhash64(lines.sender) else lines.leg end as sender_node,
        case when lines.receiver is not null then xxhash64(lines.receiver) end as receiver_node,
        case when lines.timestamp_id is not null then xxhash64(cast(lines.timestamp_id as string)) end as clock,
        case
            when samples.ntp64 is not null then xxhash64(concat(
                cast(lines.topic as string), ' ', lines.timestamp_id, ' ', cast(samples.ntp64 as string)
            ))
        end as stamp,
        xxhash64(concat(
            cast(lines.topic as string), ' ', coalesce(lines.source_zid, ''), ' ',
            case when lines.any_shared then '' else coalesce(cast(samples.payload_size as string), '') end, ' ',
            case
                when lines.any_shared then ''
                when lines.any_redacted then coalesce(samples.payload_sha256, sha2(samples.payload, 256), '')
                else coalesce(cast(xxhash64(samples.payload) as string), '')
            end, ' ',
            coalesce(cast(samples.source_eid as string), ''), ' ', coalesce(cast(samples.source_sn as string), '')
        )) as family
    from (
        select
            *,
            xxhash64(concat(
                coalesce(log, ''), ' ', coalesce(writer, ''), ' ', session, ' ', cast(generation as string), ' ',
                cast(direction as string), ' ', coalesce(file, ''), ' ', coalesce(key, ''), ' ', coalesce(unresolved_key, ''), ' ',
                kind, ' ', coalesce(source_zid, ''), ' ', coalesce(timestamp_id, '')
            )) as line
        from samples
        where request_id is null
    ) as samples
    join lines on lines.line = samples.line
),
-- Each hop with a node. If it has a timestamp, that is the node that issued it. A node that received a sample of the family without a
-- timestamp is a forwarder, which may have stamped it. Clients do not forward. Other senders without a timestamp may be forwarders too:
-- such a hop has two rows, one for each end.
nodes as (
    select
        sent.*,
        case
            when sent.ntp64 is not null then sent.clock
            when sent.is_client or copies.copy = 1 then sent.receiver_node
            else sent.sender_node
        end as node,
        sent.ntp64 is null and (sent.is_client or copies.copy = 1) as is_received,
        copies.copy
    from sent
    join (
        select true as is_one, 0 as copy
        union all
        select false as is_one, 0 as copy
        union all
        select false as is_one, 1 as copy
    ) as copies on copies.is_one = (sent.ntp64 is not null or sent.is_client)
),
known as (
    select
        *,
        max(case when is_received then 1 else 0 end) over (partition by family, node) = 1 and (ntp64 is not null or not is_client)
            as is_forwarder
    from nodes
),
-- Legs of a family: samples without a timestamp in one direction of a session, and timestamps of one clock.
legs as (
    select
        *,
        dense_rank() over in_leg as place,
        lead(packet) over in_leg is null as is_last
    from known
    where copy = 0
    window in_leg as (
        partition by family, coalesce(clock, leg)
        order by
            ntp64,
            case when ntp64 is null then received_ns end,
            case when ntp64 is null then packet end,
            case when ntp64 is null then index end
    )
),
-- The order is decisive if all legs have the same length and one node published. A timestamp that no forwarder issued is apart, but an
-- unknown node may have been the forwarder.
families as (
    select
        *,
        min(case when is_last then place end) over of_family as least,
        max(place) over of_family as most,
        min(case when is_last and (ntp64 is null or is_forwarder) then place end) over of_family as least_joined,
        max(case when ntp64 is null or is_forwarder then place end) over of_family as most_joined,
        max(case when ntp64 is null and receiver_node is null then 1 else 0 end) over of_family = 1 as has_unknown,
        min(case when ntp64 is null and not is_forwarder then sender_node end) over of_family as first_origin,
        max(case when ntp64 is null and not is_forwarder then sender_node end) over of_family as last_origin
    from legs
    window of_family as (partition by family)
),
decided as (
    select
        *,
        ntp64 is not null and not is_forwarder and not has_unknown as is_apart,
        coalesce(first_origin = last_origin, false) as is_single,
        case when has_unknown then least = most else least_joined = most_joined end as is_even,
        source_sn is not null and case when has_unknown then most else most_joined end = 1 as is_numbered
    from families
),
-- The publication of each hop. A null is a copy of one of several publications with equal values.
joined as (
    select
        *,
        case
            when is_apart then stamp
            when is_single or is_numbered then xxhash64(concat(cast(family as string), ' ', cast(place as string)))
            when ntp64 is null and (first_origin is null or not is_forwarder) then xxhash64(concat(
                cast(family as string), ' ', cast(place as string), ' ', cast(sender_node as string)
            ))
        end as publication,
        case
            when is_unresolved then 'none'
            when ntp64 is not null and (is_apart or is_numbered or is_single and is_even) then 'timestamp'
            when ntp64 is null and is_numbered then 'source'
            when ntp64 is null and is_single and is_even then 'order'
            else 'none'
        end as identified
    from decided
),
placed as (
    select
        *,
        row_number() over of_publication as turn,
        first_value(line) over of_publication as first_line,
        count(*) over whole_publication as hops,
        min(timestamp) over whole_publication as stamped,
        min(received) over whole_publication as published,
        min(case when is_relay then receiver_node end) over whole_publication as first_relay,
        max(case when is_relay then receiver_node end) over whole_publication as last_relay
    from joined
    window
        of_publication as (partition by publication order by ntp64 is not null, received_ns, packet, index, line),
        whole_publication as (
            partition by publication order by ntp64 is not null, received_ns, packet, index, line
            rows between unbounded preceding and unbounded following
        )
)
select
    publication,
    coalesce(publication, stamp) as copy,
    identified,
    turn,
    hops,
    stamped,
    published,
    line,
    first_line,
    received,
    received_ns,
    packet,
    index,
    payload_size,
    is_redacted,
    timestamp,
    source_eid,
    source_sn,
    clock,
    topic,
    leg,
    sender_node,
    receiver_node,
    is_to_router,
    first_relay,
    last_relay
from placed
