-- SPDX-License-Identifier: Apache-2.0
-- Two nodes that follow each other in the timestamp stacks of samples: how long samples took from one to the other.
--
-- A publisher requests a stack with `timestamp_instrumentation`, since Zenoh 1.10. The latency is the time from the last timestamp of one
-- node to the first timestamp of the next, so it includes the difference of their clocks. Nodes that add no timestamp are not visible.
-- The last hop ends at the recorder. A timestamp that several rows contain, because the sample was recorded on several sessions, counts
-- once. Timestamps in a custom format are not used.
with
stacks as (
    select log, writer, session, generation, direction, received, packet, index, timestamp_stack
    from samples
    where size(timestamp_stack) > 0
),
positions as (
    select *, size(timestamp_stack) as records, explode(sequence(0, size(timestamp_stack) - 1)) as position from stacks
),
pairs as (
    select
        log, writer, session, generation, direction, received, packet, index,
        position + 1 = records as is_last,
        get(timestamp_stack, position) as earlier,
        get(timestamp_stack, position + 1) as later
    from positions
),
-- A node that forwards to several others, or a recorder that sees several sessions, repeats a pair.
crossed as (
    select distinct
        earlier.timestamp_id as from_node,
        earlier.point as from_point,
        earlier.ntp64 as from_ntp64,
        later.timestamp_id as to_node,
        case when is_last then 'recorded' else later.point end as to_point,
        later.ntp64 as to_ntp64,
        case when is_last then log end as log,
        case when is_last then writer end as writer,
        case when is_last then session end as session,
        case when is_last then generation end as generation,
        case when is_last then direction end as direction,
        case when is_last then packet end as packet,
        case when is_last then index end as index,
        unix_micros(case when is_last then received else later.timestamp end) - unix_micros(earlier.timestamp) as latency
    from pairs
    where earlier.timestamp is not null and (is_last or later.timestamp_id <> earlier.timestamp_id)
)
select
    from_node as from_node,  -- ZenohID of the node with the earlier timestamp
    from_point as from_point,  -- Its point: send (the publisher), route or receive
    to_node as to_node,  -- ZenohID of the next node; null if the hop ends at the recorder
    to_point as to_point,  -- Its point: route, receive, send (a reply to a query) or recorded
    log as log,  -- The identity of the log of a hop that ends at the recorder; null in a capture, and for other hops
    writer as writer,  -- The writer of that log
    session as session,  -- The session of a hop that ends at the recorder
    direction as direction,  -- Its direction: 0 = sent by the side that opened the session, 1 = by the side that accepted it
    count(*) as samples,  -- Number of samples
    min(latency) as latency_min_us,  -- Lowest latency, in microseconds
    cast(percentile_disc(0.5) within group (order by latency) as bigint) as latency_p50_us,  -- Median latency, in microseconds
    cast(percentile_disc(0.99) within group (order by latency) as bigint) as latency_p99_us,  -- 99th percentile of the latency, in microseconds
    max(latency) as latency_max_us  -- Highest latency, in microseconds
from crossed
group by from_node, from_point, to_node, to_point, log, writer, session, direction
