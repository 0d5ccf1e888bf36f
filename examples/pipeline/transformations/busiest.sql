-- SPDX-License-Identifier: Apache-2.0
-- A custom table, from a derived table.
CREATE MATERIALIZED VIEW busiest AS
SELECT key, sum(samples) AS samples, sum(bytes) AS bytes
FROM rates
GROUP BY key
ORDER BY bytes DESC
LIMIT 10
