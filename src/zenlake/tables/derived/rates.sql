-- SPDX-License-Identifier: Apache-2.0
-- One key during one second on one leg: how often, how much, how old.
--
-- A leg is one direction of one session: a sample that a router forwards counts on the leg on which it came and on each on which it
-- went. Publications and replies count. Age is the time of receipt less the HLC time, so it includes the clocks' difference and
-- may be negative; samples without a timestamp have none. A second in which nothing came has no row.
select
    date_trunc('second', received) as received,  -- The second in which they were received
    session as session,  -- The session
    direction as direction,  -- 0 = sent by the side that opened the session, 1 = by the side that accepted it
    key as key,  -- The key expression; null if its id's declaration was not seen
    unresolved_key as unresolved_key,  -- Id and suffix of a key whose declaration was not seen
    count(*) as samples,  -- How many puts and dels
    cast(sum(coalesce(payload_size, 0)) as bigint) as bytes,  -- Bytes of value in them
    count(timestamp) as stamped,  -- How many of them had a timestamp
    cast(percentile_disc(0.5) within group (order by unix_micros(received) - unix_micros(timestamp)) as bigint) as age_p50_us,  -- Half of those were at most this old, in microseconds
    cast(percentile_disc(0.99) within group (order by unix_micros(received) - unix_micros(timestamp)) as bigint) as age_p99_us  -- 99 % of those were at most this old
from samples
group by date_trunc('second', received), session, direction, key, unresolved_key
