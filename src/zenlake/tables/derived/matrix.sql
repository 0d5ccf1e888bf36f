-- SPDX-License-Identifier: Apache-2.0
-- One publisher and one subscriber: the publications that matched a subscription, and those that reached the subscriber.
--
-- A publication matches if the subscriber had declared a key expression that intersects its key. Those within 100 ms of the beginning or
-- end of a subscription, or of the end of the recording, match only if they were delivered, because a declaration takes time. Access
-- control and downsampling are not known. What they withhold is a missing delivery here.
with
recorded as (
    select max(received) as last from samples
),
wanted as (
    select
        subscriptions.subscriber as subscriber,
        subscriptions.subscriber_role as subscriber_role,
        matches.key as key,
        subscriptions.received as begun,
        coalesce(subscriptions.ended, recorded.last) as ended
    from subscriptions
    join matches on matches.expression = subscriptions.key
    cross join recorded
    where subscriptions.subscriber is not null
),
-- Overlapping subscriptions of a node are one.
reaches as (
    select
        *,
        max(ended) over (
            partition by subscriber, key order by begun, ended rows between unbounded preceding and 1 preceding
        ) as reach
    from wanted
),
islands as (
    select
        *,
        sum(case when reach is null or begun > reach then 1 else 0 end) over (
            partition by subscriber, key order by begun, ended rows between unbounded preceding and current row
        ) as island
    from reaches
),
spans as (
    select
        subscriber,
        max(subscriber_role) as subscriber_role,
        key,
        unix_micros(min(begun)) + 100000 as first,
        unix_micros(max(ended)) - 100000 as last
    from islands
    group by subscriber, key, island
),
counted as (
    select
        publications.publisher as publisher,
        max(case when publications.sender_role <> 'router' then publications.sender_role end) as publisher_role,
        spans.subscriber as subscriber,
        max(spans.subscriber_role) as subscriber_role,
        cast(null as string) as session,
        count(*) as expected,
        0 as delivered,
        0 as anticipated,
        0 as direct,
        0 as undecided,
        0 as bytes,
        cast(null as bigint) as age_p50,
        cast(null as bigint) as age_p99,
        cast(null as bigint) as age_max
    from publications
    join spans on spans.key = publications.key
        and unix_micros(publications.received) >= spans.first and unix_micros(publications.received) <= spans.last
    where publications.publisher is distinct from spans.subscriber
    group by publications.publisher, spans.subscriber
    union all
    select
        deliveries.publisher,
        cast(null as string) as publisher_role,
        deliveries.subscriber,
        max(deliveries.subscriber_role) as subscriber_role,
        case when deliveries.subscriber is null then deliveries.session end as session,
        0 as expected,
        count(*) as delivered,
        count(spans.key) as anticipated,
        count(case when deliveries.hops = 1 then 1 end) as direct,
        count(case when deliveries.hops is null and deliveries.publisher is null then 1 end) as undecided,
        sum(coalesce(deliveries.payload_size, 0)) as bytes,
        percentile_disc(0.5) within group (order by deliveries.age - deliveries.clock_offset) as age_p50,
        percentile_disc(0.99) within group (order by deliveries.age - deliveries.clock_offset) as age_p99,
        max(deliveries.age - deliveries.clock_offset) as age_max
    from deliveries
    left join spans on spans.key = deliveries.key and spans.subscriber = deliveries.subscriber
        and unix_micros(coalesce(deliveries.published, deliveries.received)) >= spans.first
        and unix_micros(coalesce(deliveries.published, deliveries.received)) <= spans.last
    group by deliveries.publisher, deliveries.subscriber, case when deliveries.subscriber is null then deliveries.session end
),
summed as (
    select
        publisher,
        max(publisher_role) as publisher_role,
        subscriber,
        max(subscriber_role) as subscriber_role,
        session,
        sum(expected) as expected,
        sum(delivered) as delivered,
        sum(anticipated) as anticipated,
        sum(direct) as direct,
        sum(sum(undecided)) over (partition by subscriber, session) as undecided,
        sum(bytes) as bytes,
        max(age_p50) as age_p50,
        max(age_p99) as age_p99,
        max(age_max) as age_max
    from counted
    group by publisher, subscriber, session
),
decided as (
    select
        *,
        case when expected + anticipated > 0 then expected + delivered - anticipated end as matched
    from summed
)
select
    publisher as publisher,  -- ZenohID of the publishing node; null if the recording does not show it
    publisher_role as publisher_role,  -- Mode of the publishing node: client or peer; null if the recording does not show it
    subscriber as subscriber,  -- ZenohID of the receiving node; null if the recording does not show it
    subscriber_role as subscriber_role,  -- Mode of the receiving node: client or peer; null if its handshake was not recorded
    session as session,  -- The session of a receiving node whose ZenohID is not known; null otherwise
    cast(matched as bigint) as matched,  -- Number of publications that matched a subscription, or were delivered; null if no such subscription was recorded
    cast(delivered as bigint) as delivered,  -- Number of publications that were delivered
    cast(direct as bigint) as direct,  -- Of these, the publications recorded on this hop only. The recording does not show how many of them were lost before it
    cast(undecided as bigint) as undecided,  -- Number of deliveries to this node whose publisher is one of several. They are in the row without a publisher
    case
        when matched > direct and (undecided = 0 or matched = delivered) and (subscriber_role = 'client' or delivered > 0)
            then cast(delivered - direct as double) / (matched - direct)
    end as share,  -- Delivered share of the publications that were recorded before the last hop; null if the recording does not allow an answer
    cast(bytes as bigint) as bytes,  -- Total payload size of the deliveries in bytes
    cast(age_p50 as bigint) as age_p50,  -- Median age of the deliveries in microseconds, with the clock corrected as in deliveries
    cast(age_p99 as bigint) as age_p99,  -- 99th percentile of the age
    cast(age_max as bigint) as age_max  -- Maximum of the age
from decided
