-- SPDX-License-Identifier: Apache-2.0
-- The texts that samples have in common, for `recorded_hops`: one row per session, direction, file, key, kind, source and clock.
--
-- `line` is the hash of these texts. Rows of `recorded_hops` have it instead of the texts, because all of them are sorted several times.
-- `publisher` is the publishing node, if these are samples of a first hop. It is null if the recording does not show it.
with
texts as (
    select
        xxhash64(concat(
            coalesce(log, ''), ' ', coalesce(writer, ''), ' ', session, ' ', cast(generation as string), ' ', cast(direction as string), ' ',
            coalesce(file, ''), ' ', coalesce(key, ''), ' ', coalesce(unresolved_key, ''), ' ', kind, ' ',
            coalesce(source_zid, ''), ' ', coalesce(timestamp_id, '')
        )) as line,
        any_value(log) as log,
        any_value(writer) as writer,
        any_value(session) as session,
        any_value(generation) as generation,
        any_value(direction) as direction,
        any_value(file) as file,
        any_value(key) as key,
        any_value(unresolved_key) as unresolved_key,
        any_value(kind) as kind,
        any_value(source_zid) as source_zid,
        any_value(timestamp_id) as timestamp_id,
        count(shm) as shared,
        count(payload_sha256) as redacted
    from samples
    where request_id is null
    group by 1
),
named as (
    select
        texts.*,
        case when texts.direction = 0 then ends.opener else ends.acceptor end as sender,
        case when texts.direction = 0 then ends.opener_role else ends.acceptor_role end as sender_role,
        case when texts.direction = 0 then ends.acceptor else ends.opener end as receiver,
        case when texts.direction = 0 then ends.acceptor_role else ends.opener_role end as receiver_role
    from texts
    left join session_nodes as ends
        on ends.log is not distinct from texts.log and ends.writer is not distinct from texts.writer
        and ends.session = texts.session and ends.generation = texts.generation
)
select
    line,
    log,
    writer,
    session,
    generation,
    direction,
    file,
    key,
    unresolved_key,
    kind,
    source_zid,
    timestamp_id,
    sender,
    sender_role,
    receiver,
    receiver_role,
    case
        when source_zid is not null then source_zid
        when sender_role = 'client' then sender
        when sender_role = 'peer' and coalesce(timestamp_id, sender) = sender then sender
    end as publisher,
    xxhash64(concat(
        coalesce(log, ''), ' ', coalesce(writer, ''), ' ', session, ' ', cast(generation as string), ' ',
        cast(direction as string)
    )) as leg,
    xxhash64(concat(coalesce(key, ''), ' ', coalesce(unresolved_key, ''), ' ', kind)) as topic,
    sum(shared) over (partition by key, unresolved_key) > 0 as any_shared,
    sum(redacted) over (partition by key, unresolved_key) > 0 as any_redacted
from named
