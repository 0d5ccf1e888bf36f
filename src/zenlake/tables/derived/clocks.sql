-- SPDX-License-Identifier: Apache-2.0
-- One clock that issued timestamps, with the age of its youngest sample in microseconds, for `deliveries`.
select
    timestamp_id as timestamp_id,  -- The ZenohID of the clock
    min(unix_micros(received) - unix_micros(timestamp)) as youngest  -- Age of its youngest sample
from samples
where timestamp is not null and request_id is null
group by timestamp_id
