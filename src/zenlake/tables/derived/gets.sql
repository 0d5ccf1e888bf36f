-- SPDX-License-Identifier: Apache-2.0
-- One query that an application sent, at its first recorded hop, with its replies there.
--
-- The requests by which routers forward a query are hops of it. The events of a recording router name the forwarded request
-- (`identified` states `source`). Elsewhere a request of a router or peer is a hop of a query that reached that node earlier with the same key and
-- parameters, and that was still open (order). If several such queries were open, the hop cannot be joined to one of them (none). A request of
-- a router that no recorded query explains is a row without a querier: the hop of the application was not recorded.
with
asked as (
    select
        queries.*,
        case when queries.direction = 0 then ends.opener else ends.acceptor end as sender,
        case when queries.direction = 0 then ends.opener_role else ends.acceptor_role end as sender_role,
        case when queries.direction = 0 then ends.acceptor else ends.opener end as receiver,
        row_number() over (
            order by queries.received, queries.file, queries.packet, queries.log, queries.writer, queries.session,
                queries.direction, queries.request_id
        ) as number
    from queries
    left join session_nodes as ends
        on ends.log is not distinct from queries.log and ends.writer is not distinct from queries.writer
        and ends.session = queries.session and ends.generation = queries.generation
),
-- The query from which each request was forwarded, and how many open queries it may belong to.
candidates as (
    select
        hop.number as number,
        max(origin.number) as origin,
        count(case when hop.from_session is null then 1 end) as origins
    from asked as hop
    join asked as origin
        on origin.receiver = hop.sender and origin.key = hop.key and origin.parameters is not distinct from hop.parameters
    where origin.number <> hop.number
        and (
            hop.from_session = origin.session and hop.from_request_id = origin.request_id and origin.number < hop.number
            or hop.from_session is null and hop.sender_role <> 'client' and origin.session <> hop.session
            and origin.received <= hop.received and (origin.final is null or origin.final >= hop.received)
        )
    group by hop.number
),
rooted as (
    select
        asked.*,
        candidates.number is null and asked.from_session is null as is_first,
        candidates.origins as origins,
        coalesce(earlier.origin, candidates.origin, asked.number) as root
    from asked
    left join candidates on candidates.number = asked.number
    left join candidates as earlier on earlier.number = candidates.origin
),
counted as (
    select
        *,
        count(case when coalesce(origins, 0) <= 1 then 1 end) over (partition by root) as joined,
        max(origins) over (partition by root) as most_origins
    from rooted
)
select
    counted.received as received,  -- When the first recorded hop of the query was received
    counted.log as log,  -- The identity of the log; null in a capture
    counted.writer as writer,  -- The writer of the log; null in a capture
    counted.session as session,  -- The session of that hop
    counted.generation as generation,  -- The number of the handshake in that session
    counted.direction as direction,  -- Sender of the query: 0 = the side that opened the session, 1 = the side that accepted it
    counted.request_id as request_id,  -- The request id in that session
    counted.file as file,  -- The capture file; null in a log
    counted.packet as packet,  -- The packet; in a log, the number of the batch
    counted.key as key,  -- The key expression of the query; null if the declaration of its id was not recorded
    counted.unresolved_key as unresolved_key,  -- Id and suffix of a key whose declaration was not recorded
    counted.parameters as parameters,  -- The parameters of the selector; null if not given
    counted.target as target,  -- Target queryables: best_matching, all or all_complete
    counted.consolidation as consolidation,  -- Consolidation mode: auto, none, monotonic or latest
    counted.timeout_ms as timeout_ms,  -- Timeout of the query in milliseconds; null if not given
    counted.payload_size as payload_size,  -- Size of the query's payload in bytes; null if it has no payload
    case when counted.sender_role in ('client', 'peer') then counted.sender end as querier,  -- ZenohID of the node that sent the query; null if the recording does not show it
    counted.sender_role as sender_role,  -- Sender of the first recorded hop: client, peer, or router (the hop of the application was not recorded); null if the handshake was not recorded
    counted.joined as hops,  -- Number of recorded hops that can be joined
    counted.replies as replies,  -- Number of replies at this hop
    counted.errors as errors,  -- Number of error replies
    counted.reply_bytes as reply_bytes,  -- Total payload size of the replies in bytes
    counted.first_reply_ms as first_reply_ms,  -- Time to the first reply, in milliseconds; null without replies
    counted.final_ms as latency_ms,  -- Time until the query was complete, in milliseconds; null if it was not
    counted.error as error,  -- The text of an error; the alphabetically first of several
    counted.outcome as outcome,  -- answered, empty (complete without replies), error, timeout (of a router), lost (the session closed first), open (the recording ended first)
    case
        when counted.joined = 1 or counted.most_origins > 1 then 'none'
        when counted.most_origins = 0 then 'source'
        else 'order'
    end as identified  -- How its further hops were joined: source (events of a recording router), order, or none if there are no further hops or they cannot be joined
from counted
where is_first
