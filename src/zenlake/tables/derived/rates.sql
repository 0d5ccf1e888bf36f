-- SPDX-License-Identifier: Apache-2.0
-- One key during one second on one leg: number, size and age of its samples.
--
-- A leg is one direction of one session. A sample that a router forwards counts on its incoming leg and on each outgoing leg.
-- Publications and replies count. Age is the received time minus the HLC time, so it includes the clock difference and may be
-- negative. Samples without a timestamp have no age. A second without samples has no row.
select
    date_trunc('second', received) as received,  -- The second in which the samples were received
    log as log,  -- The identity of the log; null in a capture
    writer as writer,  -- The writer of the log; null in a capture
    session as session,  -- The session
    direction as direction,  -- 0 = sent by the side that opened the session, 1 = by the side that accepted it
    key as key,  -- The key expression; null if the declaration of its id was not recorded
    unresolved_key as unresolved_key,  -- Id and suffix of a key whose declaration was not recorded
    count(*) as samples,  -- Number of puts and dels
    cast(sum(coalesce(payload_size, 0)) as bigint) as bytes,  -- Total payload size in bytes
    count(timestamp) as stamped,  -- Number of samples with a timestamp
    cast(percentile_disc(0.5) within group (order by unix_micros(received) - unix_micros(timestamp)) as bigint) as age_p50_us,  -- Median age of the samples with a timestamp, in microseconds
    cast(percentile_disc(0.99) within group (order by unix_micros(received) - unix_micros(timestamp)) as bigint) as age_p99_us  -- 99th percentile of the age, in microseconds
from samples
group by date_trunc('second', received), log, writer, session, direction, key, unresolved_key
